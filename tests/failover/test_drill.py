"""The drill: two real brokers, a transactional copier with coordinates between them, and the first one killed in the
middle of a batch. What has landed in the end is compared with the producers' own log: each record once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from dev.copier import Copier
from dev.demo.mirror.connect import Connect
from dev.demo.run import launcher_of
from dev.stack.ports import choose_ports
from dev.stack.stack import Stack
from tests.failover.exact_mirror import ExactMirror, mirror, pairs_of
from tests.failover.sites import NAMES, TwoSites
from tests.real_kafka import RealKafka, Topic, _broker, eventually
from tests.world import record
from tidegate.core.base.errors import FailoverRefused, JobFailed, SiteNotActive
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.batch.jobs import ReadPlan
from tidegate.core.failover.crossing import RefusalKind
from tidegate.core.source.records import Chunk
from tidegate.sources.kafka.standby import KafkaStandby
from tidegate.sources.kafka.worker import KafkaReader
from tidegate.workflow.batch import ingest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("TIDEGATE_FAILOVER") != "all", reason="make test-failover"),
]
THERE, BACK = "drill-there", "drill-back"


class Site:
    """A broker of its own, with the topic."""

    def __init__(self, root: Path) -> None:
        self.stack = Stack(root, parts=("kafka",))
        self.info = self.stack.up()
        self.topic = Topic(self.info.kafka_bootstrap, 2)

    @property
    def settings(self) -> dict[str, str]:
        return {"bootstrap.servers": self.info.kafka_bootstrap}

    def kill(self) -> None:
        os.kill(_broker(self.info), signal.SIGKILL)

    def returns(self) -> None:
        self.stack.down()
        self.info = self.stack.up()
        self.topic._producers.clear()


class Dying(RealKafka):
    """Small fetches; the site is killed when a task has its first chunk."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.topic, stall_seconds=2.0)
        self._site, self._killed = site, False
        self.settings |= {"queued.max.messages.kbytes": "100", "fetch.message.max.bytes": "10000"}

    def reader(self, plan: ReadPlan) -> KafkaReader:
        reader = super().reader(plan)
        read = reader.read

        def until_killed(wanted: OffsetRange) -> Iterator[Chunk]:
            for chunk in read(wanted):
                yield chunk
                if not self._killed:
                    self._killed = True
                    self._site.kill()

        reader.read = until_killed  # type: ignore[method-assign]
        return reader


class Drill(TwoSites):
    """The world of two real sites, and the producers' own log: what was acknowledged, by partition."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "world")
        self.sites = {name: Site(folder / name) for name in NAMES}
        first, second = (site.topic for site in self.sites.values())
        second.delete()
        second.name = first.name
        second.create(2)
        source = self.pipeline.source
        oslo, bergen = source.sites
        named = (replace(oslo, copiers=(BACK,)), replace(bergen, copiers=(THERE,)))
        self.change_spec(source=replace(source, topic=first.name, sites=named))
        self.acknowledged: list[str] = []
        self.open()

    def open(self) -> None:
        self.at = {name: RealKafka(site.topic) for name, site in self.sites.items()}  # type: ignore[misc]
        made = {name: KafkaStandby(site.settings, "read_committed", timeout_s=60) for name, site in self.sites.items()}
        self.standbys = made  # type: ignore[assignment]

    def wrote(self, site: str, first: int, count: int, filler: int = 0) -> None:
        """Producers log what the broker has acknowledged."""
        for partition in (0, 1):
            ids = [f"{site}-{partition}-{n:04}" for n in range(first, first + count)]
            records = [record(one, 0.1) | {"filler": "x" * filler} for one in ids]
            with self.sites[site].topic.transaction() as send:
                send(*records, partition=partition)
            self.acknowledged += ids

    def copier(self, source: str, target: str, who: str, starts: dict[int, int] | None = None) -> Copier:
        here, there = self.sites[source], self.sites[target]
        return Copier(here.settings, there.settings, here.topic.name, who, starts)


@pytest.fixture
def drill(tmp_path: Path) -> Iterator[Drill]:
    (tmp_path / "world").mkdir()
    made = Drill(tmp_path)
    yield made
    made.close()
    for site in made.sites.values():
        site.stack.down()


def test_the_first_site_dies_in_the_middle_of_a_batch_and_returns(drill: Drill) -> None:
    drill.wrote("oslo", 0, 150)
    there = drill.copier("oslo", "bergen", THERE)
    assert there.copy(100) == 200
    drill.drain("r1")
    assert drill.rows() == sorted(drill.acknowledged)
    drill.wrote("oslo", 1000, 200, filler=2000)
    assert there.copy(120) == 240  # 50 of each partition that have landed, 70 that have not
    assert drill.copier("oslo", "bergen", THERE).copy(20) == 40  # it goes on by its own copies
    zombie = drill.copier("oslo", "bergen", THERE)
    zombie.begin(30)  # and dies in the middle of a transaction; 80 of each partition it never saw

    stale = drill.context()
    drill.at["oslo"] = Dying(drill.sites["oslo"])
    ingest.plan(drill.context(), "r2")
    with pytest.raises(JobFailed):
        ingest.write(drill.context(), "r2")
    with pytest.raises(KafkaException):
        drill.wrote("oslo", 5000, 1)

    plan = drill.survey(stopped=False)
    assert plan.refusals == ()
    assert {(c.landed - c.landed % 50, c.to_read) for c in plan.crossings} == {(150, 90)}
    done = drill.fail_over(stopped=False, fence=True)
    with pytest.raises(KafkaException):
        zombie.commit()
    drill.wrote("bergen", 0, 50)
    drill.drain("r3")
    crossed = [one for one in drill.acknowledged if not one.startswith("oslo") or int(one[-4:]) < 1090]
    assert drill.rows() == sorted(crossed)

    drill.sites["oslo"].returns()
    drill.open()
    stale.source = drill.at["oslo"]
    with pytest.raises(SiteNotActive):
        ingest.plan(stale, "split brain")
    returned = drill.note()
    assert [r.partition for r in returned] == [0, 1]
    assert all(r.end - r.left in (110, 111) for r in returned), "and the control record of a transaction"
    back = drill.copier("bergen", "oslo", BACK, {p: done.certificate.of(p).mark for p in (0, 1)})
    back.copy(20)
    drill.wrote("bergen", 50, 30)
    drill.drain("r4")
    back.copy(1000)
    assert {r.kind for r in drill.survey("oslo", stopped=False, marks={0: 10**6}).refusals} == {RefusalKind.SHRUNK}
    drill.fail_over("oslo", stopped=False, fence=True)
    drill.wrote("oslo", 2000, 40)
    drill.drain("r5")
    assert drill.rows() == sorted(drill.acknowledged)
    assert len(set(drill.acknowledged)) == len(drill.acknowledged) == 2 * (150 + 200 + 50 + 30 + 40)


def test_stock_mirrormaker_2_ends_in_a_refusal(drill: Drill, tmp_path: Path) -> None:
    """As it comes it copies at least once, and says of no copy what it is of: nothing can be proven (F1)."""
    drill.wrote("oslo", 0, 50)
    drill.drain("r1")
    oslo, bergen = drill.sites.values()
    mirror = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "oslo",
        "target.cluster.alias": "bergen",
        "source.cluster.bootstrap.servers": oslo.info.kafka_bootstrap,
        "target.cluster.bootstrap.servers": bergen.info.kafka_bootstrap,
        "topics": oslo.topic.name,
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
        "consumer.isolation.level": "read_committed",
    }
    (port,) = choose_ports(("connect",), {}).values()
    launcher = launcher_of(Path(bergen.info.root))
    made = Connect(tmp_path, bergen.info.kafka_bootstrap, port, {"mirror": mirror}, launcher, jars="mirrormaker")
    made.start()
    try:
        eventually(lambda: [p.high_watermark for p in bergen.topic.state().partitions.values()] == [50, 50])
    finally:
        made.stop()
    decision = drill.survey(stopped=True)
    assert [r.kind for r in decision.refusals] == [RefusalKind.NO_COORDINATES] * 2
    assert "50 records from offset 0 to 49 have no header tidegate-source, 0 have one" in decision.refusals[0].words
    assert "MirrorMaker 2" in decision.refusals[0].advice
    with pytest.raises(FailoverRefused, match="no coordinates"):
        drill.fail_over(stopped=True)
    drill.wrote("oslo", 50, 10)
    drill.drain("r2")
    assert drill.rows() == sorted(drill.acknowledged)


def test_a_failover_to_stock_mirrormaker_2_with_exactly_once_support(drill: Drill, tmp_path: Path) -> None:
    """Its pairs are those of its own topic. Both ways, and equal to the producers' log."""
    oslo, bergen = drill.sites.values()
    name, ends = oslo.topic.name, {n: (n, site.info.kafka_bootstrap) for n, site in drill.sites.items()}
    named = tuple(replace(site, copiers=()) for site in drill.pipeline.source.sites)
    drill.change_spec(source=replace(drill.pipeline.source, sites=named))
    ports = choose_ports(("there", "back"), {})
    launcher = launcher_of(Path(bergen.info.root))
    there = ExactMirror(tmp_path / "there", ports["there"], mirror(name, ends["oslo"], ends["bergen"]), launcher)
    for n in range(4):
        drill.wrote("oslo", n * 50, 50)
    drill.drain("r1")
    there.start()
    try:
        drill.wrote("oslo", 1000, 40)
        _caught_up(bergen, 240)
    finally:
        there.stop()
    drill.wrote("oslo", 2000, 10)  # never crosses
    ingest.plan(drill.context(), "r2")
    oslo.kill()

    assert {r.kind for r in drill.survey().refusals} == {RefusalKind.NO_COORDINATES}
    synced = pairs_of(bergen.info.kafka_bootstrap, "oslo", name)
    landed = {p: p_landed(drill, p) for p in (0, 1)}
    told = [(p, *next(pair for pair in synced[p] if pair[0] + 150 <= landed[p])) for p in (0, 1)]
    wrong = [(p, before, here + 1) for p, before, here in told]
    assert {r.kind for r in drill.survey(known=drill.pairs(*wrong)).refusals} == {RefusalKind.DIFFERENCE}
    plan = drill.survey(known=drill.pairs(*told))
    assert plan.refusals == ()
    assert [c.to_read for c in plan.crossings] == [40, 40]
    done = drill.fail_over(known=drill.pairs(*told))
    for n in range(3):
        drill.wrote("bergen", n * 50, 50)
    drill.drain("r3")
    never = [one for one in drill.acknowledged if one.startswith("oslo") and int(one[-4:]) >= 2000]
    assert drill.rows() == sorted(set(drill.acknowledged) - set(never))

    oslo.returns()
    drill.open()
    noted = {one.partition: one for one in drill.note()}
    assert [one.end - one.left for one in noted.values()] == [12, 12], "and the control records of two transactions"
    starts = {p: done.certificate.of(p).mark for p in (0, 1)}
    ends = {n: (n, site.info.kafka_bootstrap) for n, site in drill.sites.items()}
    homeward, launcher = mirror(name, ends["bergen"], ends["oslo"]), launcher_of(Path(oslo.info.root))
    back = ExactMirror(tmp_path / "back", ports["back"], homeward, launcher, starts)
    back.start()
    try:
        _caught_up(oslo, 150, {p: one.end for p, one in noted.items()})
    finally:
        back.stop()
    drill.fail_over("oslo", known=drill.pairs(*((p, starts[p], noted[p].end) for p in (0, 1))))
    drill.wrote("oslo", 3000, 20)
    drill.drain("r4")
    assert drill.rows() == sorted(drill.acknowledged)
    assert len(set(drill.acknowledged)) == len(drill.acknowledged) == 2 * (200 + 40 + 10 + 150 + 20)


def p_landed(drill: Drill, partition: int) -> int:
    crossing = next(c for c in drill.survey().crossings if c.partition == partition)
    return crossing.landed


def _caught_up(site: Site, count: int, starts: dict[int, int] | None = None) -> None:
    """So many records are there of each partition, from an offset on."""
    log = KafkaStandby(site.settings, "read_committed", timeout_s=60)
    begin = starts or {0: 0, 1: 0}

    def there() -> bool:
        lanes = log.look(site.topic.name).partitions
        found = [list(log.records(site.topic.name, at, lanes[p].high_watermark, p)) for p, at in begin.items()]
        return [len(one) for one in found] == [count, count]

    eventually(there)
