"""Wrong rules, planted in the core one by one: the simulation must find each, by the name of what it violates.

    python -m tests.simulation --planted

Each is tried in a process of its own (`tests.mutants.planting`), life after life of one seed, until a life goes wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from tests.mutants import seams
from tests.mutants.planting import ROOT, Bug, Patch, Planted, always
from tests.simulation.life import live
from tidegate.core.base.instants import DAY_MS
from tidegate.core.batch.planning import advance
from tidegate.core.window.cut import window_start
from tidegate.core.window.lateness import REROUTE, Floor, by_policy, floor_of
from tidegate.core.window.watermark import TopicFacts, global_watermark, watermarks

MOST_LIVES = 60


def _each(facts: TopicFacts, **values: Any) -> TopicFacts:
    return replace(facts, partitions=tuple(replace(p, **values) for p in facts.partitions))


def _without_records(original, mark, window):
    return mark.watermark_ms is not None and original(mark, window)


def _its_begin(original, mark, window):
    return original(mark, replace(window, end_ms=window.start_ms))


def _without_delay(original, windows, p):
    return original(replace(windows, watermark_delay_ms=0), p)


def _without_clock(original, windows, p):
    return original(windows, replace(p, advanced_ms=None))


def _now(original, self, receipt):
    return dict.fromkeys(original(self, receipt), self.world.now)


def _but_for_open_transactions(original, self):
    return self.end == self.last_stable_offset


def _with_a_backlog(original, windows, facts, now_ms=None):
    return original(windows, _each(facts, drained=True), now_ms)


def _its_own_progress(original, self, p):
    return original(replace(self, second_ms=self.newest_ms), p)


def _empty_ones_too(original, before, plan, max_event_ms):
    return _each(original(before, plan, max_event_ms), advanced_ms=plan.clock_ms)


def _by_the_askers_clock(original, self):
    return original(replace(self, plan_ms=self.now_ms or self.plan_ms))


def _a_window_later(original, pipeline, before, plan):
    old, new = (global_watermark(watermarks(pipeline.windows, f)) for f in (before, advance(before, plan, {})))
    is_far = old is None or new is None or new > old + pipeline.windows.size_ms
    return is_far and original(pipeline, before, plan)


def _of_this_batch_alone(original, before, plan, max_event_ms):
    return original(_each(before, max_event_ms=None), plan, max_event_ms)


def _half(original, pipeline, topic, starts, stretches):
    ends = original(pipeline, topic, starts, stretches)
    return {p: starts[p] + (end - starts[p] + 1) // 2 for p, end in ends.items()}


def _to_the_high_watermark(original, pipeline, topic, starts, stretches):
    offsets = {p: replace(o, last_stable_offset=o.high_watermark) for p, o in topic.partitions.items()}
    return original(pipeline, replace(topic, partitions=offsets), starts, stretches)


def _from_the_end(original, pipeline, view, topic, first_offsets):
    ends = {p: o.last_stable_offset for p, o in topic.partitions.items()}
    return original(pipeline, view, topic, ends | first_offsets)


def _without_losses(original, *args):
    return original(*args)[0], ()


def _the_first_closed_alone(original, windows, not_open, clock_ms, policy="side"):
    floor = original(windows, not_open, clock_ms, policy)
    return by_policy(replace(floor, closed=floor.closed[:1]), windows, policy)


def _above_all_closed(original, windows, not_open, clock_ms, policy="side"):
    floor = original(windows, not_open, clock_ms, policy)
    return by_policy(Floor(max([floor.low_ms, *(c.end for c in floor.closed)])), windows, policy)


def _where_the_floor_begins(original, floor, windows, policy):
    found = original(floor, windows, policy)
    return replace(found, reroute_ms=window_start(floor.low_ms, windows)) if policy == REROUTE else found


def _the_floor_of_now(original, self, plan):
    spec = self.pipeline
    now = floor_of(spec.windows, self.ledger.view().not_open, plan.clock_ms, spec.late_policy)
    return original(self, replace(plan, floor=now))


def _a_day_has_24_hours(original, start_ms, windows):
    return original(start_ms, windows) if windows.size_ms < DAY_MS else start_ms + DAY_MS


_EARLY, _DELAYED = "no window is published before its time", "none later than one batch after it could have been"
_LEFT = "a topic that has ended leaves no window behind that its policy closes"
_SAME, _ONCE = "decisions are identical on re-run", "every record is in exactly one place"


def _bug(name: str, violates: str, seam: str, bug: Callable[..., Any]) -> Bug:
    """`violates`: by the names of the oracle; of several with ` | ` between, whichever comes first."""
    return Bug(name, "event time", "the simulation", violates, (Patch(seam, bug),))


_BUGS = (
    _bug("a partition without records is ignored", _EARLY, seams.BLOCKS_A_WINDOW, _without_records),
    _bug("the delay is forgotten", _EARLY, seams.OWN_WATERMARK, _without_delay),
    _bug("a fast clock moves the watermark ahead of time", _EARLY, seams.OWN_WATERMARK, _without_clock),
    _bug("rows from the future move the watermark", _EARLY, seams.COURSE_EVENTS, _now),
    _bug("drained but for an open transaction is drained", _EARLY, seams.DRAINED, _but_for_open_transactions),
    _bug("the others stand in for a partition with a backlog", _EARLY, seams.WATERMARKS, _with_a_backlog),
    _bug("a partition's own progress stands in for itself", _EARLY, seams.CLOCK_STANDS_IN, _its_own_progress),
    _bug("an empty batch counts as progress", f"{_EARLY} | {_DELAYED}", seams.ADVANCE, _empty_ones_too),
    _bug("silence is counted by the wrong clock", _EARLY, seams.CLOCK_MEETS_SILENCE, _by_the_askers_clock),
    _bug("the clock stands in for a producer that catches up", _EARLY, seams.CLOCK_MEETS_BACKLOG, always(False)),
    _bug("the clock stands in for a load of old data", _EARLY, seams.TOPIC_LAGS, always(False)),
    _bug("a window is ready when its watermark has begun it", _EARLY, seams.BLOCKS_A_WINDOW, _its_begin),
    _bug("a close does not wait for the open batch", _EARLY, seams.COURSE_WAITS, always(False)),
    _bug("no empty batch is planned", _DELAYED, seams.MOVES_WATERMARK, always(False)),
    _bug("an empty batch waits for a whole window", _DELAYED, seams.MOVES_WATERMARK, _a_window_later),
    _bug("what earlier batches have seen is forgotten", _DELAYED, seams.ADVANCE, _of_this_batch_alone),
    _bug("only half of what is new is read", _DELAYED, seams.ENDS_OF_A_PLAN, _half),
    _bug("a batch reads past the last stable offset", _EARLY, seams.ENDS_OF_A_PLAN, _to_the_high_watermark),
    _bug("a new partition is read from its end on", _ONCE, seams.STARTS_OF_A_PLAN, _from_the_end),
    _bug("a loss is not recorded", _ONCE, seams.STARTS_OF_A_PLAN, _without_losses),
    _bug("the floor forgets what was closed out of order", _ONCE, seams.FLOOR, _the_first_closed_alone),
    _bug("the floor is the highest window that has closed", _ONCE, seams.FLOOR, _above_all_closed),
    _bug("late rows are rerouted to where the floor begins", _ONCE, seams.FLOOR_BY_POLICY, _where_the_floor_begins),
    _bug("the floor is not pinned", _SAME, seams.COURSE_ATTEMPT, _the_floor_of_now),
    _bug("a plan is committed whatever has closed meanwhile", _ONCE, seams.COURSE_IS_CURRENT, always(True)),
    _bug("every local day has 24 hours", f"{_ONCE} | {_DELAYED} | {_LEFT}", seams.WINDOW_END, _a_day_has_24_hours),
)
"""Those in `course` stand for rules of the ledger's and the workflow's."""
BUGS: dict[str, Bug] = {bug.name: bug for bug in _BUGS}


@dataclass(frozen=True)
class Found:
    """`name`: what was violated, None if nothing was; after so many lives, windows and records."""

    bug: str
    name: str | None
    lives: int
    windows: int
    records: int
    detail: str

    @property
    def is_right(self) -> bool:
        return self.name in BUGS[self.bug].violates.split(" | ")


def hunt(bugs: Iterable[str], seed: str, at_once: int = 2, by_promise: bool = False) -> Iterator[Found]:
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(lambda bug: _in_a_child(bug, seed, by_promise), bugs)


def _in_a_child(bug: str, seed: str, by_promise: bool) -> Found:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])}
    command = [sys.executable, "-m", "tests.simulation.planted", bug, seed, "promise" if by_promise else "all"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=3600)
    if done.returncode != 0:
        raise RuntimeError(f"{bug}: {done.stderr[-3000:]}")
    return Found(**json.loads(done.stdout))


def _hunt_here(bug: str, seed: str, by: str) -> Found:
    lives = windows = records = 0
    wrong = None
    with Planted(BUGS[bug]) as planted:
        while wrong is None and lives < MOST_LIVES:
            lived = live(f"{seed}:{lives}", by_promise=by == "promise")
            lives, windows, records = lives + 1, windows + lived.tally.closes, records + lived.tally.records
            wrong = lived.wrong
        if planted.never_called():
            raise RuntimeError(f"{bug} was not in what ran")
    return Found(bug, wrong and wrong.name, lives, windows, records, "" if wrong is None else wrong.detail[:300])


if __name__ == "__main__":
    print(json.dumps(vars(_hunt_here(*sys.argv[1:]))))
