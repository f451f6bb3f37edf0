"""A pipeline's hours in ClickHouse, by the process that reads files: published, replayed, an outage, caught up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.clickhouse.places import Place
from tests.deliver.lab import SHOP, RealLab
from tests.fakes.proxy import Fate, LossyProxy
from tests.world import HOUR, T0
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import DeliveryRefused
from tidegate.core.spec.pipeline import Column
from tidegate.kinds import delivery_kind

KIND = delivery_kind("clickhouse")


class Real(RealLab):
    """`hosts`: of proxies, or of nobody."""

    def __init__(self, folder: Path, place: Place) -> None:
        self.place, self.hosts = place, ",".join(place.addresses)
        super().__init__(folder, replace(SHOP, kind="clickhouse", table=place.name), self._reached)

    def _reached(self) -> Mapping[str, Any]:
        at = Connection(conn_id="ch", host=self.hosts, login=self.place.user, password=self.place.password)
        return KIND.settings(at)

    def ids(self) -> list[str]:
        """Counted by a query of the test's own."""
        found = self.place.ask(f"SELECT id, count() FROM {self.place.name} GROUP BY id")
        return sorted(Counter({row[0]: int(row[1]) for row in found}).elements())


@pytest.fixture
def real(tmp_path: Path, place: Place) -> Iterator[Real]:
    made = Real(tmp_path, place)
    yield made
    made.close()


def more_columns(real: Real) -> None:
    """So that a replay makes another generation."""
    real.world.change_spec(columns=(*real.pipeline.columns, Column(name="x", type="string", path="$.id")))


def test_a_whole_life(real: Real) -> None:
    real.hours(3)
    assert real.deliver() == ["delivered"] * 3
    assert real.ids() == ["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"]
    (row,) = real.place.ask(f"SELECT site, value, _partition, _offset FROM {real.place.name} WHERE id = '0-0'")
    assert [str(each) for each in row] == ["b", "1", "0", "0"]
    assert real.verify(0, 1, 2) == ["unchanged"] * 3
    more_columns(real)
    real.world.replay(0)
    assert real.deliver() == ["delivered"]
    assert real.states() == ["STANDING 2.2", "STANDING 1.1", "STANDING 1.1"]
    assert real.verify(1, 2) == ["unchanged"] * 2, "a column that came later changes no sum"
    shown = real.place.ask(f"SELECT id, x FROM {real.place.name} WHERE x IS NOT NULL")
    assert sorted(shown) == [["0-0", "0-0"], ["0-1", "0-1"]]

    real.place.run(f"ALTER TABLE {real.place.name} DROP PARTITION ID '{(T0 + HOUR) // 1000}'")
    assert real.ids() == ["0-0", "0-1", "2-0", "2-1"]
    assert real.verify(0, 1, 2) == ["unchanged", "delivered", "unchanged"]
    assert real.ids() == ["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"]
    assert real.place.stagings() == []


def test_an_outage_holds_up_nothing_else_and_is_caught_up(real: Real) -> None:
    real.hours(1)
    assert real.deliver() == ["delivered"]
    there, real.hosts = real.hosts, "127.0.0.1:1"
    more_columns(real)
    real.world.replay(0)
    with pytest.raises(DeliveryRefused, match="no connection"):
        real.deliver()
    real.hosts = there
    assert real.deliver() == ["delivered"]
    # the run that met nobody has told of it at a try of its own
    assert (real.ids(), real.states()) == (["0-0", "0-1"], ["STANDING 2.3"])


def test_a_shard_whose_table_is_gone_gets_its_rows_again(real: Real) -> None:
    """Hours of which it had no row are left alone."""
    real.hours(6)
    real.deliver()
    every = real.ids()
    *_, last = real.place.clients()
    its = len(last.ask(f"SELECT DISTINCT _window FROM {real.place.name}"))
    assert its
    last.do(f"DROP TABLE {real.place.name}")
    assert real.deliver() == ["delivered"] * its
    assert (real.ids(), real.deliver()) == (every, [])
    assert sum(state == "STANDING 1.2" for state in real.states()) == its
    assert real.verify(*range(6)) == ["unchanged"] * 6


def test_a_shard_that_is_added_sends_nothing_again(real: Real) -> None:
    there, real.hosts = real.hosts, real.place.addresses[0]
    real.hours(2)
    assert real.deliver() == ["delivered"] * 2
    real.hosts = there
    assert real.deliver() == []
    assert real.ids() == ["0-0", "0-1", "1-0", "1-1"]
    assert real.verify(0, 1) == ["unchanged"] * 2


@pytest.mark.parametrize("marker", [b"INSERT INTO", b"REPLACE PARTITION"])
def test_answers_that_are_lost_on_the_way(real: Real, marker: bytes) -> None:
    real.hours(2)
    host, _, port = real.place.addresses[0].partition(":")
    there = real.hosts
    with LossyProxy(host, int(port), marker, Fate.LOSE_REPLY, once=True) as proxy:
        real.hosts = ",".join([f"127.0.0.1:{proxy.port}", *real.place.addresses[1:]])
        first = real.deliver()
        assert proxy.matched
        assert sorted(first) == ["delivered", "failed"]
    real.hosts = there
    assert real.deliver() == ["delivered"]
    assert real.ids() == ["0-0", "0-1", "1-0", "1-1"]
    assert real.verify(0, 1) == ["unchanged"] * 2
    assert real.place.stagings() == []


def test_a_process_that_is_killed_leaves_a_staging_that_is_swept(real: Real) -> None:
    real.hours(1)
    assert (real.deliver_and_be_killed(), real.ids()) == ("failed", [])
    assert len(real.place.stagings()) == len(real.place.addresses)
    assert real.deliver() == ["delivered"]  # its fence
    assert (real.ids(), real.place.stagings()) == (["0-0", "0-1"], [])
