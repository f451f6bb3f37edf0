"""A shard of two replicas of ClickHouse 18.16: written to the first, looked at on both; one that lags, one that is
down."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from dev.stack import debian
from tests.clickhouse import attacks
from tests.clickhouse.places import ALL, Place, gone
from tests.clickhouse.replicas import Replicas, replicas
from tests.clickhouse.turns import FIRST, NOTHING, SECOND, Ledger, deliver
from tests.deliver.rows import COLUMNS, T0, ZERO, Made
from tests.deliver.test_clickhouse_rules import ATTACKS
from tests.world import make_pipeline
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import DeliveryRefused
from tidegate.core.deliver.port import WINDOW_COLUMN, Missing, Table
from tidegate.core.doctor.findings import OK, WRONG, Finding
from tidegate.core.spec.pipeline import Delivery
from tidegate.kinds import delivery_kind

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
    lacking = deliver(place, ledger, 2, FIRST, careful).lacking
    assert re.search(f"fewer replicas .* show it: the replica {second.address} shows 2 rows", lacking)
    assert careful.standing(T0).lacking == lacking
    second.do(f"SYSTEM START FETCHES {place.name}")
    comes_to(lambda: shows(place), [4, 4])
    assert place.system().standing(T0).behind == ()
    stands = deliver(place, ledger, 2, FIRST, careful)
    assert (stands.behind, stands.lacking) == ((), "")


def test_an_hour_becomes_empty_on_a_replica_that_lags(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """18.16 would show the first generation there for ever: the part of the second is nowhere any more."""
    monkeypatch.setattr("tidegate.targets.clickhouse.replicas.WAIT_S", 0.1)
    place.system().prepare()
    ledger = Ledger()
    deliver(place, ledger, 1, SECOND)
    (second,) = place.clients()[0].replicas
    second.do(f"SYSTEM STOP FETCHES {place.name}")
    deliver(place, ledger, 2, FIRST)
    deliver(place, ledger, 3, NOTHING)
    assert shows(place) == [0, 2]
    second.do(f"SYSTEM START FETCHES {place.name}")
    comes_to(lambda: shows(place), [0, 0])
    assert place.system().standing(T0).behind == ()


def test_columns_that_come_while_a_replica_is_down_hold_up_nothing(servers: Replicas) -> None:
    place = servers.place()
    place.system(columns=COLUMNS[:5]).prepare()
    servers.end("clickhouse-2")
    with suppress(DeliveryRefused):  # as long as ZooKeeper takes it for there
        place.system(columns=COLUMNS[:6]).prepare()
    more = place.system(columns=COLUMNS[:7])
    more.prepare()
    rows = Made([ZERO], columns=COLUMNS[:7])
    assert deliver(place, Ledger(), 1, rows, more).content.rows == 1
    servers.stack.down()
    servers.up()
    later = servers.place()
    later.name = place.name
    comes_to(lambda: shows(later), [1, 1])


def test_a_replica_that_hangs_holds_up_nothing(servers: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.targets.clickhouse.replicas.ANSWERS_S", 0.5)
    place = servers.place()
    place.system().prepare()
    with servers.hung("clickhouse-2"):
        began = time.monotonic()
        stands = deliver(place, Ledger(), 1, FIRST)
        assert place.system().standing(T0) == stands
        assert time.monotonic() - began < place.clients()[0].timeout_s
    assert [one.endswith("no answer in time: the replica does not answer") for one in stands.behind] == [True]
    comes_to(lambda: place.system().standing(T0).behind, ())


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


@pytest.mark.parametrize("of", [0, 1])
def test_a_replica_whose_table_is_gone_is_filled_by_the_other(place: Place, of: int) -> None:
    """Nothing is sent again; columns that the pipeline has got meanwhile come to both."""
    before = place.system(columns=COLUMNS[:5])
    before.prepare()
    rows = Made([ZERO], columns=COLUMNS[:5])
    stands = deliver(place, Ledger(), 1, rows, before)
    first = place.clients()[0]
    (first, *first.replicas)[of].do(f"DROP TABLE {place.name}")
    system = place.system(columns=COLUMNS[:6])
    assert system.missing() is None
    made = system.prepare()
    assert sum("created" in line for line in made) == 1
    comes_to(lambda: shows(place), [1, 1])
    comes_to(lambda: place.system(columns=COLUMNS[:5]).standing(T0), stands)
    comes_to(system.prepare, [])


def test_a_shard_is_lost_once_no_replica_has_its_table(place: Place) -> None:
    system = place.system()
    system.prepare()
    deliver(place, Ledger(), 1, FIRST)
    first = place.clients()[0]
    for one in (first, *first.replicas):
        assert system.missing() is None
        one.do(f"DROP TABLE {place.name}")
    assert system.missing() == Missing()


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
