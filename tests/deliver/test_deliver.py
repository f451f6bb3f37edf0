"""Windows on their way to further systems: what is due, what supersedes what, and what a person may do."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.audit.audits import look
from tests.deliver.lab import SHOP, Lab, Staged, Transactional
from tests.world import HOUR, T0, record, window
from tidegate.core.base.errors import DeliveryDenied, DeliveryUnsure
from tidegate.core.deliver.columns import delivered_columns
from tidegate.core.spec.pipeline import Column, Delivery
from tidegate.workflow.deliver import content, deliver, ready
from tidegate.workflow.late import reopen
from tidegate.workflow.replay import rollback

W0, W1 = T0, T0 + HOUR


@pytest.fixture(params=[Transactional, Staged])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    return Lab(tmp_path, request.param)


def more_columns(lab: Lab) -> None:
    """So that a replay makes another generation."""
    lab.world.change_spec(columns=(*lab.pipeline.columns, Column(name="x", type="string", path="$.id")))


def test_published_hours_are_delivered_once(lab: Lab) -> None:
    lab.hours(2)
    assert lab.states() == []
    assert lab.deliver() == ["delivered", "delivered"]
    assert (lab.server.ids(W0), lab.server.ids(W1)) == (["0-0", "0-1"], ["1-0", "1-1"])
    assert lab.states() == ["STANDING 1.1", "STANDING 1.1"]
    assert lab.deliver() == []
    assert len(lab.server.sent) == 2


def test_a_row_is_what_the_table_has_of_it(lab: Lab) -> None:
    lab.hours(1)
    lab.deliver()
    (first,) = (row for batch in lab.server.rows[W0] for row in batch.to_pylist() if row["id"] == "0-0")
    assert list(first) == [name for name, _ in delivered_columns(lab.pipeline)]
    assert first["_window"].timestamp() * 1000 == W0
    assert (first["site"], first["value"], first["_partition"], first["_offset"]) == ("b", 1, 0, 0)


def test_a_replay_reaches_the_delivery_by_itself(lab: Lab) -> None:
    lab.hours(2)
    lab.deliver()
    more_columns(lab)
    assert lab.world.replay(0).generation == 2
    assert lab.deliver() == ["delivered"]
    assert lab.server.seen[W0] == [1, 2]
    assert {row["x"] for batch in lab.server.rows[W0] for row in batch.to_pylist()} == {"0-0", "0-1"}
    assert {row.get("x") for batch in lab.server.rows[W1] for row in batch.to_pylist()} == {None}
    assert lab.states() == ["STANDING 2.2", "STANDING 1.1"]


def test_a_reopening_reaches_it(lab: Lab) -> None:
    lab.hours(1)
    lab.deliver()
    lab.world.produce(record("late", 0.2))
    lab.world.ingest("second")
    with lab.context() as ctx:
        reopen.reopen(ctx, window(0))
    assert lab.deliver() == ["delivered"]
    assert lab.server.ids(W0) == ["0-0", "0-1", "late"]


def test_a_rollback_reaches_it(lab: Lab) -> None:
    lab.hours(1)
    lab.deliver()
    more_columns(lab)
    lab.world.replay(0)
    lab.deliver()
    with lab.context() as ctx:
        rollback.rollback(ctx, window(0), 1, "it was right before")
    assert lab.deliver() == ["delivered"]
    assert lab.server.seen[W0] == [1, 2, 3]
    assert lab.states() == ["STANDING 3.3"]


def test_a_delivery_that_is_down_holds_up_no_other(tmp_path: Path) -> None:
    other = Delivery(name="other", kind="postgresql", conn_id="pg2", table="readings")
    lab = Lab(tmp_path, Transactional, other)
    lab.hours(5)
    lab.servers["shop"].around = lambda name, do: (_ for _ in ()).throw(DeliveryUnsure("no answer"))
    assert lab.deliver() == ["failed"] * deliver.DOWN
    assert lab.deliver("other") == ["delivered"] * 5
    assert lab.servers["other"].ids(W0) == ["0-0", "0-1"]
    with lab.context() as ctx:
        assert [d.why for d in ctx.ledger.deliveries.due("readings", "shop", None, 9)] == ["no answer"] * 3 + [""] * 2
    lab.servers["shop"].around = lambda name, do: do()
    assert lab.deliver() == ["delivered"] * 5


def test_a_login_that_is_refused_in_the_middle_refuses_no_hour(lab: Lab) -> None:
    """Once it is renewed, the next run sends what is due, and nobody names an hour."""
    lab.hours(5)
    lab.server.around = lambda name, do: (_ for _ in ()).throw(DeliveryDenied("no such password", advice="renew it"))
    assert lab.deliver() == ["failed"] * deliver.DOWN
    assert [s.split()[0] for s in lab.states()] == ["SENDING"] * deliver.DOWN
    lab.server.around = lambda name, do: do()
    assert lab.deliver() == ["delivered"] * 5


def test_an_older_window_than_since_waits_for_somebody(lab: Lab) -> None:
    lab.hours(3)
    lab.world.change_spec(deliver=(Delivery(**{**vars(SHOP), "since_ms": W1}),))
    assert lab.deliver() == ["delivered", "delivered"]
    assert lab.verify(0) == ["delivered"]
    assert lab.server.ids(W0) == ["0-0", "0-1"]
    more_columns(lab)
    lab.world.replay(0)
    assert lab.deliver() == ["delivered"], "who reads it there gets the newer generation, too"


def test_clear_compares_and_sends_what_differs(lab: Lab) -> None:
    lab.hours(2)
    lab.deliver()
    assert lab.verify(0, 1) == ["unchanged", "unchanged"]
    lab.server.rows[W1] = lab.server.rows[W1][:1]
    assert lab.verify(0, 1) == ["unchanged", "delivered"]
    assert lab.server.ids(W1) == ["1-0", "1-1"]
    assert lab.states() == ["STANDING 1.1", "STANDING 1.2"]
    del lab.server.rows[W0]
    assert lab.verify(0) == ["delivered"]


def test_clear_sees_other_values(lab: Lab) -> None:
    lab.hours(1)
    lab.deliver()
    (batch,) = lab.server.rows[W0][:1]
    at = batch.schema.get_field_index("value")
    lab.server.rows[W0][0] = batch.set_column(at, "value", pa.array([77] * len(batch), pa.int32()))
    assert lab.verify(0) == ["delivered"]
    assert lab.verify(0) == ["unchanged"]


def test_again_sends_what_stands(lab: Lab) -> None:
    lab.hours(1)
    lab.deliver()
    assert lab.verify(0, why="somebody doubts it") == ["delivered"]
    assert lab.states() == ["STANDING 1.2"]


def test_a_skipped_generation_is_not_sent_and_the_next_one_is(lab: Lab) -> None:
    lab.hours(2)
    with lab.context() as ctx:
        (done,) = deliver.skip(ctx, SHOP, [window(0)], "nobody needs it there")
    assert done.what == "skipped"
    assert lab.deliver() == ["delivered"]
    assert lab.states() == ["SKIPPED 1.0", "STANDING 1.1"]
    assert lab.verify(0) == ["skipped"]
    with lab.context() as ctx:
        assert [s.what for s in deliver.skip(ctx, SHOP, [window(0), window(1)], "again")] == ["skipped"]
    more_columns(lab)
    lab.world.replay(0)
    assert lab.deliver() == ["delivered"]
    assert lab.verify(0, why="after all") == ["delivered"]


def test_an_hour_without_rows_takes_the_old_rows_away(lab: Lab) -> None:
    lab.hours(1)
    lab.deliver()
    lab.world.change_spec(where="value > 5")
    assert lab.world.replay(0).rows in (0, 2)
    lab.deliver()
    with lab.context() as ctx:
        found = ctx.ledger.windows.get("readings", window(0))
        assert lab.server.seen[W0][-1] == found.current


def test_an_empty_hour_is_delivered(lab: Lab) -> None:
    lab.world.produce(record("a", 1.1), record("open", 9.5))
    lab.world.produce(record("open", 9.5), partition=1)
    lab.world.ingest("first")
    lab.world.archive(0)
    lab.server.rows[W0] = []
    assert lab.deliver() == ["delivered"]
    assert (lab.server.ids(W0), lab.states()) == ([], ["STANDING 1.1"])


def test_rows_of_the_overflow_partition_have_their_own_values(lab: Lab) -> None:
    from dataclasses import replace

    lab.world.change_spec(sink=replace(lab.pipeline.sink, max_partitions=1))
    lab.world.produce(*(record(f"r{i}", 0.1, site=f"s{i}") for i in range(4)), record("open", 9.5))
    lab.world.produce(record("open", 9.5), partition=1)
    lab.world.ingest("first")
    lab.world.archive(0)
    lab.deliver()
    rows = [row for batch in lab.server.rows[W0] for row in batch.to_pylist()]
    assert sorted((row["id"], row["site"]) for row in rows) == [(f"r{i}", f"s{i}") for i in range(4)]


def test_a_lost_file_is_told_and_others_go_on(lab: Lab) -> None:
    lab.hours(2)
    for path in Path(lab.world.folder, "lake/readings/date=2013-01-05/hour=00").rglob("*.parquet"):
        path.unlink()
    assert lab.deliver() == ["failed", "delivered"]


def test_bytes_that_are_not_what_was_written_are_never_shown(lab: Lab) -> None:
    lab.hours(2)
    for path in Path(lab.world.folder, "lake/readings/date=2013-01-05/hour=00").rglob("*.parquet"):
        path.write_bytes(path.read_bytes()[::-1])
    assert lab.deliver() == ["refused", "delivered"]
    assert lab.server.ids(W0) == []


def test_stagings_are_removed(tmp_path: Path) -> None:
    lab = Lab(tmp_path, Staged)
    lab.hours(2)
    lab.deliver()
    assert lab.server.staged == {}


# ---------------------------------------------------------------- answers that are lost, tries that die


class Once:
    """The first change of a name: `lost` its request, or its `reply`; or it `waits` until somebody lets it go."""

    def __init__(self, name: str, fate: str) -> None:
        self.name, self.fate, self.waiting = name, fate, None
        self.met = False

    def __call__(self, name: str, do: Any) -> None:
        if name != self.name or self.met:
            return do()
        self.met = True
        if self.fate == "reply":
            do()
        if self.fate == "waits":
            self.waiting = do
        raise DeliveryUnsure(f"{name}: no answer")


CHANGES = {Transactional: ("commit",), Staged: ("create", "insert", "drop", "replace")}


@pytest.mark.parametrize("fate", ["request", "reply", "waits"])
@pytest.mark.parametrize(("kind", "name"), [(k, n) for k, names in CHANGES.items() for n in names])
def test_a_change_without_an_answer(tmp_path: Path, kind: Any, name: str, fate: str) -> None:
    """The next try goes on, and what is executed late changes nothing that a reader meets."""
    lab = Lab(tmp_path, kind)
    lab.hours(2)
    if name == "drop":
        lab.server.staged = {f"{W0}_1_1_dead": [], f"{W1}_0_9_dead": []}
    lab.server.around = once = Once(name, fate)
    lab.deliver()
    lab.deliver()
    assert once.met
    assert lab.server.ids(W0) == ["0-0", "0-1"]
    if once.waiting is not None:
        try:
            once.waiting()
        except Exception:
            pass
    assert (lab.server.ids(W0), lab.server.ids(W1)) == (["0-0", "0-1"], ["1-0", "1-1"])
    assert [s.split()[0] for s in lab.states()] == ["STANDING", "STANDING"]
    assert lab.verify(0, 1) == ["unchanged", "unchanged"]


@pytest.mark.parametrize("name", ["commit"])
def test_a_commit_that_is_late_does_not_bring_an_older_generation_back(tmp_path: Path, name: str) -> None:
    lab = Lab(tmp_path, Transactional)
    lab.hours(1)
    lab.server.around = once = Once(name, "waits")
    lab.deliver()
    more_columns(lab)
    lab.world.replay(0)
    assert lab.deliver() == ["delivered"]
    once.waiting()  # type: ignore[misc]
    assert lab.server.seen[W0] == [2]


def test_a_try_whose_end_nobody_told_of_is_found_by_its_token(tmp_path: Path) -> None:
    lab = Lab(tmp_path, Transactional)
    lab.hours(1)
    with lab.context() as ctx:
        sender = ctx.sender(SHOP)
        ready.prepare(ctx, SHOP, sender)
        (one,) = ctx.ledger.deliveries.due("readings", "shop", None, 9)
        tried = ctx.ledger.deliveries.take("readings", "shop", one, "d", "aa")
        sender.send(tried.attempt(2), content.of(ctx, one).generation, lambda: True)
    assert lab.states() == ["SENDING 1.1"]
    assert lab.deliver() == ["delivered"]
    assert (lab.states(), len(lab.server.sent)) == (["STANDING 1.1"], 1)


def test_a_try_that_sent_nothing_is_not_found(tmp_path: Path) -> None:
    lab = Lab(tmp_path, Transactional)
    lab.hours(1)
    lab.deliver()
    more_columns(lab)
    lab.world.replay(0)
    lab.server.around = Once("commit", "request")
    assert lab.deliver() == ["failed"]
    assert lab.deliver() == ["delivered"]
    assert lab.server.seen[W0] == [1, 2]


def test_a_newer_generation_before_an_older_try_has_shown_anything(tmp_path: Path) -> None:
    """It has come into force, and nobody has begun to send it."""
    lab = Lab(tmp_path, Staged)
    lab.hours(1)
    more_columns(lab)

    def replay(name: str, do: Any) -> None:
        lab.server.around = lambda name, do: do()
        lab.world.replay(0)
        do()

    lab.server.around = replay
    assert lab.deliver()[0] == "overtaken"
    assert lab.deliver() in ([], ["delivered"])
    assert lab.server.seen[W0] == [2]


def test_a_newer_generation_while_an_older_is_in_flight(lab: Lab) -> None:
    """The older try asks the ledger last, and shows nothing."""
    lab.hours(1)
    more_columns(lab)

    def overtake(name: str, do: Any) -> None:
        lab.server.around = lambda name, do: do()
        lab.world.replay(0)
        lab.deliver()
        do()

    inner = Lab.deliver
    if lab.kind is Staged:
        lab.server.around = overtake
        assert inner(lab) == ["overtaken"]
    else:
        with lab.context() as ctx:
            sender = ctx.sender(SHOP)
            ready.prepare(ctx, SHOP, sender)
            (one,) = ctx.ledger.deliveries.due("readings", "shop", None, 9)
            tried = ctx.ledger.deliveries.take("readings", "shop", one, "d", "aa")
            overtake("", lambda: None)
            assert not lab.world.context().ledger.deliveries.holds(tried)
    assert lab.server.seen[W0] == [2]
    assert lab.states() == ["STANDING 2.2"]


def test_a_ledger_that_was_restored_goes_on_above_what_the_system_has_seen(tmp_path: Path) -> None:
    lab = Lab(tmp_path, Transactional)
    lab.hours(1)
    lab.deliver()
    lab.verify(0, why="once more")
    lab.verify(0, why="and more")
    with lab.context() as ctx, ctx.ledger.unwrapped.store.begin() as c:
        c.exec_driver_sql("DELETE FROM deliveries")
    assert lab.deliver() == ["delivered"]
    assert lab.states() == ["STANDING 1.4"]


def test_a_generation_that_the_ledger_does_not_know_is_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    lab = Lab(tmp_path, Transactional)
    lab.hours(1)
    lab.deliver()
    token, nonce = lab.server.tokens[W0]
    lab.server.tokens[W0] = (replace(token, generation=6), nonce)
    assert lab.verify(0, why="again") == ["refused"]
    assert any("generation 6 stands there" in line for line in lab.world.said)


def test_an_audit_knows_deliveries(lab: Lab) -> None:
    """Each try is of a generation, and what stands has its rows."""
    lab.hours(3)
    lab.deliver()

    def problems() -> list[str]:
        found = [p for p in look(lab.world).problems if "delivery" in p.what]
        assert all(p.advice for p in found)
        return [p.what for p in found]

    assert problems() == []
    lab.world.close()
    with sqlite3.connect(lab.world.database) as ledger:
        for at, values in ((W0, "rows = 1"), (W1, "digest = 'other'"), (W1 + HOUR, "generation = 9")):
            ledger.execute(f"UPDATE deliveries SET {values} WHERE window_ms = {at}")
    assert problems() == [
        "delivery shop, try 1: 1 row was read back there, generation 1 has 2",
        "delivery shop, try 1: its digest is not that of generation 1",
        "delivery shop, try 1: the window has no generation 9",
    ]
