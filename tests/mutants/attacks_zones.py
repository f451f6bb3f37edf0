"""Traces in which hosts have other zone data, or get others while days are open (R1)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from tests.mutants.names import FATE, require
from tests.mutants.stage import HOUR, Stage, refused
from tests.zone_hosts import ZONE, Hosts
from tidegate.core.base.errors import BatchRefused, OtherZoneData, ReplayRefused
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.cut import window_end, window_start
from tidegate.core.window.states import WindowKey
from tidegate.workflow.batch import ingest
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay

DAY = 24 * HOUR


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@contextmanager
def _local_days(stage: Stage, zone_data: str, now: str = "2023-05-01T00:00") -> Iterator[Hosts]:
    """By `new` zone data the night before 28 April 2023 is an hour shorter, so that all days from there on begin at
    21:00Z; by `old` they begin at 22:00Z."""
    windows = Windows(
        size_ms=DAY, timezone=ZONE, start_ms=_ms("2023-04-26T22:00"), watermark_delay_ms=HOUR, idle="follow"
    )
    stage.change_spec(windows=windows, partition_by=("date", "site"))
    _at(stage, now)
    hosts = Hosts(stage.folder / "zones")
    hosts.use(zone_data)
    try:
        yield hosts
    finally:
        hosts.back()


def _at(stage: Stage, now: str) -> None:
    stage.clock.advance(_ms(now) - stage.clock.now_ms())


def _produce(stage: Stage, *times: str) -> None:
    for partition in range(2):
        rows = ({"id": t, "site": "a", "at": _ms(t), "value": 1, "other": 2} for t in times)
        stage.produce(*rows, partition=partition)


def _day(stage: Stage, text: str) -> WindowKey:
    start = window_start(_ms(text), stage.pipeline.windows)
    return WindowKey(start, window_end(start, stage.pipeline.windows))


def the_worker_has_older_zone_data(stage: Stage) -> None:
    """R1: it would cut other days than the plan, and the last hour of the 28th is the 29th's."""
    with _local_days(stage, "new") as hosts:
        _produce(stage, "2023-04-28T10:00", "2023-04-28T21:30")
        ingest.plan(stage.context(), "r1")
        ctx = stage.context()
        ctx.launcher = hosts.worker("old", ctx.launcher)
        refused(lambda: ingest.write(ctx, "r1"), BatchRefused)
        stage.run("r1")
        _produce(stage, "2023-04-30T10:00")
        stage.at_rest()
        found = {dict(values)["date"]: stage.rows_at(at) for values, at in stage.partitions("lake.readings").items()}
        require(found.get("2023-04-29") == [(0, 1), (1, 1)], FATE, f"the last row is the 29th's: {found}")


def zone_data_change_between_two_batches(stage: Stage) -> None:
    """R1: days that have rows already, as the older zone data cut them, get none as the newer ones do."""
    with _local_days(stage, "old") as hosts:
        _produce(stage, "2023-04-28T21:30", "2023-04-29T10:00")
        stage.run("r1")
        hosts.use("new")
        _produce(stage, "2023-04-29T11:00", "2023-04-30T10:00")
        if refused(lambda: ingest.plan(stage.context(), "r2"), OtherZoneData):
            hosts.use("old")
        stage.run("r2")
        stage.at_rest()


def zone_data_change_before_days_close(stage: Stage) -> None:
    """R1: a day is not published without the rows that have landed in a day of the older zone data."""
    with _local_days(stage, "old") as hosts:
        _produce(stage, "2023-04-28T21:30", "2023-04-29T10:00", "2023-04-30T10:00")
        stage.run("r1")
        hosts.use("new")
        for key in reconcile.due(stage.context()):
            if refused(lambda k=key: archive.publish(stage.context(), k), OtherZoneData):
                hosts.use("old")
                break
        stage.at_rest()


def zone_data_change_before_a_replay(stage: Stage) -> None:
    """R1: the last hour of the 28th, by the zone data of its plan, stays the 28th's."""
    with _local_days(stage, "old") as hosts:
        _produce(stage, "2023-04-28T10:00", "2023-04-28T21:30", "2023-04-30T10:00")
        stage.run("r1")
        stage.settle()
        day = _day(stage, "2023-04-28T10:00")
        stage.other_columns()
        hosts.use("new")
        refused(lambda: replay.replay(stage.context(), day), ReplayRefused)
        hosts.use("old")
        stage.at_rest()


def clocks_will_change_tomorrow(stage: Stage) -> None:
    """R1: hosts hear of the new rule in time. No row can have come from beyond a plan's horizon: nothing waits."""
    with _local_days(stage, "old", now="2023-04-27T15:00") as hosts:
        _produce(stage, "2023-04-27T10:00")
        stage.run("r1")
        hosts.use("new")
        _produce(stage, "2023-04-27T14:00")
        stage.run("r2")
        _at(stage, "2023-05-01T00:00")
        _produce(stage, "2023-04-28T21:30", "2023-04-30T10:00")
        stage.run("r3")
        stage.at_rest()
