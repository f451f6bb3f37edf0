"""Bugs in how a source fails over (F1 to F6): `test_planted.py` names what finds each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.mutants import seams
from tests.mutants.planting import Bug, Patch, always, nothing
from tidegate.core.base.offsets import Interval
from tidegate.core.batch.rules_version import rules_for
from tidegate.core.failover.counting import Landed
from tidegate.core.failover.crossing import RefusalKind


def _repeats_are_read(original, self):
    found = original(self)
    return replace(found, stretches=found.stretches[:1])


def _nobody_needs_to_say(original, facts):
    return [refusal for refusal in original(facts) if refusal.kind != RefusalKind.MARK]


def _as_planned(original, planned, batch, stretches):
    """An open batch is taken for one that will land."""
    return original(planned, None, stretches)


def _whatever_the_version(original, self, switch, why):
    with self._store.begin() as c:
        version = c.exec_driver_sql("SELECT version FROM pipelines").scalar()
    return original(self, replace(switch, version=version), why)


def _the_batch_stays(original, self, switch, why):
    return original(self, replace(switch, withdrawn=None), why)


def _what_was_noted_is_not_asked(original, facts, partition):
    return 0


def _any_copy(original, history, site, partition, offset, values):
    return bool(values)


def _to_the_mark(original, standby, facts, partition, low):
    return facts.marks[partition]


def _each_offset_is_a_record(original, ctx, reads, topic_id, partition, start, end):
    return Landed((Interval(start, end),))


def _as_any_batch(original, pipeline, copies):
    return rules_for(pipeline)


def _bug(name: str, rule: str, *patches: tuple[str, Any]) -> Bug:
    return Bug(name, rule, "a world", "the test", tuple(Patch(seam, bug) for seam, bug in patches))


FAILOVER_BUGS = {
    bug.name: bug
    for bug in (
        _bug("records without coordinates are new ones", "F1", (seams.FAILOVER_BARE, nothing)),
        _bug("copies behind the mark are records", "F3", (seams.FAILOVER_LATE_COPIES, nothing)),
        _bug("a hole is read over", "F1", (seams.FAILOVER_HOLE, always(True))),
        _bug("repeats are read", "F1", (seams.FAILOVER_WALKED, _repeats_are_read)),
        _bug("the walk begins too far", "F1", (seams.FAILOVER_NEARER, _to_the_mark)),
        _bug(
            "copies that landed are read again",
            "F1",
            (seams.PAST_STRETCHES, lambda original, offset, stretches: offset),
        ),
        _bug(
            "a range does not end at a stretch",
            "F1",
            (seams.STOP_AT_STRETCHES, lambda original, start, end, stretches: end),
        ),
        _bug("a pair is believed", "F2", (seams.FAILOVER_PROOF, nothing)),
        _bug("an overlap may fit in another place too", "F2", (seams.FAILOVER_FITS_TOO, nothing)),
        _bug("each offset counts as a record", "F2", (seams.FAILOVER_LANDED_FROM, _each_offset_is_a_record)),
        _bug("any pair on the way back", "F6", (seams.FAILOVER_WAY_BACK, nothing)),
        _bug("what crossed is counted, not measured", "F6", (seams.FAILOVER_LEFT_BY, nothing)),
        _bug("what crossed is measured, not compared", "F6", (seams.FAILOVER_SAME_COPY, always(True))),
        _bug("a redrive takes copies for records", "F3", (seams.FAILOVER_REDRIVE, _as_any_batch)),
        _bug("copies of copies behind the mark are records", "F3", (seams.FAILOVER_IS_STRAY, always(False))),
        _bug("what nobody can say is a record", "F3", (seams.FAILOVER_OF_WHAT, always(True))),
        _bug("the log of the site that is left is not asked", "F3", (seams.FAILOVER_LEFT_LOG, nothing)),
        _bug("what was copied back is a copy that came late", "F6", (seams.FAILOVER_COPIED_BACK, always(False))),
        _bug("a copy that came late was copied back", "F6", (seams.FAILOVER_COPIED_BACK, _any_copy)),
        _bug("nobody has to stop the copier", "F3", (seams.FAILOVER_OBJECTIONS, _nobody_needs_to_say)),
        _bug("copies behind the mark are not looked for", "F3", (seams.FAILOVER_BEHIND, nothing)),
        _bug("a log that was cut while it was away is as it was", "F6", (seams.FAILOVER_CUT_SINCE, nothing)),
        _bug("a cut that was skipped is forgotten", "F1", (seams.FAILOVER_WAS_CUT, always(False))),
        _bug(
            "what takes the offsets of copies is a copy",
            "F1",
            (seams.STRETCHES_BELOW_A_CUT, lambda original, offset, stretches: tuple(stretches)),
        ),
        _bug("an open batch counts as landed", "F4", (seams.FAILOVER_LANDED, _as_planned)),
        _bug("a switch compares no version", "F4", (seams.FAILOVER_SWITCH, _whatever_the_version)),
        _bug("the open batch stays", "F4", (seams.FAILOVER_SWITCH, _the_batch_stays)),
        _bug("storage is not asked about the open batch", "R11", (seams.FAILOVER_HAS_LANDED, always(False))),
        _bug("storage is not asked about switches", "R11", (seams.FAILOVER_RECORDS, nothing)),
        _bug("a lost switch comes back whatever has landed since", "R11", (seams.FAILOVER_READ_ON, nothing)),
        _bug("any site may plan", "F4", (seams.OTHER_SITE, nothing)),
        _bug("what crossed is read where it came from too", "F6", (seams.FAILOVER_CROSSED, always(()))),
        _bug("back before all copies have landed", "F6", (seams.FAILOVER_UNREAD, always([]))),
        _bug("a site's own records are taken for copies", "F6", (seams.FAILOVER_BASE, _what_was_noted_is_not_asked)),
        _bug("a site that returns is taken for a new one", "F6", (seams.FAILOVER_RETURNED, always(False))),
    )
}
