"""Kinds of generations: what is true of each is in one table, who makes each in another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tidegate
from tidegate.core.window import kinds
from tidegate.core.window.kinds import command_of, of_kind
from tidegate.core.window.states import ARCHIVE, HEAL, REOPEN, REPLAY, REREAD, ROLLBACK
from tidegate.workflow.generation import makers, rebuild, salvage

ALL = (ARCHIVE, HEAL, REPLAY, REOPEN, ROLLBACK, REREAD)
CODE = Path(tidegate.__file__).parent


def test_each_kind_is_known_and_made() -> None:
    assert tuple(kinds._KINDS) == tuple(makers._MAKERS) == ALL
    assert makers.maker(ARCHIVE).build is salvage.first
    assert makers.maker(REPLAY).unchanged is rebuild.unchanged


def test_what_is_true_of_each() -> None:
    for name in ("landed", "takes_up", "restores", "rereads"):
        assert [kind for kind in ALL if getattr(of_kind(kind), name)] == [
            {"landed": ARCHIVE, "takes_up": REOPEN, "restores": ROLLBACK, "rereads": REREAD}[name]
        ]
    assert [kind for kind in ALL if of_kind(kind).decoded] == [HEAL, REPLAY, REREAD]


def test_the_command_that_goes_on_with_each() -> None:
    at = "2013-01-05T00:00Z"
    assert [command_of(kind, "p", 1_357_344_000_000) for kind in ALL] == [
        None,
        None,
        f"tidegate replay p {at}",
        f"tidegate reopen p {at}",
        f"tidegate rollback p {at} --why '...'",
        f"tidegate replay p {at} --from source",
    ]


@pytest.mark.parametrize("layer", ["core", "workflow"])
def test_no_rule_compares_a_generations_kind_with_its_name(layer: str) -> None:
    named = re.compile(rf"""\.kind\s*(==|!=|in|not in)\s*\(?"({"|".join(ALL)})\"""")
    assert [p.name for p in sorted((CODE / layer).rglob("*.py")) if named.search(p.read_text())] == []
