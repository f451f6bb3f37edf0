"""Each rule of the protocols, taken out: the happy path does not notice, an attack does, by an invariant's name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import world
from tests.mutants.attacks import ATTACKS
from tests.mutants.bugs import BUGS
from tests.mutants.happy import happy_path
from tests.mutants.names import NAMES
from tests.mutants.planting import ROOT, Planted
from tests.mutants.quick import quick
from tests.mutants.stage import Stage

RULES = [*(f"R{i}" for i in range(1, 16)), *(f"C{i}" for i in range(1, 11))]


@pytest.fixture(scope="module", autouse=True)
def cheap_worlds() -> Iterator[None]:
    before = os.fsync, world.make_engine  # type: ignore[attr-defined]
    quick()
    yield
    os.fsync, world.make_engine = before  # type: ignore[attr-defined]


@pytest.mark.parametrize("swap", ["pointer", "directory"])
def test_the_happy_path(tmp_path: Path, swap: str) -> None:
    happy_path(Stage(tmp_path), swap)


def test_the_happy_path_of_iceberg(tmp_path: Path) -> None:
    happy_path(Stage(tmp_path), target="iceberg")


@pytest.mark.parametrize("name", ATTACKS)
def test_the_code_withstands(name: str, tmp_path: Path) -> None:
    ATTACKS[name](Stage(tmp_path))


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_still_applies(name: str) -> None:
    """Fails with the seam that is gone, or takes other arguments: adapt the bug to the code."""
    bug = BUGS[name]
    Planted(bug)
    assert bug.attack in ATTACKS
    assert bug.violates in NAMES


def test_every_rule_is_taken_out_and_every_attack_is_used() -> None:
    named = {word.rstrip(":,") for bug in BUGS.values() for word in bug.rule.split()}
    assert [r for r in RULES if r not in named] == []
    assert len(BUGS) >= 25
    assert set(ATTACKS) - {bug.attack for bug in BUGS.values()} == set()


@pytest.fixture(scope="module")
def planted(request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    """What became of each selected bug; all of them in one go, two at a time."""
    wanted = {
        item.callspec.params["bug"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and (item.path, item.originalname) == (request.path, "test_a_planted_bug_is_killed")
        and item.get_closest_marker("skip") is None
    }
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants.nursery", str(world._empty_ledger())],
        input="\n".join(sorted(wanted)), cwd=ROOT, env=env, capture_output=True, text=True, timeout=3600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {told.pop("bug"): told for told in map(json.loads, done.stdout.splitlines())}


def test_all_planted_bugs_are_tried(planted: dict[str, dict[str, Any]]) -> None:
    """Here is the time that all of them take, and not with the first one."""
    assert planted.keys() <= BUGS.keys()


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_killed(planted: dict[str, dict[str, Any]], bug: str) -> None:
    told = planted[bug]
    assert "happy" not in told, f"a bad bug: the happy path meets it: {told['happy']}"
    assert "error" not in told, f"not killed by an invariant:\n{told['error']}"
    assert told["never_called"] == [], "the bug was not in what ran"
    assert "violated" in told, f"{bug} survived {BUGS[bug].attack} ({BUGS[bug].rule})"
    assert told["violated"] == BUGS[bug].violates, told["detail"]
