"""What each rule D is there for, on a real engine. Raises AssertionError where readers or the ledger are misled.

Tests call them; with a rule taken out (`tests/deliver/test_clickhouse_bugs.py`) each of them fails."""

from __future__ import annotations

import threading
from unittest.mock import patch

import pytest

from tests.clickhouse.places import Place
from tests.clickhouse.turns import FIRST, NOTHING, SECOND, Ledger, Quiet, deliver, hooked, shows
from tests.deliver.rows import T0, Made
from tests.fakes.proxy import Fate, LossyProxy
from tidegate.core.base.errors import DeliveryRefused, DeliveryUnsure, LostComparison
from tidegate.targets.clickhouse import table
from tidegate.targets.clickhouse.client import Failed

FAILS = (DeliveryRefused, DeliveryUnsure, LostComparison)


def d1_two_tries_at_once(place: Place) -> None:
    """Another try begins while this one fills its staging: neither gets the other's rows."""
    ledger, other = Ledger(), place.system()
    other.prepare()
    system, _ = hooked(place, after={"INSERT INTO": lambda: deliver(place, ledger, 2, SECOND, other)})
    with pytest.raises(FAILS):
        deliver(place, ledger, 1, FIRST, system)
    assert ledger.done == [2], "the try that holds has not come to its end"
    assert shows(place) == 2


def d2_unsure_is_abandoned(place: Place) -> None:
    """An INSERT or a CREATE whose answer is lost is never sent again; the next epoch takes a name of its own."""
    ledger = Ledger()
    place.system().prepare()
    for lost in ("CREATE TABLE", "INSERT INTO"):
        system, clients = hooked(place, kind=Quiet, lost=lost)
        with pytest.raises(DeliveryRefused):
            deliver(place, ledger, 1, FIRST, system)
        changes = [sql for sql in clients[0].sent if lost in sql]
        assert len(changes) == 1, "a statement without an answer was sent again"
    assert deliver(place, ledger, 1, FIRST).content.rows == shows(place) == 4


def d3_a_row_is_lost_on_the_way(place: Place) -> None:
    """The staging does not hold what was sent: nothing of it is shown."""
    ledger = Ledger()
    place.system().prepare()
    deliver(place, ledger, 1, SECOND)
    for change in ("a row more", "other values"):

        def tampered(change: str = change) -> None:
            staging, client = place.stagings()[0], place.clients()[0]
            if change == "a row more":
                client.do(f"INSERT INTO {staging} SELECT * FROM {staging} LIMIT 1")
            else:  # the count is right
                held = client.ask(f"SELECT count() FROM {staging}")[0][0]
                columns = "`_window`, `i32`"
                client.do(f"ALTER TABLE {staging} DROP PARTITION ID '{T0 // 1000}'")
                client.do(f"INSERT INTO {staging} ({columns}) SELECT toDateTime({T0 // 1000}), 5 FROM numbers({held})")

        system, _ = hooked(place, after={"INSERT INTO": tampered})
        with pytest.raises(FAILS):
            deliver(place, ledger, 2, FIRST, system)
        assert shows(place) == 2, "readers met what was not sent"


def d3_one_part(place: Place) -> None:
    """What is shown came as one part: moving several is not atomic when the server dies."""
    place.system().prepare()
    many = Made([{"i32": i} for i in range(40)])
    with patch.object(table, "_BODY_BYTES", 1):  # an INSERT for every two rows
        assert deliver(place, Ledger(), 1, many).content.rows == shows(place) == 40
    where = f"table = '{place.name}' AND active"
    assert all(int(row[0]) == 1 for row in place.ask(f"SELECT count() FROM system.parts WHERE {where}"))


def d4_a_try_that_slept(place: Place) -> None:
    """A try asks the ledger, sleeps, and goes on after a newer generation stands: its REPLACE must fail."""
    ledger, late = Ledger(), place.system()
    late.prepare()
    tried = ledger.taken(1, FIRST)

    def asked_and_slept() -> bool:
        held = ledger.holds(tried)
        deliver(place, ledger, 2, SECOND)
        return held

    with pytest.raises(FAILS):
        late.send(tried, FIRST, asked_and_slept)
    assert shows(place) == 2, "readers went back to an older generation"
    staging = late._names.prefix + tried.staging
    with pytest.raises(Failed):  # the statement itself, out of the network much later
        place.clients()[0].do(f"ALTER TABLE {place.name} REPLACE PARTITION ID '{T0 // 1000}' FROM {staging}")
    assert shows(place) == 2


def d4_a_drop_that_is_lost(place: Place) -> None:
    """The fence's DROP never arrives: it looks, and drops again."""
    ledger, late = Ledger(), place.system()
    late.prepare()
    tried = ledger.taken(1, FIRST)

    def asked_and_slept() -> bool:
        held = ledger.holds(tried)
        proxies = [_losing(address, b"DROP TABLE") for address in place.addresses]
        try:
            before = zip(proxies, place.addresses, strict=True)  # of each shard the one that is written to
            addresses = ["|".join([f"127.0.0.1:{each.port}", *of.split("|")[1:]]) for each, of in before]
            deliver(place, ledger, 2, SECOND, place.system(addresses))
        finally:
            for each in proxies:
                assert each.matched
                each.close()
        return held

    with pytest.raises(FAILS):
        late.send(tried, FIRST, asked_and_slept)
    assert shows(place) == 2, "readers went back to an older generation"


def d4_a_replace_under_way(place: Place) -> None:
    """An older REPLACE has found its source and is slow: the fence waits for its end, though the source is gone."""
    ledger, client = Ledger(), place.clients()[0]
    newer = client.knows("min_bytes_for_wide_part")  # an old server's DROP waits by itself, and its parts take seconds
    names = [f"c{i}" for i in range(300 if newer else 30)]
    if client.replicas:
        place.system(columns=(("_window", "timestamp"), *((name, "int") for name in names))).prepare()
    else:
        place.run(f"CREATE TABLE {place.name} (`_window` DateTime COMMENT 'tidegate: readings/shop', "
                  + ", ".join(f"{name} Nullable(Int32)" for name in names)
                  + ") ENGINE = MergeTree PARTITION BY `_window` ORDER BY tuple()"
                  + (" SETTINGS min_bytes_for_wide_part = 0" if newer else ""))  # fmt: skip
    columns = (("_window", "timestamp"), ("c0", "int"))
    rows, older = Made([{"c0": 2}], columns=columns), ledger.taken(1, FIRST)
    system = place.system(columns=columns)
    system.prepare()
    staging = system._names.prefix + older.staging
    plain = " ENGINE = MergeTree PARTITION BY `_window` ORDER BY tuple()" if client.replicas else ""
    client.do(f"CREATE TABLE {staging} AS {place.name}{plain}")
    client.do("SYSTEM STOP MERGES" + (f" {staging}" if newer else ""))
    for _ in range(24 if newer else 8):
        client.do(f"INSERT INTO {staging} (`_window`, c0) SELECT toDateTime({T0 // 1000}), 1")
    replace = f"ALTER TABLE {place.name} REPLACE PARTITION ID '{T0 // 1000}' FROM {staging}"
    slow = threading.Thread(target=client.do, args=(replace,))
    slow.start()
    running = f"SELECT count() FROM system.processes WHERE startsWith(query, 'ALTER TABLE {place.name} REPLACE')"
    while slow.is_alive() and not int(place.clients()[0].ask(running)[0][0]):
        pass
    try:
        deliver(place, ledger, 2, rows, system)
    finally:
        slow.join()
        client.do("SYSTEM START MERGES")  # no sooner: in 18.16 a merge of parts that make way brings them back
    shown = place.ask(f"SELECT sum(c0) FROM {place.name}")
    assert sum(int(row[0] or 0) for row in shown) == 2, "an older REPLACE came after ours"


def d5_overtaken_before_it_has_a_staging(place: Place) -> None:
    """A whole newer try happens before this one's staging exists: no fence can see it, so the ledger is asked later."""
    ledger, late = Ledger(), place.system()
    late.prepare()
    system, _ = hooked(place, before={"CREATE TABLE": lambda: deliver(place, ledger, 2, SECOND)})
    with pytest.raises(LostComparison):
        deliver(place, ledger, 1, FIRST, system)
    assert shows(place) == 2, "readers went back to an older generation"
    assert place.stagings() == []


def d6_an_empty_window_that_comes_late(place: Place) -> None:
    """An empty generation is shown as such; one that slept does not empty the window of a newer one."""
    ledger, late = Ledger(), place.system()
    late.prepare()
    deliver(place, ledger, 1, FIRST)
    assert deliver(place, ledger, 2, NOTHING).content.rows == shows(place) == 0
    tried = ledger.taken(3, NOTHING)

    def asked_and_slept() -> bool:
        held = ledger.holds(tried)
        deliver(place, ledger, 4, FIRST)
        return held

    with pytest.raises(FAILS):
        late.send(tried, NOTHING, asked_and_slept)
    assert shows(place) == 4, "an empty window came after a newer generation"


def d7_what_readers_meet_is_read_back(place: Place) -> None:
    """The REPLACE is done, and yet readers meet something else: the ledger is not told that it stands."""
    ledger = Ledger()
    place.system().prepare()

    def changed() -> None:
        place.clients()[-1].do(f"INSERT INTO {place.name} (`_window`) SELECT toDateTime({T0 // 1000})")

    system, clients = hooked(place)
    clients[-1].after = {"REPLACE PARTITION": changed}
    with pytest.raises(DeliveryUnsure, match="sent were"):
        deliver(place, ledger, 1, FIRST, system)
    assert ledger.done == []
    assert deliver(place, ledger, 1, FIRST).content.rows == shows(place) == 4


def _losing(address: str, marker: bytes) -> LossyProxy:
    host, _, port = address.partition("|")[0].partition(":")
    return LossyProxy(host, int(port), marker, Fate.LOSE_REQUEST, once=True)
