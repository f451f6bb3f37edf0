"""Tables there that are missing, or are new ones: what stood in them is sent again."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.clickhouse.places import Place
from tests.databases.fixtures import mariadb, mysql, postgresql  # noqa: F401
from tests.databases.servers import Server
from tests.deliver.cluster_lab import ClusterLab
from tests.deliver.iceberg_lab import IcebergLab
from tests.deliver.lab import SHOP, Lab, Staged, Transactional
from tests.deliver.rows import FULL, T0, Made, attempt
from tests.deliver.test_relational import Open, count, name, opened, server, yes  # noqa: F401
from tests.world import HOUR, window
from tidegate.core.base.errors import DeliveryUnsure, LostComparison
from tidegate.core.deliver.port import Missing
from tidegate.workflow.deliver import deliver, ready


@pytest.fixture(params=[Transactional, Staged])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    found = Lab(tmp_path, request.param)
    found.hours(2)
    assert found.deliver() == ["delivered", "delivered"]
    return found


def drop(lab: Lab, tokens: bool = True) -> None:
    lab.server.columns = ()
    lab.server.rows.clear()
    if tokens:
        lab.server.tokens.clear()


@pytest.mark.parametrize("tokens", [True, False])
def test_what_stood_in_a_table_that_is_missing_is_sent_again(lab: Lab, tokens: bool) -> None:
    drop(lab, tokens)
    assert lab.deliver() == ["delivered", "delivered"]
    assert lab.server.ids(T0) == ["0-0", "0-1"]
    assert lab.deliver() == []


def test_a_delivery_that_gets_another_table_sends_all_of_its_windows_there(lab: Lab) -> None:
    """So does one that was taken out of the YAML, and is there again; those of before `since`, too."""
    before, lab.servers["shop"] = lab.server, type(lab.server)()
    lab.world.change_spec(deliver=(replace(SHOP, table="another", since_ms=T0 + HOUR),))
    assert lab.deliver() == ["delivered", "delivered"]
    assert (lab.server.ids(T0), before.ids(T0)) == (["0-0", "0-1"], ["0-0", "0-1"])


def test_a_task_that_dies_before_it_has_made_the_table_leaves_it_to_the_next(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(lab)

    def dies(system: Lab) -> list[str]:
        raise DeliveryUnsure("nobody knows")

    with monkeypatch.context() as patched:
        patched.setattr(lab.kind, "prepare", dies)
        with pytest.raises(DeliveryUnsure):
            lab.deliver()
    assert [s.split()[0] for s in lab.states()] == ["SENDING", "PENDING"], "both are due, and the first one says why"
    with lab.context() as ctx:
        assert ready.prepare(ctx, SHOP, ctx.sender(SHOP)) == 1, "nothing stands any more: it is the try that said why"
        assert [s.what for s in deliver.deliver(ctx, SHOP, ctx.sender(SHOP))] == ["delivered", "delivered"]


@pytest.mark.parametrize("tells", ["before it is due again", "before that task has come to the hour"])
def test_a_try_that_read_its_rows_back_in_a_table_that_is_gone_says_nothing_of_the_new_one(
    lab: Lab, tells: str
) -> None:
    """It sleeps before it tells the ledger. Meanwhile the table is dropped, and another task makes it again."""
    with lab.context() as ctx:
        ctx.ledger.deliveries.again(ctx.ledger.deliveries.within("readings", "shop", T0, T0 + 1)[0], "by hand")
    told: list[list[str]] = []

    def dropped_meanwhile(*mine: Any) -> Any:
        drop(lab)
        with lab.context() as ctx:
            sender, again = ctx.sender(SHOP), ctx.ledger.deliveries.again

            def late(*args: Any) -> Any:
                ctx.ledger.deliveries.again = again
                stands(*mine)
                return again(*args)

            if tells == "before it is due again":
                ctx.ledger.deliveries.again = late
            ready.prepare(ctx, SHOP, sender)
            with suppress(LostComparison):
                stands(*mine)
            told.append([s.what for s in deliver.deliver(ctx, SHOP, sender)])

    with lab.context() as ctx:
        sender = ctx.sender(SHOP)
        ready.prepare(ctx, SHOP, sender)
        stands = ctx.ledger.deliveries.stands
        ctx.ledger.deliveries.stands = dropped_meanwhile
        with suppress(LostComparison):
            list(deliver.deliver(ctx, SHOP, sender))
    lab.deliver()
    assert (lab.server.ids(T0), lab.server.ids(T0 + HOUR)) == (["0-0", "0-1"], ["1-0", "1-1"]), told


def test_what_was_left_out_stays_out(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.hours(2)
    with lab.context() as ctx:
        deliver.skip(ctx, SHOP, [window(0)], "no room")
    assert lab.deliver() == ["delivered"]
    drop(lab)
    assert lab.deliver() == ["delivered"]
    assert (lab.server.ids(T0), lab.server.ids(T0 + HOUR)) == ([], ["1-0", "1-1"])


@pytest.mark.parametrize(
    ("left", "hours"),
    [
        ({T0: 2, T0 + HOUR: 2}, []),  # a part that is new
        ({T0: 2, T0 + HOUR: 1}, [1]),
        ({T0: 2}, [1]),
        ({}, [0, 1]),
    ],
)
def test_what_had_rows_in_a_part_that_is_missing_is_sent_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, left: dict[int, int], hours: list[int]
) -> None:
    monkeypatch.setattr(lab.kind, "missing", lambda _: Missing(left=tuple(left.items())))
    assert lab.deliver() == ["delivered" for _ in hours]
    assert lab.states() == [f"STANDING 1.{2 if hour in hours else 1}" for hour in (0, 1)]


# ---------------------------------------------------------------- each kind of system


def test_a_relational_table_is_missing_until_something_was_sent_to_it(
    opened: Open,  # noqa: F811
    server: Server,  # noqa: F811
    name: str,  # noqa: F811
) -> None:
    system, rows = opened(), Made([FULL])
    assert system.missing()
    system.prepare()
    assert system.missing(), "a new one"
    system.send(attempt(1, 1, rows), rows, yes)
    assert not system.missing()
    server.run(f"DELETE FROM {name}")
    assert not system.missing(), "its tokens know what it had"
    server.run(f"DROP TABLE {name}")
    assert system.missing()
    assert count(server, f"shop.tidegate_deliveries WHERE table_name = '{name.split('.')[1]}'") == 1


def test_a_table_of_clickhouse_is_missing_where_no_shard_has_it(place: Place) -> None:
    system = place.system()
    assert system.missing()
    system.prepare()
    assert not system.missing()
    first, *others = place.clients()
    first.do(f"DROP TABLE {place.name}")
    assert system.missing() == Missing(left=() if others else None), "a shard that is added has no table yet"
    for other in others:
        other.do(f"DROP TABLE {place.name}")
    assert system.missing() == Missing()


@pytest.mark.parametrize("kind", [ClusterLab, IcebergLab])
def test_a_copy_in_another_directory_is_a_new_one(kind: type[ClusterLab], tmp_path: Path) -> None:
    lab = kind(tmp_path)
    lab.hours(2)
    assert lab.opened().missing()
    assert lab.deliver() == ["delivered", "delivered"]
    assert not lab.opened().missing()
    lab.root.rename(lab.root.with_name("kept elsewhere"))
    assert lab.opened().missing()


def test_an_iceberg_table_that_was_dropped_there_is_made_and_filled_again(tmp_path: Path) -> None:
    lab = IcebergLab(tmp_path)
    lab.hours(2)
    lab.deliver()
    (tmp_path / "there.db").unlink()
    assert lab.deliver() == ["delivered", "delivered"]
    assert (lab.ids(0), lab.ids(1)) == (["0-0", "0-1"], ["1-0", "1-1"])
