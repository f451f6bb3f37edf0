"""Wrong rules, planted one by one where the product says the right one: the lives must notice each."""

from __future__ import annotations

from typing import Any

from tests.mutants import seams
from tests.mutants.planting import Bug, Patch, always


def _newcomer_wins(original, event, table, has_row, winner, wins, purged_below):
    """Whatever the table holds, the event of this merge takes its place."""
    older = table._replace(commit=event.commit * 0 - 1)
    return original(event, older, has_row, winner, wins, purged_below)


def _no_delete_first(original, versions):
    return [c for c in original(versions) if c is not versions.deleted]


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


def _bug(name: str, rule: str, *patches: tuple[str, Any]) -> Bug:
    return Bug(name, rule, "a life", "the oracle", tuple(Patch(seam, bug) for seam, bug in patches))


BUGS = {
    bug.name: bug
    for bug in (
        _bug("the newcomer wins", "M2", (seams.MIRROR_FATES, _newcomer_wins)),
        _bug("ties by arrival", "M2", (seams.MIRROR_SORT, _no_delete_first)),
        _bug("positions without their row, among events", "M2", (seams.MIRROR_SORT, _by_the_commit)),
        _bug("positions without their row, against the table", "M2", (seams.MIRROR_NEWER, _by_the_commit_alone)),
        _bug("of repeats the last one stays", "M2", (seams.MIRROR_FIRST, _last_to_arrive)),
        _bug("a purge marker is ignored", "M5", (seams.MIRROR_BELOW, always(False))),
        _bug("a delete leaves no tombstone", "M2", (seams.MIRROR_ROWS, _without_tombstones)),
        _bug("the row before stays too", "M2", (seams.MIRROR_ROWS, _twice)),
        _bug("two contents at one position pass", "M7", (seams.MIRROR_CONTRADICT, always(False))),
        _bug("repeats are taken for news", "M2", (seams.MIRROR_SAME, always(False))),
    )
}
