"""A whole Tidegate in one process with two sites: a broker in memory at each, and copiers between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.fakes.kafka import FakeKafka, Record
from tests.look.row_readers import InProcessRows
from tests.world import TOPIC, World, record
from tidegate.core.base.errors import SourceUnavailable
from tidegate.core.failover.counting import Copied
from tidegate.core.failover.crossing import Pair
from tidegate.core.source.coordinates import HEADER, OWN, Coordinate, coordinate_of
from tidegate.core.spec.pipeline import Site
from tidegate.workflow.base.columns import at_active_site
from tidegate.workflow.base.context import Context
from tidegate.workflow.failover import survey, switch
from tidegate.workflow.failover.overlap import Known

NAMES = ("oslo", "bergen")


class FakeStandby:
    """core.failover.states.Standby of a broker in memory; `asked` are the places that were read from; `away`: it is
    lost."""

    def __init__(self, kafka: FakeKafka) -> None:
        self.kafka, self.fenced, self.asked, self.away = kafka, [], [], False

    def look(self, topic: str) -> Any:
        if self.away:
            raise SourceUnavailable("no broker answers")
        return self.kafka.look(topic)

    def cuts(self, topic: str, ends: dict[int, tuple[int, int]]) -> dict[int, int]:
        return self.kafka.cuts(topic, ends)

    def records(self, topic: str, start: int, end: int, partition: int) -> Iterator[Copied]:
        self.asked.append((partition, start))
        for one in self.kafka.records(topic, partition):
            if start <= one.offset < end:
                sources = [value for name, value in one.headers or () if name == HEADER]
                yield Copied(one.offset, one.timestamp_ms, one.key, one.value, sources)

    def fence(self, copiers: Sequence[str]) -> None:
        self.fenced += copiers


class Copier:
    """Copies a topic's partitions, with coordinates unless it is `plain`; each record once, unless it begins again.
    `tells`: of a record that was a copy itself, of which topic."""

    tells = True

    def __init__(self, source: FakeKafka, target: FakeKafka, plain: bool = False, starts: dict | None = None) -> None:
        self.source, self.target, self.plain = source, target, plain
        self.at = dict(starts or {})
        self.places: dict[int, list[tuple[int, int]]] = {}  # by partition: offsets of records and of their copies

    def run(self, count: int | None = None, partition: int | None = None, transactions: bool = False) -> None:
        """`count` records of each partition at most. `transactions`: a control record comes behind each run."""
        for p in self.source.look(TOPIC).partitions if partition is None else (partition,):
            records = [r for r in self.source.records(TOPIC, p) if r.offset >= self.at.get(p, 0)]
            for one in records[: len(records) if count is None else count]:
                if not self._is_of_the_target(one):
                    self._copy(p, one)
            if transactions:
                self.target.skip(TOPIC, p)

    def _is_of_the_target(self, one: Record) -> bool:
        copy = _coordinate(one)
        return copy is not None and copy.topic_id == self.target.look(TOPIC).topic_id

    def _copy(self, partition: int, one: Record) -> None:
        itself = _coordinate(one)
        of = (OWN if itself is None else itself.topic_id) if self.tells else None
        source = Coordinate(self.source.look(TOPIC).topic_id, partition, self.at.get(partition, 0), one.offset, of)
        headers = [(name, value) for name, value in one.headers or () if name != HEADER]
        headers += [] if self.plain else [(HEADER, source.text())]
        copied = {"key": one.key, "timestamp_ms": one.timestamp_ms, "headers": headers}
        place = self.target.append(TOPIC, partition, one.value, **copied)
        self.places.setdefault(partition, []).append((one.offset, place))
        self.at[partition] = one.offset + 1


def _coordinate(one: Record) -> Coordinate | None:
    return coordinate_of([value for name, value in one.headers or () if name == HEADER])


class TwoSites(World):
    """`world.kafka` is that of the active site; `produced` are the ids of all records that producers wrote; `stamped`:
    with a timestamp of its own each."""

    stamped = False

    def __init__(self, folder: Path, copiers: tuple[str, ...] = ()) -> None:
        super().__init__(folder)
        second = FakeKafka()
        second._created = 100  # ids of topics differ
        second.create(TOPIC, 2)
        self.at = dict(zip(NAMES, (self.kafka, second), strict=True))
        self.standbys = {name: FakeStandby(kafka) for name, kafka in self.at.items()}
        sites = (Site(name="oslo", conn_id="kafka"), Site(name="bergen", conn_id="kafka_2", copiers=copiers))
        self.change_spec(source=replace(self.pipeline.source, sites=sites, gaps="allow"))
        self.produced: list[str] = []
        self.there = Copier(self.at["oslo"], self.at["bergen"])

    def context(self) -> Context:
        ctx = super().context()
        active = at_active_site(self.pipeline, ctx.ledger)
        self.kafka = ctx.source = self.at[active.source.site]
        ctx.standby = self.standbys.__getitem__
        return ctx

    def write(self, site: str, *ids: str, partition: int = 0, hour: float = 0.1) -> None:
        for one in ids:
            at = len(self.produced) if self.stamped else 0
            self.at[site].append(TOPIC, partition, _json(record(one, hour)), timestamp_ms=at)
            self.produced.append(one)

    def survey(self, site: str = "bergen", **settings: Any) -> Any:
        fence = settings.pop("fence", False)
        return survey.survey(self.context(), site, survey.Said(**({"stopped": True} | settings)), fence)

    def pairs(self, *told: tuple[int, int, int]) -> Known:
        """What an operator says: (partition, offset, offset of its copy)."""
        return Known(self.context().ledger.reads, InProcessRows(), {p: Pair(*places) for p, *places in told})

    def fail_over(self, site: str = "bergen", **settings: Any) -> Any:
        decision = self.survey(site, **settings)
        return switch.apply(self.context(), decision, "the first site is away")

    def note(self, site: str = "oslo") -> Any:
        newest = self.context().ledger.failovers.newest(self.pipeline.name)
        found = switch.ends_of(self.context(), site)
        switch.note(self.context(), site, found, 0 if newest is None else newest.number)
        return found

    def drain(self, run: str) -> None:
        """Ingest until there is nothing more."""
        for n in range(20):
            if self.ingest(f"{run}-{n}") is None:
                return
        raise AssertionError("it does not end")

    def rows(self) -> list[str]:
        """Ids of all rows that have landed, in the files of all batches."""
        found: list[str] = []
        for folder in sorted((self.folder / "lake/readings/_tidegate/landed").glob("*")):
            found += ids_at(folder)
        return sorted(found)


def ids_at(folder: Path) -> list[str]:
    import pyarrow.parquet as pq

    return [one for path in folder.rglob("*.parquet") for one in pq.read_table(path, columns=["id"])["id"].to_pylist()]


def _json(value: dict[str, Any]) -> bytes:
    import json

    return json.dumps(value).encode()
