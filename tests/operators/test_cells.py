"""The list of cells itself: it follows the DAGs, the sample covers what it says, the page says what each cell does."""

from __future__ import annotations

import re

import airflow_home  # noqa: F401  (before airflow)

from dev.stack.places import Places
from tests.operators.cells import STATES, every, sample, tasks, traits
from tests.operators.clearing import SCENES
from tests.operators.ways import SCOPES, WAYS


def test_every_task_meets_every_state_and_way() -> None:
    cells = every()
    assert len({cell.name for cell in cells}) == len(cells)
    wanted = {(kind, task, state, way) for kind, task in tasks() for state in STATES for way in WAYS}
    assert {(c.kind, c.task, c.state, c.way) for c in cells} == wanted
    assert {(c.task, c.scope) for c in cells} == {(task, scope) for _, task in tasks() for scope in SCOPES}


def test_it_is_said_how_every_task_fails_and_runs() -> None:
    assert set(SCENES) == set(tasks())


def test_every_task_and_each_state_by_every_way_is_in_the_sample() -> None:
    cells = every()
    wanted = {trait for cell in cells for trait in traits(cell)}
    chosen = sample(cells)
    assert {trait for cell in chosen for trait in traits(cell)} == wanted
    assert chosen == sample(cells)
    assert len(chosen) < len(cells) / 6


def test_the_page_says_what_clear_does_for_every_task_and_state() -> None:
    text = (Places.of_checkout().checkout / "docs/operating-airflow.md").read_text()
    rows = re.findall(r"^\| (\w+) \| (\w+) \| (\w+) \| (.+) \|$", text, re.MULTILINE)
    said = [(kind, task, state) for kind, task, state, _ in rows]
    said = [row for row in said if row[0] not in ("apply", "copy")]  # of mirrors: test_mirror.py, make demo-mirror
    assert said == [(kind, task, state) for kind, task in tasks() for state in STATES]
