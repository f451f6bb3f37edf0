"""A shard of two replicas of ClickHouse 18.16: written to the first, looked at on both; one that lags, one that is
down."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from dev.stack import debian
from tests.clickhouse import attacks
from tests.clickhouse.places import ALL, Place, gone
from tests.clickhouse.replicas import Replicas, replicas
from tests.clickhouse.turns import FIRST, NOTHING, SECOND, Ledger, deliver
from tests.deliver.lab import SHOP, Lab
from tests.deliver.rows import COLUMNS, T0
from tests.deliver.test_clickhouse_rules import ATTACKS
from tests.world import make_pipeline, window
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import DeliveryRefused, DeliveryUnsure
from tidegate.core.deliver.port import WINDOW_COLUMN, Content, Standing, Table
from tidegate.core.doctor.findings import OK, WRONG, Finding
from tidegate.core.spec.pipeline import Delivery
from tidegate.kinds import delivery_kind
from tidegate.targets.clickhouse import replicas as rules
from tidegate.targets.clickhouse.client import Client, Unsent
from tidegate.targets.clickhouse.kind import clients
from tidegate.targets.clickhouse.table import ClickHouseTable
from tidegate.workflow.deliver import deliver as workflow

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, stack_roots: Path) -> Iterator[Replicas]:
    if not ALL or not debian.is_here():
        pytest.skip("two replicas: make test-clickhouse")
    with replicas(stack_roots / "clickhouse-replicas", tmp_path_factory.mktemp("zookeeper")) as found:
        yield found


@pytest.fixture
def place(servers: Replicas) -> Iterator[Place]:
    found = servers.place()
    yield found
    found.addresses = found.addresses[0].split("|")
    gone(found)


def shows(place: Place) -> list[int]:
    """How many rows readers of each replica meet of the window."""
    where = f"_window = toDateTime({T0 // 1000})"
    return [len(place.rows((WINDOW_COLUMN,), where, of)) for of in (0, 1)]


def comes_to(look: Callable[[], object], wanted: object) -> None:
    end = time.monotonic() + PATIENCE_S
    while (found := look()) != wanted:
        assert time.monotonic() < end, found
        time.sleep(0.2)


def test_an_hour_is_delivered_once_both_show_it(place: Place) -> None:
    system, ledger = place.system(), Ledger()
    made = system.prepare()
    assert [line.partition(":")[2].partition(": ")[2][:7] for line in made] == ["created", "created"]
    assert system.prepare() == []
    for generation, rows in enumerate((FIRST, SECOND, NOTHING, FIRST), 1):
        stands = deliver(place, ledger, generation, rows)
        assert (stands.behind, shows(place)) == ((), [len(rows.rows)] * 2)
        assert system.standing(T0) == stands
    assert place.stagings() == []


@pytest.mark.parametrize("attack", ATTACKS)
def test_rule(place: Place, attack: str) -> None:
    getattr(attacks, attack)(place)


def test_columns_come_to_both(place: Place) -> None:
    place.system(columns=COLUMNS[:5]).prepare()
    comes_to(lambda: bool(place.system().prepare()), True)
    comes_to(place.system().prepare, [])
    assert shows(place) == [0, 0]
    deliver(place, Ledger(), 1, FIRST)
    assert shows(place) == [4, 4]


def test_a_replica_that_lags_is_named_and_holds_up_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.targets.clickhouse.replicas.WAIT_S", 1.0)
    place.system().prepare()
    ledger = Ledger()
    deliver(place, ledger, 1, SECOND)
    (second,) = place.clients()[0].replicas
    second.do(f"SYSTEM STOP FETCHES {place.name}")
    stands = deliver(place, ledger, 2, FIRST)
    assert stands.behind == (f"the replica {second.address} shows 2 rows, not 4",)
    assert (shows(place), place.system().standing(T0)) == ([4, 2], stands)
    careful = place.system()
    careful._table = with_quorum(place, 2)
    with pytest.raises(DeliveryUnsure, match=f"fewer replicas .* show it: the replica {second.address} shows 2 rows"):
        deliver(place, ledger, 2, FIRST, careful)
    second.do(f"SYSTEM START FETCHES {place.name}")
    comes_to(lambda: shows(place), [4, 4])
    assert place.system().standing(T0).behind == ()
    assert deliver(place, ledger, 2, FIRST, careful).behind == ()


def with_quorum(place: Place, quorum: int) -> Table:
    return replace(place.table(), options=(("quorum", str(quorum)),))


def test_a_replica_that_is_down_is_named_and_catches_up(servers: Replicas) -> None:
    place = servers.place()
    place.system().prepare()
    ledger = Ledger()
    deliver(place, ledger, 1, SECOND)
    (second,) = place.clients()[0].replicas
    servers.end("clickhouse-2")
    named = (f"no connection to {second.address}: the replica does not answer",)
    assert place.system().prepare() == [f"no connection to {second.address}: its table is looked at by a later run"]
    place.settles = True
    stands = deliver(place, ledger, 2, FIRST)
    assert (stands.behind, place.system().standing(T0).behind) == (named, named)
    ok, down = examined(servers)
    assert (ok.level, down.level, down.what) == (OK, WRONG, f"no connection to {second.address}")
    servers.stack.down()
    servers.up()
    ok, *others = examined(servers)
    assert (ok.level, [f.level for f in others]) == (OK, [OK])
    later = servers.place()
    later.name = place.name
    comes_to(lambda: shows(later), [4, 4])
    assert later.system().standing(T0).content == stands.content
    assert later.system().standing(T0).behind == ()


def examined(servers: Replicas) -> list[Finding]:
    """What the doctor says."""
    hosts = {"host": "|".join(servers.found.addresses), "login": servers.found.user, "password": servers.found.password}
    one = Delivery(name="shop", kind="clickhouse", conn_id="ch", table="t")
    pipeline = make_pipeline("file:///nowhere")
    return delivery_kind("clickhouse").examined(pipeline, one, Connection(conn_id="ch", **hosts), 10.0)


def test_a_quorum_that_cannot_be_is_refused(place: Place) -> None:
    system = place.system()
    system._table = with_quorum(place, 3)
    with pytest.raises(DeliveryRefused, match="quorum is 3, and the connection names 2 replicas") as caught:
        system.prepare()
    assert not caught.value.retry


def test_a_table_of_one_server_and_one_of_others_are_refused(place: Place) -> None:
    place.system().prepare()
    alone = Place(place.addresses[0].split("|")[:1], place.user, place.password, name=place.name)
    with pytest.raises(DeliveryRefused, match="and one server is named"):
        alone.system().prepare()
    with pytest.raises(DeliveryRefused, match="is not marked as this delivery's by /tidegate/others/shop/"):
        place.system(pipeline="others").prepare()


# ---------------------------------------------------------------- what replicas show, without servers


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
    made._content = looking(shown)  # type: ignore[method-assign]
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
        assert made._behind(T0, [WANTED], 60.0) == []


@pytest.mark.parametrize(("quorum", "done"), [("1", True), ("2", True), ("3", False)])
def test_below_the_quorum_nothing_is_delivered(quorum: str, done: bool) -> None:
    made = system({"a": WANTED, "b": None, "c": WANTED}, quorum)
    if done:
        assert len(made._behind(T0, [WANTED], 0.01)) == 1
    else:
        with pytest.raises(DeliveryUnsure, match="fewer replicas of a than the quorum show it: no connection to b"):
            made._behind(T0, [WANTED], 0.01)
    assert len(made._behind(T0, [WANTED], 0)) == 1, "a look only names them"


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
        (sent,) = workflow.deliver(ctx, SHOP, sender)
        assert (sent.what, sent.well, sent.behind) == ("delivered", True, ("the replica b shows 0 rows, not 2",))
        (seen,) = workflow.compare(ctx, SHOP, sender)
        assert (seen.what, seen.why) == ("failed", "the replica b shows 0 rows, not 2")
        assert [one.what for one in workflow.verify(ctx, SHOP, sender, [window(0)])] == ["unchanged"]
    assert lab.states() == ["STANDING 1.1"]
    assert any("the replica b shows 0 rows" in line for line in lab.world.said), lab.world.said
