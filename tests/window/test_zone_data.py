"""Zone data change, and hosts differ: what was cut or spelled by other zone data is refused, never guessed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.audit.audits import look
from tests.world import HOUR, World, make_pipeline
from tests.zone_hosts import ZONE, Hosts
from tidegate.core.base.errors import BatchRefused, OtherZoneData, ReplayRefused
from tidegate.core.look import overdue
from tidegate.core.spec.pipeline import Pipeline, Reopening, Windows
from tidegate.core.window.cut import window_end, window_start
from tidegate.core.window.states import WindowKey
from tidegate.workflow.base import outcome
from tidegate.workflow.batch import ingest
from tidegate.workflow.late import reopen
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay

DAY = 24 * HOUR


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts(tmp_path / "zones")
    made.use("new")
    yield made
    made.back()


class Life:
    """A pipeline of local days, or of hours, around 2023-04-28, when the clocks of Cairo go forward."""

    def __init__(
        self, folder: Path, hosts: Hosts, size_ms: int = DAY, now: str = "2023-05-05T00:00", **changes: object
    ) -> None:
        folder.mkdir()
        spec: Pipeline = make_pipeline(f"file://{folder}/lake/readings")
        windows = Windows(
            size_ms=size_ms, timezone=ZONE, start_ms=ms("2023-04-24T22:00"), watermark_delay_ms=HOUR, idle="follow"
        )
        names = ("date", "site") if size_ms == DAY else ("date", "hour", "site")
        spec = replace(spec, windows=windows, partition_by=names, reopening=Reopening(age_ms=None), **changes)
        self.hosts, self.world = hosts, World(folder, spec)
        self.at(now)

    def at(self, text: str) -> None:
        self.world.clock.advance(ms(text) - self.world.clock.now_ms())

    def produce(self, *times: str) -> None:
        for partition in range(2):
            rows = ({"id": t, "site": "a", "at": ms(t), "value": 1} for t in times)
            self.world.produce(*rows, partition=partition)

    def ingest(self, run: str, worker: str = "new") -> None:
        ingest.plan(self.world.context(), run)
        self.write(run, worker)
        ingest.land(self.world.context(), run)
        self.world.close()

    def write(self, run: str, worker: str) -> None:
        ctx = self.world.context()
        ctx.launcher = self.hosts.worker(worker, ctx.launcher)
        ingest.write(ctx, run)
        self.world.close()

    def key(self, text: str) -> WindowKey:
        start = window_start(ms(text), self.world.pipeline.windows)
        return WindowKey(start, window_end(start, self.world.pipeline.windows))

    def publish(self) -> list[str]:
        """Everything that is due; refusals in words."""
        refused = []
        for key in reconcile.due(self.world.context()):
            try:
                archive.publish(self.world.context(), key)
            except OtherZoneData as e:
                refused.append(str(e))
        self.world.close()
        return refused

    def rows(self) -> dict[str | None, int]:
        """Of the table, by day."""
        found = self.world.partitions("lake.readings").items()
        return {dict(values)["date"]: len(self.world.rows_at(at)) for values, at in found}

    def forget_pins(self) -> None:
        """As a release that pinned no zone data would have left it."""
        self.world.close()
        with sqlite3.connect(self.world.database) as c:
            c.execute("UPDATE batches SET zone = NULL")


def test_a_worker_with_other_zone_data_reads_nothing_and_says_whose_differ(tmp_path: Path, hosts: Hosts) -> None:
    life = Life(tmp_path / "w", hosts)
    life.produce("2023-04-28T10:00", "2023-04-29T10:00", "2023-05-01T10:00")
    ingest.plan(life.world.context(), "r1")
    with pytest.raises(BatchRefused) as refused:
        life.write("r1", "old")
    said = str(refused.value)
    assert "zone data of Test/Cairo disagree from 2023-04-27T22:00Z on: UTC+03:00 by the plan of batch 1" in said
    assert f"tzdata new ({tmp_path}/zones/new)" in said
    assert f"UTC+02:00 by this worker's (tzdata old ({tmp_path}/zones/old))" in said
    assert "install the same tzdata" in said
    assert not list((tmp_path / "w/lake").rglob("*.parquet"))
    life.write("r1", "new")  # once the executors have them too
    ingest.land(life.world.context(), "r1")
    life.produce("2023-05-04T10:00")
    life.ingest("r2")
    assert life.publish() == []
    assert life.rows() == {"2023-04-28": 2, "2023-04-29": 2, "2023-05-01": 2}
    life.world.close()


def test_a_receipt_of_windows_that_the_schedule_lacks_is_refused(tmp_path: Path, hosts: Hosts) -> None:
    """The plan of an older release pins nothing: its worker wrote what it wrote."""
    life = Life(tmp_path / "w", hosts)
    life.produce("2023-04-28T10:00", "2023-04-29T10:00")
    ingest.plan(life.world.context(), "r1")
    life.forget_pins()
    with pytest.raises(BatchRefused) as refused:
        life.write("r1", "old")
    said = str(refused.value)
    assert "a window 2023-04-28T22:00Z, which is not one of the schedule: the window there is " in said
    assert "[2023-04-28T21:00Z, 2023-04-29T21:00Z)" in said
    assert "install the same tzdata" in said
    life.world.close()


@pytest.mark.parametrize("policy", ["side", "reroute"])
def test_rows_at_the_far_end_of_a_shorter_day_are_refused_too(tmp_path: Path, hosts: Hosts, policy: str) -> None:
    """The day begins where it begins by both zone data; a row of its 24th hour is the next day's."""
    life = Life(tmp_path / "w", hosts, late_policy=policy)
    life.produce("2023-04-28T10:00", "2023-04-28T21:30")
    ingest.plan(life.world.context(), "r1")
    life.forget_pins()
    with pytest.raises(BatchRefused, match=r"rows from 2023-04-28T10:00Z to 2023-04-28T21:30Z in the window"):
        life.write("r1", "old")
    life.world.close()


def test_an_open_batch_is_judged_by_the_zone_data_of_its_plan(tmp_path: Path, hosts: Hosts) -> None:
    """Upgraded between plan and write: nothing of these days has landed, so that it can be planned again."""
    life = Life(tmp_path / "w", hosts)
    life.produce("2023-04-29T10:00")
    hosts.use("old")
    ingest.plan(life.world.context(), "r1")
    hosts.use("new")
    with pytest.raises(OtherZoneData, match="repair readings --reread 1") as refused:
        life.write("r1", "new")
    assert "batch 1 is not written: zone data of Test/Cairo disagree from 2023-04-27T22:00Z on" in str(refused.value)
    reconcile.reread(life.world.context(), 1, "tzdata")
    life.ingest("r2")
    life.produce("2023-05-04T10:00")
    life.ingest("r3")
    assert life.publish() == []
    assert len(life.world.table()) == 2
    life.world.close()


def test_days_that_other_zone_data_cut_are_neither_filled_up_nor_published_without_their_rows(
    tmp_path: Path, hosts: Hosts
) -> None:
    """Upgraded after a batch has landed: no plan, no hour; with the zone data of then all goes on."""
    life = Life(tmp_path / "w", hosts)
    hosts.use("old")
    life.produce("2023-04-28T10:00", "2023-04-29T10:00", "2023-05-01T10:00")
    life.ingest("r1", "old")
    life.produce("2023-05-04T10:00")
    life.ingest("r2", "old")
    hosts.use("new")
    life.produce("2023-05-04T11:00")
    with pytest.raises(OtherZoneData, match="nothing is planned: zone data of Test/Cairo disagree"):
        ingest.plan(life.world.context(), "r3")
    refused = life.publish()
    assert len(refused) == 5, "the 29th and what may share a moment with the days of the older zone data"
    assert "rows have landed in the window 2023-04-28T22:00Z, which the zone data of this host (" in refused[0]
    # the 29th, the 1st and the 4th of May by the older zone data: named by the audit, and by maintenance for status
    report = look(life.world)
    days = ("20230428", "20230430", "20230503")
    assert [p.subject for p in report.problems] == [f"window {day}T220000Z" for day in days]
    assert "2 landed rows that no run will publish: the schedule has no such window: by" in report.problems[0].what
    ctx = life.world.context()
    reconcile.note_archive(ctx)
    seen = reconcile.look(ctx)
    (concern,) = overdue.concerns(ctx.pipeline, seen.due, seen.due, None, seen.note, ctx.clock.now_ms())
    assert concern.what.startswith(
        "landed rows of window 2023-04-28T22:00Z and 2 other windows will never be published"
    )
    cut_by_new = life.key("2023-04-29T10:00")
    hosts.use("old")
    with pytest.raises(OtherZoneData, match="2023-04-28T21:00Z is not published: no window begins there by the zone"):
        archive.publish(life.world.context(), cut_by_new)
    assert overdue.concerns(ctx.pipeline, seen.due, seen.due, None, seen.note, ctx.clock.now_ms()) == []
    life.ingest("r3", "old")
    assert life.publish() == []
    assert life.rows() == {"2023-04-28": 2, "2023-04-29": 2, "2023-05-01": 2}
    assert look(life.world).balanced
    reconcile.note_archive(life.world.context())
    note = life.world.context().ledger.due.note("readings")
    assert note is not None
    assert note.stranded is None
    life.world.close()


def test_what_changes_ahead_holds_nothing_up(tmp_path: Path, hosts: Hosts) -> None:
    """Hosts hear of the new rule in time: on the day before clocks go forward, which has rows already."""
    life = Life(tmp_path / "w", hosts, now="2023-04-27T15:00")
    hosts.use("old")
    life.produce("2023-04-27T10:00")
    life.ingest("r1", "old")
    hosts.use("new")
    life.produce("2023-04-27T14:00")
    life.ingest("r2")
    life.at("2023-05-05T00:00")
    life.produce("2023-04-28T20:30", "2023-04-28T21:30", "2023-05-04T10:00")
    life.ingest("r3")
    assert life.publish() == []
    assert life.rows() == {"2023-04-27": 4, "2023-04-28": 2, "2023-04-29": 2}
    published = replay.replay(life.world.context(), life.key("2023-04-28T10:00"))
    assert published.note == "unchanged"
    life.world.close()


def test_a_replay_is_refused_only_for_windows_that_would_get_other_rows(tmp_path: Path, hosts: Hosts) -> None:
    life = Life(tmp_path / "w", hosts)
    hosts.use("old")
    life.produce("2023-04-25T10:00", "2023-04-28T10:00", "2023-04-28T21:30", "2023-05-04T10:00")
    life.ingest("r1", "old")
    assert life.publish() == []
    before, early, changed = life.rows(), life.key("2023-04-25T10:00"), life.key("2023-04-28T10:00")
    hosts.use("new")
    assert replay.replay(life.world.context(), early).note == "unchanged"
    outcomes = replay.replay_range(life.world.context(), [early, changed], again=True)
    assert [o.what for o in outcomes] == [replay.UNCHANGED, outcome.REFUSED]
    assert "2023-04-27T22:00Z: zone data of Test/Cairo disagree from 2023-04-27T22:00Z on" in outcomes[1].why
    ctx = life.world.context()
    ctx.launcher = hosts.worker("old", ctx.launcher)
    assert replay.replay(ctx, early).note == "unchanged", "what the worker's say of other days does not matter"
    hosts.use("old")
    ctx = life.world.context()
    ctx.launcher = hosts.worker("new", ctx.launcher)
    with pytest.raises(ReplayRefused, match="disagree from 2023-04-27T22:00Z on: .* by this worker's"):
        replay.replay(ctx, changed)
    assert replay.replay(life.world.context(), changed).note == "unchanged"
    assert life.rows() == before
    life.world.close()


def test_late_rows_leave_the_directory_that_the_worker_spelled(tmp_path: Path, hosts: Hosts) -> None:
    """Landed by a release that compared no zone data: hour 12 by the worker, hour 13 by the control plane."""
    life = Life(tmp_path / "w", hosts, size_ms=HOUR)
    w, key = life.world, life.key("2023-04-29T10:10")
    life.produce("2023-04-29T10:10", "2023-04-29T20:00")
    life.ingest("r1")
    archive.publish(w.context(), key)
    hosts.use("old")
    life.produce("2023-04-29T10:30")
    life.ingest("r2", "old")
    hosts.use("new")
    assert [dict(v)["hour"] for v in w.partitions("lake.readings__late")] == ["12"]
    reopen.reopen(w.context(), key, "late rows")
    w.close()
    assert (len(w.table()), w.table("__late"), w.partitions("lake.readings__late")) == (4, [], {})
    assert reconcile.maintain(w.context()) == []
    assert look(w).balanced
    w.close()


def test_a_late_directory_spelled_otherwise_is_refused_at_seal(tmp_path: Path, hosts: Hosts) -> None:
    life = Life(tmp_path / "w", hosts, size_ms=HOUR)
    life.produce("2023-04-29T10:10", "2023-04-29T20:00")
    life.ingest("r1")
    archive.publish(life.world.context(), life.key("2023-04-29T10:10"))
    life.produce("2023-04-29T10:30")
    ingest.plan(life.world.context(), "r2")
    life.forget_pins()
    with pytest.raises(BatchRefused, match=r"late/date=2023-04-29/hour=12/.* is spelled date=2023-04-29/hour=13 here"):
        life.write("r2", "old")
    life.world.close()


def test_a_published_hour_keeps_its_partition(tmp_path: Path, hosts: Hosts) -> None:
    """A second partition of it would show its rows twice."""
    life = Life(tmp_path / "w", hosts, size_ms=HOUR)
    w, key = life.world, life.key("2023-04-29T10:10")
    hosts.use("old")
    life.produce("2023-04-29T10:10", "2023-04-29T20:00")
    life.ingest("r1", "old")
    archive.publish(w.context(), key)
    hosts.use("new")
    for step in (archive.publish, replay.replay):
        with pytest.raises(OtherZoneData, match=r"was published at .*hour=12; .* spell it .*hour=13"):
            step(w.context(), key)
    assert [dict(v)["hour"] for v in w.partitions("lake.readings")] == ["12"]
    w.close()


def test_an_hour_does_not_get_the_partition_of_another(tmp_path: Path, hosts: Hosts) -> None:
    """One scheduler spells 09:00Z hour=12, another one, with older zone data, 10:00Z."""
    life = Life(tmp_path / "w", hosts, size_ms=HOUR)
    w, first, second = life.world, life.key("2023-04-29T09:10"), life.key("2023-04-29T10:10")
    life.produce("2023-04-29T09:10", "2023-04-29T10:10", "2023-04-29T20:00")
    life.ingest("r1")
    archive.publish(w.context(), first)
    hosts.use("old")
    with pytest.raises(OtherZoneData, match=r"10:00Z is not published: .*/hour=12, where window 2023-04-29T09:00Z is"):
        archive.publish(w.context(), second)
    hosts.use("new")
    archive.publish(w.context(), second)
    assert w.by_window() == {"12": [(0, 0), (1, 0)], "13": [(0, 1), (1, 1)]}
    assert look(w).balanced
    w.close()
