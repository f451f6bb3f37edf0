"""A database there that was restored from a backup, or whose replica has taken over without its last commits: what it
lacks of what stood there is sent again."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.databases.fixtures import KINDS, mariadb, mysql, postgresql  # noqa: F401
from tests.databases.servers import Server
from tests.deliver.lab import SHOP, Lab, RealLab, Transactional
from tests.world import HOUR, T0, window
from tidegate.core.spec.pipeline import Column
from tidegate.databases.kinds import for_workers
from tidegate.workflow.deliver import deliver, ready

WHY = "its database lacked what was delivered: restored from a backup?"


def begun(tmp_path: Path) -> Lab:
    """Two hours, of which the first one stands there."""
    found = Lab(tmp_path)
    found.hours(2)
    with found.context() as ctx:
        deliver.skip(ctx, SHOP, [window(1)], "later")
    assert found.deliver() == ["delivered"]
    return found


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return begun(tmp_path)


def brings(lab: Lab) -> None:
    """The second hour, and another generation of the first."""
    assert lab.verify(1, why="now") == ["delivered"]
    replays(lab)
    assert lab.deliver() == ["delivered"]


def replays(lab: Lab) -> None:
    lab.world.change_spec(columns=(*lab.pipeline.columns, Column(name="x", type="string", path="$.id")))
    lab.world.replay(0)


def test_what_a_restored_database_lacks_is_sent_again(tmp_path: Path) -> None:
    lab = begun(tmp_path)
    backup = lab.server.backup()
    brings(lab)
    lab.server.restore(backup)
    with lab.context() as ctx:
        said: list[str] = []
        ctx.say = said.append
        assert ready.prepare(ctx, SHOP, ctx.sender(SHOP)) == 2
        assert [row.why for row in ctx.ledger.deliveries.within("readings", "shop", 0, 2**60)] == [WHY, WHY]
    lacks = "its database lacks what was delivered of 2 windows: restored from a backup? They are sent again"
    assert said[-1:] == [f"shop: readings: {lacks}"]
    assert lab.deliver() == ["delivered", "delivered"]
    assert (lab.server.seen[T0], lab.server.ids(T0 + HOUR)) == ([2], ["1-0", "1-1"])
    assert lab.deliver() == []
    assert lab.states() == ["STANDING 2.3", "STANDING 1.2"]


def test_what_it_has_is_left_alone(lab: Lab) -> None:
    brings(lab)
    lab.server.restore(lab.server.backup())
    assert lab.deliver() == []


@pytest.mark.parametrize("state", ["SKIPPED", "SENDING", "REFUSED"])
def test_only_what_stood_there_is_touched(lab: Lab, state: str) -> None:
    backup = lab.server.backup()
    brings(lab)
    lab.server.restore(backup)
    with lab.context() as ctx:
        ledger = ctx.ledger.deliveries
        (one,) = ledger.in_force("readings", "shop", T0, T0 + 1)
        row = ledger.again(one.row, "by hand")
        if state == "SKIPPED":
            ledger.skip("readings", "shop", replace(one, row=row), "d", "no room")
        else:
            tried = ledger.take("readings", "shop", replace(one, row=row), "d", "n")
            if state == "REFUSED":
                ledger.refuse(tried, "no room")
        before = ledger.get("readings", "shop", T0)
        assert ready.prepare(ctx, SHOP, ctx.sender(SHOP)) == 1, "the other hour"
        assert ledger.get("readings", "shop", T0) == before


def at_the(lab: Lab, monkeypatch: pytest.MonkeyPatch, number: int, do: Callable[[], Any], after: bool = False) -> None:
    """Something happens right before, or `after`, that look of a run at the tries there."""
    looks, tries = [0], Transactional.tries

    def looked(system: Transactional) -> Any:
        looks[0] += 1
        here = looks[0] == number
        if here and not after:
            do()
        found = tries(system)
        if here and after:
            do()
        return found

    monkeypatch.setattr(Transactional, "tries", looked)


def test_what_another_task_sends_between_the_looks_is_there(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    at_the(lab, monkeypatch, 1, lambda: brings(lab), after=True)
    with lab.context() as ctx:
        assert ready.prepare(ctx, SHOP, ctx.sender(SHOP)) == 0
    assert lab.states() == ["STANDING 2.2", "STANDING 1.1"]


def test_what_another_task_has_sent_again_by_then_stands(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    backup = lab.server.backup()
    brings(lab)
    lab.server.restore(backup)
    at_the(lab, monkeypatch, 2, lambda: lab.deliver(), after=True)
    with lab.context() as ctx:
        assert ready.prepare(ctx, SHOP, ctx.sender(SHOP)) == 0
    assert lab.states() == ["STANDING 2.3", "STANDING 1.2"]


def test_a_try_that_was_under_way_then_and_says_that_it_stands_is_sent_again_by_the_next_run(lab: Lab) -> None:
    backup = lab.server.backup()
    assert lab.verify(1, why="now") == ["delivered"]
    with lab.context() as ctx:
        ledger = ctx.ledger.deliveries
        ledger.again(ledger.get("readings", "shop", T0 + HOUR), "by hand")
        stands = ledger.stands

        def told_late(*args: Any) -> Any:
            lab.server.restore(backup)
            return stands(*args)

        ledger.stands = told_late
        assert [s.what for s in deliver.deliver(ctx, SHOP, ctx.sender(SHOP))] == ["delivered"]
    assert lab.server.ids(T0 + HOUR) == []
    assert lab.deliver() == ["delivered"]
    assert lab.server.ids(T0 + HOUR) == ["1-0", "1-1"]


# ---------------------------------------------------------------- real databases


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def real(tmp_path: Path, server: Server) -> Iterator[RealLab]:
    delivery = replace(SHOP, kind=server.product, table=f"shop.b_{uuid.uuid4().hex[:8]}")
    made = RealLab(tmp_path, delivery, lambda: for_workers(server.connection))
    yield made
    made.close()


def test_a_database_that_lost_commits_gets_them_again(real: RealLab, server: Server) -> None:
    table = real.pipeline.deliver[0].table
    tokens, mine = "shop.tidegate_deliveries", f"table_name = '{table[5:]}'"
    real.hours(2)
    assert real.deliver() == ["delivered", "delivered"]
    server.run(f"CREATE TABLE {table}_kept AS SELECT * FROM {table} WHERE id LIKE '0-%'")
    server.run(f"CREATE TABLE {table}_tokens AS SELECT * FROM {tokens} WHERE {mine} ORDER BY window_ms LIMIT 1")
    replays(real)
    assert real.deliver() == ["delivered"]
    server.run(f"DROP TABLE {table}", f"DELETE FROM {tokens} WHERE {mine}")
    server.run(
        f"CREATE TABLE {table} AS SELECT * FROM {table}_kept", f"INSERT INTO {tokens} SELECT * FROM {table}_tokens"
    )
    assert real.deliver() == ["delivered", "delivered"]
    assert sorted(row[0] for row in server.run(f"SELECT id FROM {table}")) == ["0-0", "0-1", "1-0", "1-1"]
    stand = server.run(f"SELECT generation, epoch FROM {tokens} WHERE {mine} ORDER BY window_ms")
    assert stand == [(2, 3), (1, 2)]
    assert real.deliver() == []
