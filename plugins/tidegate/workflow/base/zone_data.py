"""This host's zone data compared with those by which windows were cut and spelled before (R1).

Whether and where windows of local days begin is read from zone data, which change with every release of tzdata. What
has landed or been published by other zone data is never cut again: the step is refused, and nothing is changed.
"""

from __future__ import annotations

from tidegate.core.base.errors import OtherZoneData, ReplayRefused
from tidegate.core.base.instants import DAY_MS, iso
from tidegate.core.base.offsets import Interval
from tidegate.core.batch.states import Plan
from tidegate.core.window import schedule
from tidegate.core.window.lateness import Floor
from tidegate.core.window.states import BuiltGeneration, PublishedGeneration, WindowKey
from tidegate.core.window.zonedata import Disagreement, around, disagreement, version_of
from tidegate.workflow.base.context import Context

_HERE = "this host's"
_THEN = (
    "put back the tzdata of then, on the hosts of Airflow and on the executors "
    "(PYTHONTZPATH names a folder of zone data)"
)


def refuse_to_plan(ctx: Context, floor: Floor) -> None:
    """Windows that are open, and that earlier plans may have filled, must begin where they began for those.

    Differences among published windows hold nothing up, nor do those that lie ahead: a row of such a window has not
    come yet. Raises OtherZoneData."""
    if not _cuts_days(ctx):
        return
    found = disagreement(ctx.ledger.batches.newest_zone(ctx.name), [_open(ctx, floor)])
    if found is not None:
        text = found.text("the batches that have landed", _HERE)
        raise OtherZoneData(f"{ctx.name}: nothing is planned: {text}", advice=_put_back(found))


def refuse_open_batch(ctx: Context, plan: Plan) -> None:
    """What this host would refuse to seal need not be written. Raises OtherZoneData."""
    if not _cuts_days(ctx):
        return
    found = disagreement(plan.zone, [_open(ctx, plan.floor)])
    if found is not None:
        raise OtherZoneData(
            f"batch {plan.batch_id} is not written: {found.text('its plan', _HERE)}",
            advice=f"{_put_back(found)}; or have it planned again by today's, if nothing of these days has landed yet: "
            f"tidegate repair {ctx.name} --reread {plan.batch_id} --why ...",
        )


def against_replay(ctx: Context, key: WindowKey, plan: Plan) -> ReplayRefused | None:
    """Why today's zone data would give the window other rows of this batch. A change elsewhere is no reason."""
    if not _cuts_days(ctx):
        return None
    whole = plan.floor.reroute_ms == key.start_ms  # late rows of any window are in it
    found = disagreement(plan.zone, None if whole else [around(key.start_ms, key.end_ms)])
    if found is None:
        return None
    text = found.text(f"the plan of batch {plan.batch_id}", _HERE)
    return ReplayRefused(f"{iso(key.start_ms)}: {text}", advice=f"the published generation stays; {_put_back(found)}")


def refuse_to_close(ctx: Context, key: WindowKey) -> None:
    """A day is not published while landed rows, or windows, overlap it that the schedule does not have: they are of
    the days as other zone data cut them. Raises OtherZoneData."""
    if not _cuts_days(ctx):
        return
    if not schedule.is_window(key.start_ms, ctx.pipeline.windows):
        here = schedule.window_of(key.start_ms, ctx.pipeline.windows)
        raise OtherZoneData(
            f"{ctx.name} {iso(key.start_ms)} is not published: no window begins there by the zone data of this host "
            f"({_zone(ctx)}): it is [{iso(here.start)}, {iso(here.end)})",
            advice=f"if zone data have changed since this run was made: {_THEN}",
        )
    starts = ctx.ledger.due.starts_within(ctx.name, *schedule.nearby(key.start_ms, key.end_ms))
    found = schedule.strangers(starts, ctx.pipeline.windows)
    if found:
        raise OtherZoneData(
            f"{ctx.name} {iso(key.start_ms)} is not published: rows have landed in the window {iso(found[0])}, which "
            f"the zone data of this host ({_zone(ctx)}) do not have: they may belong to this one",
            advice=f"{_THEN}; `tidegate audit {ctx.name}` names all such windows",
        )


def refuse_other_spelling(ctx: Context, generation: BuiltGeneration | PublishedGeneration) -> None:
    """A window keeps the partition in which it was published first: a second one would show its rows twice. Nor does
    it get one that another window has got by other zone data.

    Raises OtherZoneData."""
    key = generation.window
    if ctx.pipeline.windows.timezone == "UTC":
        return
    others = [generation]
    due = ctx.layout.window(schedule.time_partitions(ctx.pipeline, key.start_ms))
    if generation.number > 1:
        others.append(ctx.ledger.windows.generation(ctx.name, key, 1))  # type: ignore[arg-type]
    else:
        _refuse_place_of_another(ctx, key, due)
    for one in others:
        location = getattr(one, "location", None)
        if location is None or location == due or not _in_table(ctx, location):
            continue
        raise OtherZoneData(
            f"{ctx.name} {iso(key.start_ms)} was published at {location}; the zone data of this host ({_zone(ctx)}) "
            f"spell it {due}",
            advice=f"a second partition would show its rows twice: {_THEN}",
        )


def _refuse_place_of_another(ctx: Context, key: WindowKey, location: str) -> None:
    near = around(key.start_ms, key.end_ms)
    taken = [w for w in ctx.ledger.due.located(ctx.name, near, location) if w != key.start_ms]
    if taken:
        raise OtherZoneData(
            f"{ctx.name} {iso(key.start_ms)} is not published: the zone data of this host ({_zone(ctx)}) spell it "
            f"{location}, where window {iso(taken[0])} is",
            advice=_THEN,
        )


def _zone(ctx: Context) -> str:
    zone = ctx.pipeline.windows.timezone
    return f"{zone}, {version_of(zone)}"


def _in_table(ctx: Context, location: str) -> bool:
    layout = ctx.layout
    return location.startswith(f"{layout.location}/") and not location.startswith(f"{layout.workdir}/")


def _cuts_days(ctx: Context) -> bool:
    """Shorter windows are cut in UTC, whatever clocks read."""
    return ctx.pipeline.windows.size_ms >= DAY_MS and ctx.pipeline.windows.timezone != "UTC"


def _open(ctx: Context, floor: Floor) -> Interval:
    """The time from the oldest window that is not closed on; what was pinned ends where no row can have come from."""
    first_ms = floor.oldest_open(ctx.pipeline.windows) - DAY_MS
    return Interval(first_ms, 2**62)


def _put_back(found: Disagreement) -> str:
    return (
        f"put back {found.there.version or 'the tzdata of then'} on the hosts of Airflow and on the executors "
        "(PYTHONTZPATH names a folder of zone data)"
    )
