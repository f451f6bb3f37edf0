"""Expressions and event times that change while a pipeline runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.batch.test_protocol_spec_changes import balanced, rows, two_hours, values, world
from tests.hooks import Died, Hook, die, use_catalogue
from tests.look.row_readers import InProcessRows
from tests.world import HOUR, T0, TOPIC, World, record, window
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.dirty import redrive
from tidegate.workflow.look.where import where
from tidegate.workflow.replay import replay

__all__ = ["world"]  # fixtures


# ---------------------------------------------------------------- expressions


def test_a_life_with_where_and_computed_columns_that_change(world: World) -> None:
    id_, _, value = world.pipeline.columns
    raw = Column(name="raw_site", type="string", path="$.site", hidden=True)
    computed = Column(name="site", type="string", path="", expr="lower(raw_site)")
    double = Column(name="double", type="int", path="", expr="value * 2")
    world.change_spec(columns=(id_, computed, value, raw), where="value < 10")
    world.produce(
        record("a0", 0.1, "A"), record("a1", 0.5, "b", value=50), record("b0", 1.2, "B", value=20), b"not json"
    )
    world.produce(record("c0", 2.0, value=11), record("d0", 3.5, value=12), partition=1)
    world.ingest("r1")  # filtered rows have moved the watermark over hour 0
    assert world.archive(0).rows == 1
    assert [dict(v)["site"] for v in world.partitions("lake.readings")] == ["a"]

    world.change_spec(columns=(id_, computed, value, raw, double), where="value < 15")
    world.produce(record("n", 1.5, "A", value=14), record("f", 1.6, value=15), record("z", 4.0))
    world.produce(record("y", 4.9), partition=1)
    world.ingest("r2")
    assert world.archive(1).rows == 1
    assert {r["id"]: (r["value"], r["double"]) for r in rows(world)} == {"a0": (1, None), "n": (14, 28)}
    balanced(world)

    replayed = world.replay(0)
    assert (replayed.generation, replayed.rows) == (2, 1), "who is in stays decided by the batch's own where"
    assert {r["id"]: (r["value"], r["double"]) for r in rows(world)} == {"a0": (1, 2), "n": (14, 28)}
    assert world.replay(1).note == "unchanged"
    balanced(world)


def test_a_replay_after_an_unfinished_one_uses_todays_columns(world: World) -> None:
    """The operator saw the mistake in the spec while the first replay ran, and took it back."""
    two_hours(world)
    world.ingest("r1")
    world.archive(0)
    id_, site, value = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))
    ctx = world.context()
    ctx.ledger.windows = Hook(ctx.ledger.windows, after={"built": die})
    with pytest.raises(Died):
        replay.replay(ctx, window(0))
    world.change_spec(columns=(id_, site, value))
    world.replay(0)
    assert values(world) == [1, 1]
    assert not any("published generation 2" in line for line in world.said), "readers never meet the mistake"


def test_a_replay_that_readers_may_have_met_is_finished_before_the_next(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    world.archive(0)
    before = world.table()
    id_, site, value = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))
    ctx = world.context()
    use_catalogue(ctx, Hook(world.catalogue, after={"set_location": die}))
    with pytest.raises(Died):
        replay.replay(ctx, window(0))
    assert world.table() == before, "one partition switched, one not: every row once"
    world.change_spec(columns=(id_, site, value))
    world.clock.advance(ctx.request_ttl_ms)  # until then the dead task's last change might still be executed
    world.replay(0)
    assert world.table() == before
    assert values(world) == [1, 1]


def test_a_filtered_record_is_told_and_a_redriven_one_may_be_filtered(world: World) -> None:
    id_, site, _ = world.pipeline.columns
    world.change_spec(where="value < 10")
    seven, seventy = (record(name, 0.5) | {"value": text} for name, text in (("x", "7"), ("y", "70")))
    world.produce(record("a", 0.1), record("f", 0.2, value=50), seven, seventy, record("z", 3.5))
    world.produce(record("d", 3.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    assert fates(world) == ["published", "filtered", "dirty", "dirty", "waiting"]
    raw = Column(name="raw", type="string", path="$.value", hidden=True, convert="text")
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="", expr="cast(raw as int)"), raw))
    redrive.plan(world.context(), "redrive")
    found = redrive.carry_out(world.context(), "redrive")
    assert (found.late, found.filtered, found.dirty) == (1, 1, 0)
    assert fates(world) == ["published", "filtered", "late", "filtered", "waiting"]
    balanced(world)


def fates(world: World) -> list[str]:
    ctx = world.context()
    end = world.kafka.look(TOPIC).partitions[0].high_watermark
    return [f.kind for o in range(end) for f in where(ctx, ctx.ledger.reads, InProcessRows(), 0, o).fates]  # type: ignore[attr-defined]


# ---------------------------------------------------------------- event times


ZONES = {"UTC": T0, "Europe/Berlin": T0 - HOUR, "America/New_York": T0 + 5 * HOUR}


@pytest.mark.parametrize("size", [HOUR, 24 * HOUR], ids=["hours", "days"])
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"])
def test_sentinel_event_times_become_side_rows_in_every_zone(world: World, at: str, zone: str, size: int) -> None:
    """In some zones their windows begin or end outside the calendar: arithmetic on them must not fail the job."""
    spec = world.pipeline
    world.change_spec(
        event_time=replace(spec.event_time, format="iso8601", path="$.iso"),
        windows=replace(spec.windows, timezone=zone, size_ms=size, start_ms=ZONES[zone]),
        partition_by=("date", "hour", "site") if size == HOUR else ("date", "site"),
    )
    world.produce({"id": "x", "site": "a", "iso": "2013-01-05T12:00:00Z"}, {"id": "y", "site": "a", "iso": at})
    world.ingest("r1")
    assert world.table("__late") + world.table("__dirty") == [(0, 1)]
