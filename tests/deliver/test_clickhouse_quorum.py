"""What replicas of a shard show, which of them are named, what a quorum is: without servers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.deliver.lab import SHOP, Lab, Staged
from tests.deliver.rows import T0
from tests.world import window
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import DeliveryRefused
from tidegate.core.deliver.port import WINDOW_COLUMN, Content, Standing, Table
from tidegate.kinds import delivery_kind
from tidegate.targets.clickhouse import prepare, statements
from tidegate.targets.clickhouse import replicas as rules
from tidegate.targets.clickhouse.client import NONE, Client, Failed, Unsent
from tidegate.targets.clickhouse.kind import clients
from tidegate.targets.clickhouse.table import ClickHouseTable
from tidegate.targets.clickhouse.types import columns
from tidegate.workflow.deliver import deliver as workflow
from tidegate.workflow.deliver import ready

WANTED, OLD = Content(rows=4, checksum=7), Content(rows=2, checksum=3)


def client(address: str, *replicas: Client) -> Client:
    return Client(address=address, user="u", password="", database="d", replicas=replicas)


def looking(shown: dict[str, Content | None]) -> Callable[..., Content]:
    """None: it is down."""

    def look(at: Client, *_: Any) -> Content:
        found = shown[at.address]
        if found is None:
            raise Unsent(f"no connection to {at.address}")
        return found

    return look


def system(shown: dict[str, Content | None], quorum: str = "1") -> ClickHouseTable:
    shard = client("a", *(client(name) for name in shown if name != "a"))
    made = ClickHouseTable(
        [shard], Table(pipeline="p", delivery="d", name="t", columns=(), options=(("quorum", quorum),)), 1.0
    )
    made._content = made._of_replica = looking(shown)  # type: ignore[method-assign]
    return made


def test_a_connection_names_replicas_with_bars() -> None:
    told = delivery_kind("clickhouse").settings(Connection(conn_id="ch", host="a | b:9, c", login="u"))
    assert told["shards"] == ["a:8123|b:9", "c:8123"]
    first, second = clients(told, 1.0)
    assert (first.address, [r.address for r in first.replicas], second.replicas) == ("a:8123", ["b:9"], ())


def test_replicas_that_show_something_else_are_named() -> None:
    found = system({"a": WANTED, "b": OLD, "c": None, "d": WANTED, "e": replace(WANTED, checksum=8)}).standing(T0)
    assert found.content == WANTED
    assert found.behind == (
        "the replica b shows 2 rows, not 4",
        "no connection to c: the replica does not answer",
        "the replica e shows other values",
    )


def test_a_replica_is_waited_for() -> None:
    shown: dict[str, Content | None] = {"a": WANTED, "b": OLD}
    made = system(shown)
    with patch("time.sleep", lambda _: shown.update(b=WANTED)):
        assert made._standing(T0, [WANTED], 60.0).behind == ()


@pytest.mark.parametrize(("quorum", "done"), [("1", True), ("2", True), ("3", False)])
def test_below_the_quorum_nothing_is_delivered(quorum: str, done: bool) -> None:
    made = system({"a": WANTED, "b": None, "c": WANTED}, quorum)
    for found in (made._standing(T0, [WANTED], 0.01), made.standing(T0)):
        assert len(found.behind) == 1
        lacking = "fewer replicas of a than the quorum show it: no connection to b: the replica does not answer"
        assert found.lacking.endswith(lacking if not done else "") is True
        assert bool(found.lacking) is not done


BUGS = {
    "other replicas are not looked at":
        (patch.object(rules, "behind", lambda *_: []), test_replicas_that_show_something_else_are_named),
    "a replica is asked once":
        (patch.object(rules, "_SILENT", ""), test_a_replica_is_waited_for),
    "the quorum is not asked":
        (patch.object(rules, "quorum_of", lambda _: 0),
         lambda: test_below_the_quorum_nothing_is_delivered("3", False)),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_a_rule_that_is_taken_out_is_missed(bug: str) -> None:
    planted, test = BUGS[bug]
    with planted, pytest.raises((AssertionError, pytest.fail.Exception)):
        test()


# ---------------------------------------------------------------- replicas that say no, without servers


@dataclass
class Told(Client):
    """Has the table at that path; does nothing, or says no."""

    path: str = ""
    no: Failed | None = None
    stagings: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)

    def ask(self, sql: str) -> list[list[Any]]:
        answers = {
            "zookeeper_path": [[self.path]] if self.path else [],
            "engine, partition_key": [["ReplicatedMergeTree", "_window"]] if self.path else [],
            "sorting_key": [[""]],
            "name, type, comment": [["_window", "DateTime", ""]],
            "startsWith(name": [[name] for name in self.stagings],
        }
        return next((found for word, found in answers.items() if word in sql), [])

    def do(self, sql: str, body: bytes = b"", settings: Any = NONE) -> None:
        if self.no is not None:
            raise self.no
        self.sent.append(sql)


def told(address: str, path: str, *replicas: Client, **more: Any) -> Told:
    return Told(address=address, user="u", password="", database="d", replicas=replicas, path=path, **more)


TABLE = Table(pipeline="p", delivery="d", name="t", columns=(WINDOW_COLUMN,))
PATH = "/clickhouse/tables/tidegate/p/d/d.t/1"


def test_a_replica_that_says_no_holds_up_nothing() -> None:
    """ZooKeeper knows one of that name, whose disk was another."""
    shard = told("a", PATH, told("b", "", no=Failed("b: Replica b already exists", 253)))
    assert ClickHouseTable([shard], TABLE, 1.0).prepare() == [
        "b: Replica b already exists: its table is looked at by a later run"
    ]


def test_a_replica_of_another_shard_is_refused() -> None:
    shard = told("a", PATH, told("b", f"{PATH[:-1]}2"))
    with pytest.raises(DeliveryRefused, match=r"b: `d`.`t` is a replica of \S+/2, the one of a of \S+/1") as caught:
        ClickHouseTable([shard], TABLE, 1.0).prepare()
    assert not caught.value.retry


def test_a_quorum_of_a_server_without_replicas_is_refused() -> None:
    """Commas where bars belong make shards of them: no window could ever be delivered."""
    with pytest.raises(DeliveryRefused, match="quorum is 2, and the connection names 1 replica of the shard a"):
        ClickHouseTable([told("a", "")], replace(TABLE, options=(("quorum", "2"),)), 1.0).prepare()


def test_a_staging_on_a_replica_that_was_written_to_before_is_removed() -> None:
    other, gone = told("b", PATH), told("c", PATH)
    system = ClickHouseTable([told("a", PATH, gone, other)], TABLE, 1.0)
    name = f"{system._names.prefix}{T0}_1_1_00"
    other.stagings, gone.stagings, gone.no = [name], [name], Failed("read only")
    assert system.sweep(lambda found: set()) == [f"b: removed {name}, which no try needs"]
    assert other.sent == [f"DROP TABLE `d`.`{name}`"]
    assert system.sweep(lambda found: found) == []


def test_a_column_that_other_replicas_are_to_follow_is_there() -> None:
    shard = told("a", PATH, no=Failed("Alter is not finished because some replicas are inactive right now", 341))
    names = statements.Names("d", "t", "t__")
    one = columns((WINDOW_COLUMN, ("n", "bigint")), shard)
    with pytest.raises(Failed):
        prepare._evolved(shard, names, one)
    with patch.object(prepare, "types", side_effect=[{}, {"n": "Nullable(Int64)"}, {"n": "Nullable(Int64)"}]):
        assert prepare._evolved(shard, names, one) == ["a: added n Nullable(Int64) to `d`.`t`"]
    types = [{"n": "Nullable(Int32)"}, {"n": "Nullable(Int64)"}]
    with patch.object(prepare, "types", side_effect=types):
        assert prepare._evolved(shard, names, one) == ["a: n of `d`.`t` is Nullable(Int64) now"]


def test_below_the_quorum_an_hour_is_not_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, lacking = Lab(tmp_path, Staged), ["fewer replicas than the quorum show it"]
    lab.hours(1)
    for name in ("send", "standing"):
        real = getattr(Staged, name)

        def lags(self: Any, *given: Any, real: Any = real) -> Standing:
            return replace(real(self, *given), lacking=lacking[0])

        monkeypatch.setattr(Staged, name, lags)
    for _ in range(3):
        (sent,) = delivered(lab)
        assert (sent.what, sent.why, lab.states()) == ("failed", lacking[0], ["SENDING 1.1"])
    with lab.context() as ctx:
        (sent,) = workflow.verify(ctx, SHOP, ctx.sender(SHOP), [window(0)], why="a person wants it")
    assert (sent.what, lab.states()) == ("failed", ["SENDING 1.2"])
    lab.server.rows[T0], kept = [], lab.server.rows[T0]
    assert (delivered(lab)[0].what, lab.states()) == ("failed", ["SENDING 1.3"]), "what came is gone: it is sent again"
    assert lab.server.rows[T0] == kept
    lacking[0] = ""
    (sent,) = delivered(lab)
    assert (sent.what, lab.states(), len(lab.server.sent)) == ("delivered", ["STANDING 1.3"], 3)


def delivered(lab: Lab) -> list[workflow.Sent]:
    with lab.context() as ctx:
        sender = ctx.sender(SHOP)
        ready.prepare(ctx, SHOP, sender)
        return list(workflow.deliver(ctx, SHOP, sender))


def test_windows_behind_a_replica_that_lags_are_compared_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path)
    lab.hours(workflow.DOWN + 2)
    delivered(lab)
    real = Lab.kinds[0].standing
    monkeypatch.setattr(
        Lab.kinds[0], "standing", lambda self, at: replace(real(self, at), behind=("the replica b shows 0 rows",))
    )
    with lab.context() as ctx:
        found = list(workflow.compare(ctx, SHOP, ctx.sender(SHOP)))
    assert [one.what for one in found] == ["failed"] * (workflow.DOWN + 2)


def test_people_are_told_of_replicas_that_lag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path)
    lab.hours(1)
    for name in ("send", "standing"):
        real = getattr(Lab.kinds[0], name)

        def lags(self: Any, *given: Any, real: Any = real) -> Standing:
            return replace(real(self, *given), behind=("the replica b shows 0 rows, not 2",))

        monkeypatch.setattr(Lab.kinds[0], name, lags)
    with lab.context() as ctx:
        sender = ctx.sender(SHOP)
        ready.prepare(ctx, SHOP, sender)
        (sent,) = workflow.deliver(ctx, SHOP, sender)
        assert (sent.what, sent.well, sent.behind) == ("delivered", True, ("the replica b shows 0 rows, not 2",))
        (seen,) = workflow.compare(ctx, SHOP, sender)
        assert (seen.what, seen.why) == ("failed", "the replica b shows 0 rows, not 2")
        assert [one.what for one in workflow.verify(ctx, SHOP, sender, [window(0)])] == ["unchanged"]
    assert lab.states() == ["STANDING 1.1"]
    assert any("the replica b shows 0 rows" in line for line in lab.world.said), lab.world.said
