"""Wrong rules, planted one by one where the product says the right one: the lives must notice each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.mutants import seams
from tests.mutants.planting import Bug, Patch, always, nothing


def _newcomer_wins(original, event, table, has_row, winner, wins, *below):
    """Whatever the table holds, the event of this merge takes its place."""
    older = table._replace(commit=event.commit * 0 - 1)
    return original(event, older, has_row, winner, wins, *below)


def _by_arrival(original, versions):
    return original(versions)[2:]


def _a_delete_stands(original, versions):
    digest, upserts, *position = original(versions)
    return [digest, ~upserts, *position]


def _by_the_commit(original, versions):
    return [versions.commit]


def _by_the_commit_alone(original, one, other):
    return one.commit > other.commit


def _last_to_arrive(original, shape, events):
    return [-c for c in original(shape, events)]


def _without_tombstones(original, base, events, found, fate):
    rows, kept = original(base, events, found, fate)
    import pyarrow.compute as pc

    left = rows.filter(pc.not_equal(rows["_op"], "d"))
    return left, kept - (len(rows) - len(left))


def _twice(original, base, events, found, fate):
    return original(base, events, found, fate._replace(changed=fate.changed & False, inserted=fate.stands))


def _snapshot_aside(original, now, before):
    """As an isolation that looks at the removed files alone."""
    return (now.upto, now.attempt) == (before.upto, before.attempt)


_BEST = []


def _as_the_best_ever(original, metadata):
    """A mark beside the table, which never goes back."""
    found = original(metadata)
    _BEST[:] = [max(_BEST[0] if _BEST else 0, found.upto)]
    return replace(found, upto=_BEST[0])


def _asked_first(original, self, before, merged, holds):
    return original(self, before, merged, lambda: True)


def _alike(original, rows):
    return original(rows.slice(0, 0)) if not len(rows) else original(rows.take([0] * len(rows)).select([0]))


def _without_batch(original, rows):
    from spark_jobs.engine.identity import row_hashes

    return row_hashes(rows, {})


def _any_tombstone(original, shape, made, below):
    return original(shape, made, (2**62, 0, 0))


def _no_tombstone(original, shape, made, below):
    return original(shape, made, (-1, 0, 0))


def _anywhere(original, waiting, last, following):
    return original(waiting, -1, following)


def _all_landed(original, ctx, upto):
    return original(ctx, 2**62)


def _live_rows_too(original, shape, rows, below):
    from spark_jobs.engine.mirror.merge import versions_of
    from tidegate.core.mirror.order import is_below

    return is_below(versions_of(shape, rows, rows["_offset"].to_numpy().astype("uint64")), below)


def _at_the_marker_too(original, shape, rows, below):
    commit, row, n = below
    return original(shape, rows, (commit, row, n + 1))


def _as_the_purge_says(original, before, below):
    return below


def _in_force(original, ctx, day):
    from tidegate.workflow.base.in_force import in_force
    from tidegate.workflow.generation.daily import key_at

    return None if day.base is None else in_force(ctx, key_at(ctx, day.base.window_ms))


def _by_the_spec(original, plan, bucket):
    from spark_jobs.engine.mirror.shape import Shape

    return Shape(plan)


def _bug(name: str, rule: str, *patches: tuple[str, Any]) -> Bug:
    return Bug(name, rule, "a life", "the oracle", tuple(Patch(seam, bug) for seam, bug in patches))


BUGS = {
    bug.name: bug
    for bug in (
        _bug("the newcomer wins", "M2", (seams.MIRROR_FATES, _newcomer_wins)),
        _bug("ties by arrival", "M2", (seams.MIRROR_SORT, _by_arrival)),
        _bug("of one position the delete stands", "M2", (seams.MIRROR_SORT, _a_delete_stands)),
        _bug("positions without their row, among events", "M2", (seams.MIRROR_SORT, _by_the_commit)),
        _bug("positions without their row, against the table", "M2", (seams.MIRROR_NEWER, _by_the_commit_alone)),
        _bug("of repeats the last one stays", "M2", (seams.MIRROR_FIRST, _last_to_arrive)),
        _bug("a purge marker is ignored", "M5", (seams.MIRROR_BELOW, always(False))),
        _bug("a purge takes live rows", "M5", (seams.MIRROR_GOING, _live_rows_too)),
        _bug("a purge takes what is at its position", "M5", (seams.MIRROR_GOING, _at_the_marker_too)),
        _bug("the marker goes back", "M5", (seams.MIRROR_MARKER, _as_the_purge_says)),
        _bug("a delete leaves no tombstone", "M2", (seams.MIRROR_ROWS, _without_tombstones)),
        _bug("the row before stays too", "M2", (seams.MIRROR_ROWS, _twice)),
        _bug("two contents at one position pass", "M7", (seams.MIRROR_CONTRADICT, always(False))),
        _bug("repeats are taken for news", "M2", (seams.MIRROR_SAME, always(False))),
    )
}


def _never(original, beaten, arrived_later, at_ms, known_ms):
    return beaten & False


def _whatever_its_time(original, beaten, arrived_later, at_ms, known_ms):
    return beaten & arrived_later


def _since_the_last_merge(original, beaten, arrived_later, at_ms, known_ms):
    """What has come before in this merge is not asked."""
    return beaten & arrived_later & (at_ms > known_ms.min())


def _nothing_before(original, shape, base, events, at):
    place, above = original(shape, base, events, at)
    return place, above & False


def _of_any_lane(original, shape, base, events, at):
    """Whatever has arrived with a greater position, in any lane."""
    place, above = original(shape, base.slice(0, 0), events, at)
    return place, above | bool(len(base))


LOG_BUGS = {
    bug.name: bug
    for bug in (
        _bug("another log passes", "M8", (seams.MIRROR_GOES_BACK, _never)),
        _bug("repeats are taken for another log", "M8", (seams.MIRROR_GOES_BACK, _whatever_its_time)),
        _bug("repeats in one merge are taken for another log", "M8", (seams.MIRROR_GOES_BACK, _since_the_last_merge)),
    )
}
"""What `tests/mirror/test_goes_back.py` finds."""

READING_BUGS = {
    bug.name: bug
    for bug in (
        _bug("what a copy has read hides another log", "M8", (seams.MIRROR_GREATEST_BEFORE, _nothing_before)),
        _bug("lanes that lag are taken for another log", "M8", (seams.MIRROR_GREATEST_BEFORE, _of_any_lane)),
    )
}
"""The same below what a copy has read."""

TABLE_BUGS = {
    bug.name: bug
    for bug in (
        _bug(
            "whatever was read, the merge is committed",
            "M1, M3",
            (seams.MIRROR_STILL, always(True)),
            (seams.MIRROR_FOLLOWS, always(True)),
        ),
        _bug("another snapshot of the same batches will do", "M1", (seams.MIRROR_STILL, _snapshot_aside)),
        _bug("a range need not follow", "M3", (seams.MIRROR_FOLLOWS, always(True))),
        _bug("the ledger's mark is believed", "M4", (seams.MIRROR_TOLD, _as_the_best_ever)),
        _bug("nobody looks for the attempt", "C2", (seams.MIRROR_HAS, always(False))),
        _bug("the ledger is not asked after the load", "C1", (seams.MIRROR_APPLY, _asked_first)),
        _bug("rows that are gone are not missed", "balance", (seams.MIRROR_CHANGED, nothing)),
    )
}
"""What breaks a table: `tests/mirror/test_table.py` names the trace that finds each."""

AUDIT_BUGS = {
    bug.name: bug
    for bug in (
        _bug("all rows are alike", "balance", (seams.MIRROR_HASHES, _alike)),
        _bug("a row has no batch", "balance", (seams.MIRROR_HASHES, _without_batch)),
        _bug("any tombstone may be purged", "M5", (seams.MIRROR_PURGED, _any_tombstone)),
        _bug("tombstones that were purged are missed", "M5", (seams.MIRROR_PURGED, _no_tombstone)),
        _bug("a run ends within a batch", "M2", (seams.MIRROR_RUN, _anywhere)),
        _bug("batches above upto are read too", "M4", (seams.MIRROR_BATCHES, _all_landed)),
    )
}
"""What a deep audit would no longer see, or see wrongly: `tests/mirror/test_audit_deep.py` names the trace."""

DAY_BUGS = {
    bug.name: bug
    for bug in (
        _bug("a day is compared with the day before that is in force", "day", (seams.DAY_GROUND, _in_force)),
        _bug("what moves meanwhile is believed", "R10", (seams.DAY_STILL, always(True))),
        _bug("each day has the columns of today", "day", (seams.DAY_SHAPE, _by_the_spec)),
        _bug("days that were not compared are not told", "day", (seams.DAY_UNMADE, always(""))),
    )
}
"""What a deep audit would see wrongly in days: `tests/mirror/test_days_audit.py` names what finds each."""
