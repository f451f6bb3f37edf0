"""The rules D1 to D8 on real engines: two tries at once, tries that slept, statements without an answer."""

from __future__ import annotations

import re

import pytest

from tests.clickhouse import attacks
from tests.clickhouse.places import Place
from tests.clickhouse.turns import FIRST, SECOND, Ledger, deliver, hooked, shows
from tests.deliver.rows import T0
from tests.fakes.proxy import Fate, LossyProxy
from tidegate.core.base.errors import DeliveryRefused, DeliveryUnsure

ATTACKS = [name for name in vars(attacks) if re.match(r"d\d_", name)]


@pytest.mark.parametrize("attack", ATTACKS)
def test_rule(place: Place, attack: str) -> None:
    getattr(attacks, attack)(place)


CUTS = [b"CREATE TABLE", b"INSERT INTO", b"SELECT count(), sum", b"system.tables", b"system.processes",
        b"REPLACE PARTITION"]  # fmt: skip


@pytest.mark.parametrize("fate", [Fate.LOSE_REQUEST, Fate.LOSE_REPLY])
@pytest.mark.parametrize("marker", CUTS, ids=lambda marker: marker.decode())
def test_what_is_lost_on_the_way_leaves_one_generation(place: Place, marker: bytes, fate: Fate) -> None:
    """At each statement of a try, on the last shard: what readers met stays unless it is unsure; the next try ends."""
    ledger = Ledger()
    place.system().prepare()
    deliver(place, ledger, 1, SECOND)
    *others, last = place.addresses
    host, _, port = last.partition(":")
    with LossyProxy(host, int(port), marker, fate, once=True) as proxy:
        with pytest.raises((DeliveryRefused, DeliveryUnsure)) as caught:
            deliver(place, ledger, 2, FIRST, place.system([*others, f"127.0.0.1:{proxy.port}"]))
        assert proxy.matched
    if caught.type is DeliveryRefused:  # a definite answer
        assert shows(place) == 2
    if len(place.addresses) == 1:
        assert shows(place) in {2, 4}
    assert deliver(place, ledger, 2, FIRST).content.rows == shows(place) == 4
    assert place.stagings() == []


def test_the_ledger_is_asked_once_the_staging_stands_and_before_readers_meet_it(place: Place) -> None:
    system, seen = place.system(), []
    system.prepare()
    ledger = Ledger()
    deliver(place, ledger, 1, SECOND)
    tried = ledger.taken(2, FIRST)

    def asked() -> bool:
        seen.append((shows(place), len(place.stagings())))
        return True

    system.send(tried, FIRST, asked)
    assert seen == [(2, len(place.addresses))]


def test_what_somebody_changed_is_seen_later(place: Place) -> None:
    """D8: rows that came back after a restart, or were lost."""
    system, ledger = place.system(), Ledger()
    system.prepare()
    sent = deliver(place, ledger, 1, FIRST)
    assert system.standing(T0) == sent
    place.clients()[0].do(f"INSERT INTO {place.name} (`_window`) SELECT toDateTime({T0 // 1000})")
    assert system.standing(T0).content.rows == 5
    assert deliver(place, ledger, 1, FIRST) == sent == system.standing(T0)


def test_a_shard_that_is_down_is_told_and_caught_up(place: Place) -> None:
    ledger = Ledger()
    place.system().prepare()
    with pytest.raises(DeliveryRefused, match="no connection") as caught:
        deliver(place, ledger, 1, FIRST, place.system([*place.addresses[:-1], "127.0.0.1:1"]))
    assert caught.value.retry
    assert shows(place) == 0
    assert deliver(place, ledger, 1, FIRST).content.rows == shows(place) == 4


def test_a_window_is_not_emptied_by_drop_partition(place: Place) -> None:
    ledger = Ledger()
    place.system().prepare()
    deliver(place, ledger, 1, FIRST)
    system, clients = hooked(place)
    deliver(place, ledger, 2, attacks.NOTHING, system)
    for client in clients:
        assert not any("DROP PARTITION" in sql for sql in client.sent)
        assert sum("REPLACE PARTITION" in sql for sql in client.sent) == 1
