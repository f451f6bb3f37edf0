"""Readers of changes by token: each event once, over restarts, wherever they stop."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.cli.test_cli_commands import Tide, the_json
from tests.mirror.test_commands import tide, world
from tests.mirror.worlds import YAML, MirrorWorld, event
from tests.world import World
from tidegate.changes import Changes, changes
from tidegate.core.base.errors import Alarm, LedgerError, NotReady, SpecError
from tidegate.core.mirror.applies import Landed
from tidegate.core.mirror.changes import batch_of, between
from tidegate.workflow.batch import ingest
from tidegate.workflow.maintain import reconcile

__all__ = ["tide", "world"]  # fixtures


def read(world: MirrorWorld, after: str | None = None, until: str | None = None) -> Changes:
    world.close()
    return changes("readings", after, until, ledger=f"sqlite:///{world.database}")


def ids(found: Changes) -> list[tuple[int, int]]:
    return sorted(zip(*(found.arrow().to_pydict()[c] for c in ("id", "_position_commit")), strict=True))


def test_each_event_is_read_once_whatever_dies(tmp_path: Path) -> None:
    """A reader commits its events together with the token, or dies before that and begins again from the old one."""
    made, dice = MirrorWorld(tmp_path), random.Random("changes")
    sent, kept, token = 0, list[tuple[int, int]](), None
    for _ in range(12):
        if dice.random() < 0.7:
            events = [event(dice.randrange(9), "x", sent + n + 1) for n in range(dice.randint(1, 5))]
            sent += len(events)
            made.land(*events)
        if dice.random() < 0.3:
            made.apply()
        found = read(made, token)
        if dice.random() < 0.6:
            kept, token = kept + ids(found) if found.files else kept, found.token
    kept += ids(found) if (found := read(made, token)).files else []
    assert sorted(commit % 2**40 for _, commit in kept) == list(range(1, sent + 1))
    made.close()


def test_until_ends_a_reading_and_the_same_token_gives_the_same(world: MirrorWorld) -> None:
    world.land(event(9, "z", 30))
    whole, first, rest = read(world), read(world, until="2"), read(world, "2")
    assert (whole.token, first.token, rest.token) == ("3", "2", "3")
    assert [*first.files, *rest.files] == [*whole.files]
    assert read(world, "2") == rest
    assert read(world, "3") == Changes(pipeline="readings", token="3", files=())
    assert read(world, "3").arrow().num_rows == 0


def test_a_column_that_came_later_is_null_before(tmp_path: Path) -> None:
    made = MirrorWorld(tmp_path)
    made.land(event(1, "a", 10))
    more = YAML.replace(
        "  - {{name: word, type: string}}", "  - {{name: word, type: string}}\n  - {{name: more, type: int}}"
    )
    from tests.mirror.worlds import mirror

    made.pipeline = mirror(tmp_path, more)
    made.land(event(2, "b", 20))
    assert read(made).arrow().to_pydict()["more"] == [None, None]
    assert read(made).arrow(columns=["id"]).column_names == ["id"]
    made.close()


def test_a_batch_that_was_given_up_has_no_events(world: MirrorWorld) -> None:
    world.send(event(5, "lost", 30))
    ingest.plan(world.context(), "dies")
    reconcile.abandon(world.context(), 3, "lost", force=True)
    assert (read(world, "2").token, read(world, "2").files) == ("3", ())


def test_an_open_batch_is_not_read_yet(world: MirrorWorld) -> None:
    world.send(event(5, "later", 30))
    ingest.plan(world.context(), "under way")
    assert read(world).token == "2"
    with pytest.raises(NotReady, match="batch 3 has not landed yet, the newest is 2"):
        read(world, until="3")


def test_what_is_no_token_is_refused(world: MirrorWorld) -> None:
    with pytest.raises(ValueError, match="is no token of changes"):
        read(world, "yesterday")
    with pytest.raises(SpecError, match="the token names batch 9, but the newest that has landed is 2"):
        read(world, "9")
    with pytest.raises(SpecError, match="batch 1 is before the token's, 2"):
        read(world, "2", "1")
    with pytest.raises(LedgerError):
        changes("nobody", ledger=f"sqlite:///{world.database}")


def test_a_pipeline_with_windows_has_its_hours_read(tmp_path: Path) -> None:
    made = World(tmp_path)
    made.context()
    made.close()
    with pytest.raises(SpecError, match="is published by windows"):
        changes("readings", ledger=f"sqlite:///{made.database}")


def test_a_hole_is_never_passed_over() -> None:
    assert between("p", 1, None, Landed(rows={2: 1}, newest=2, open_batch=None)) is not None
    with pytest.raises(Alarm, match="does not know of batch 2"):
        between("p", 1, None, Landed(rows={3: 1}, newest=3, open_batch=None))
    assert [batch_of(t) for t in (None, "0", "17", 4)] == [0, 0, 17, 4]


def test_the_command(tide: Tide) -> None:
    found = tide("changes", "readings")
    assert found.exit_code == 0
    assert found.stdout.splitlines()[-1] == "readings: 4 events; token 2"
    told = the_json(tide("changes", "lake.readings", "--after", "1", "--json"))
    assert (told["token"], told["rows"], [f["batch_id"] for f in told["files"]]) == ("2", 2, [2])
    assert tide("changes", "readings", "--after", "x").exit_code == 2
    assert tide("changes", "readings", "--until", "7").exit_code == 1
