"""One life of a topic and its pipeline by a seed, from its setting to its books."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from tests.simulation.course import Course
from tests.simulation.generator import World
from tests.simulation.oracle import Oracle
from tests.simulation.pipelines import calendar_of
from tests.simulation.settings import Setting, draw
from tests.simulation.verdicts import Tally, Violated


@dataclass(frozen=True)
class Lived:
    """`wrong`: what was violated, if anything was; a life ends there."""

    seed: str
    setting: Setting
    tally: Tally
    meetings: Counter[str]
    journal: str
    wrong: Violated | None = None


def begin(seed: str, setting: Setting | None = None, by_promise: bool = False) -> tuple[Course, Oracle, Setting]:
    """Nothing but the seed decides, so that it is the same life every time."""
    setting = setting or draw(random.Random(seed))
    world = World(setting, random.Random(f"{seed} world"))
    oracle = Oracle(setting, world.topic, calendar_of(setting), by_promise)
    return Course(setting, random.Random(f"{seed} course"), world, oracle), oracle, setting


def live(seed: str, setting: Setting | None = None, by_promise: bool = False) -> Lived:
    course, oracle, setting = begin(seed, setting, by_promise)
    journal, wrong = "", None
    try:
        journal = course.live()
    except Violated as e:
        wrong = e
    return Lived(seed, setting, oracle.tally, course.meetings, journal, wrong)
