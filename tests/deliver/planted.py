"""Bugs in how windows are delivered (D1 to D8): `test_planted.py` names what finds each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlalchemy import and_, literal, select

from tests.mutants import seams
from tests.mutants.planting import Bug, Patch, always
from tests.world import T0
from tidegate.ledger import schema
from tidegate.targets.cluster.copying import Copied


def _by_generation(original, self):
    return f"{self.token.unit}_{self.token.generation}"


def _the_same_epoch(original, pipeline, name, due, digest, nonce, above):
    step = original(pipeline, name, due, digest, nonce, above)
    return replace(step, sets={**step.sets, "epoch": 1}, after=replace(step.after, epoch=1))


def _still_its_row(original, self, row):
    """Whatever generation is in force."""
    found = self.get(row.pipeline, row.name, row.window_ms)
    return found is not None and found.token == row.token


def _any_token(original, ctx, delivery, sender, row, one, rows):
    """What stands there is taken for the try's."""
    found = sender.standing(one.window_ms)
    if row.generation != one.generation or found.token is None:
        return False
    ctx.ledger.deliveries.stands(row, found.content, delivery.place)
    return True


def _without_those_it_lacks(original, stood, there):
    """An older try there is seen, none is not."""
    return [window_ms for window_ms in original(stood, there) if window_ms in there]


def _without_older_ones(original, stood, there):
    return [window_ms for window_ms in original(stood, there) if window_ms not in there]


def _only_rows(original, row, found):
    same = row.content is not None and found.content.rows == row.content.rows
    return None if same else original(row, found)


def _only_rows_of_parts(original, parts):
    return original([part for part in parts if part.here.rows != part.there.rows])


def _ours_alone(original, here, there):
    return original(here, {values: found for values, found in there.items() if values in here})


def _no_intent(original, self, window_ms, name):
    return f"{self._folder(window_ms)}/{name}.asked"


def _without_the_ledger(original, self, location):
    self._asked += 1
    return self._tries.ask(self.generation.window.start_ms, f"{self._name}.{self._asked}")


def _unread(original, self, file, path, sent):
    """What was sent is taken for what arrived."""
    return Copied(file.entry, sent or "")


def _by_length(original, self, file, path):
    return Copied(file.entry, "")


def _by_its_record(original, self, met):
    """What a record says is taken for what stands there."""
    return {c.entry.path: c.digest for record in self._tries.records(T0)[:1] for c in record.files}


def _nothing_met(original, self, window_ms):
    return replace(original(self, window_ms), places=())


def _not_asked(original, self, loaded, record, holds):
    return original(self, loaded, record, lambda: True)


def _nothing_to_commit(original, self, loaded, record, holds):
    """An empty window is taken for one that stands."""
    return None if not record.files else original(self, loaded, record, holds)


def _of_the_directory(original, rows, name, value):
    return pa.repeat(pa.scalar(value, pa.string()), len(rows))


def _bug(name: str, rule: str, *patches: tuple[str, Any]) -> Bug:
    return Bug(name, rule, "a world", "the test", tuple(Patch(seam, bug) for seam, bug in patches))


DELIVERY_BUGS = {
    bug.name: bug
    for bug in (
        _bug("tries of one generation share a staging", "D1", (seams.DELIVERY_STAGING, _by_generation)),
        _bug("a try does not raise the epoch", "fence", (seams.DELIVERY_TAKE, _the_same_epoch)),
        _bug("a newer generation does not overtake a try", "D5", (seams.DELIVERY_HOLDS, _still_its_row)),
        _bug("the ledger is not asked", "D5", (seams.DELIVERY_HOLDS, always(True))),
        _bug("what stands there is taken for the try's", "D7", (seams.DELIVERY_STANDS, _any_token)),
        _bug("nothing is compared later", "D8", (seams.DELIVERY_DIFFERS, always(None))),
        _bug("rows are counted and not summed", "D8", (seams.DELIVERY_DIFFERS, _only_rows)),
        _bug("partitions are counted and not summed", "D8", (seams.DELIVERY_PARTS, _only_rows_of_parts)),
        _bug("a partition that stands there alone is not named", "D8", (seams.DELIVERY_PAIRED, _ours_alone)),
        _bug("what a database has lost is not seen", "token", (seams.DELIVERY_BEHIND, _without_those_it_lacks)),
        _bug("what it has of before is taken for new", "token", (seams.DELIVERY_BEHIND, _without_older_ones)),
        _bug("the token is not compared", "token", (seams.DELIVERY_COMPARE, always(None))),
        _bug("a commit without an answer is taken for done", "token", (seams.DELIVERY_COMMITTED, always(True))),
        _bug("a commit without an answer is taken for lost", "token", (seams.DELIVERY_COMMITTED, always(False))),
        _bug("rows are not read back", "D7", (seams.DELIVERY_REFUSE_OTHER, always(None))),
        _bug("a try to another place may say that it stands", "place", (seams.DELIVERY_PLACE, always(None))),
        _bug("hosts with different YAMLs send in turns", "place", (seams.DELIVERY_OUTDATED, always(None))),
        _bug("overflowing rows lose their values", "rows", (seams.DELIVERY_PARTITION_VALUE, _of_the_directory)),
    )
}

CLUSTER_BUGS = {
    bug.name: bug
    for bug in (
        _bug("a later try's record is not looked for", "token", (seams.CLUSTER_LATE, always(None))),
        _bug("nobody waits for a request without an answer", "R8", (seams.CLUSTER_WAIT, always(None))),
        _bug("no intent is written", "R8", (seams.CLUSTER_ASK, _no_intent)),
        _bug("the ledger is not asked before a request", "D5", (seams.CLUSTER_DECLARE, _without_the_ledger)),
        _bug("a copy is not read back", "D3", (seams.CLUSTER_ARRIVED, _unread)),
        _bug("an earlier try's file counts by its length", "D3", (seams.CLUSTER_WHOLE, _by_length)),
        _bug("a window's directory is not looked at", "D3", (seams.CLUSTER_IS_WHOLE, always(True))),
        _bug("a file is copied again", "resume", (seams.CLUSTER_EARLIER, always({}))),
        _bug("a window is copied again", "resume", (seams.CLUSTER_FOUND, always(None))),
        _bug("what stands is not read", "D8", (seams.CLUSTER_READ, _by_its_record)),
        _bug("what readers meet makes way", "R8", (seams.CLUSTER_MET, _nothing_met)),
        _bug("nobody notes what made way", "clean", (seams.CLUSTER_NOTE, always(None))),
        _bug("nothing makes way", "clean", (seams.CLUSTER_OLDEST, always((0, 0)))),
        _bug("another delivery's directory is taken", "claim", (seams.CLUSTER_CLAIM, always(None))),
        _bug("an Iceberg commit does not ask the ledger", "D5", (seams.CLUSTER_COMMIT, _not_asked)),
        _bug("an empty window is no commit", "D6", (seams.CLUSTER_COMMIT, _nothing_to_commit)),
        _bug("a copy's columns are numbered anew", "C7", (seams.CLUSTER_IDS, always({}))),
        _bug("other numbers of columns are not refused", "C7", (seams.CLUSTER_FIELDS, always(()))),
        _bug("the rate is not kept", "rate", (seams.CLUSTER_PACE, always(None))),
    )
}


def _one_version(original, name, side):
    """Rows that have left are not counted."""
    found = original(name, side)
    return select(found.c.pipeline, found.c.window_ms, literal(1).label("number"), found.c.published_ms).subquery()


def _with_a_row(original, known):
    """What has no row is not there."""
    return and_(original(known), schema.deliveries.c.generation.is_not(None))


SIDE_BUGS = {
    bug.name: bug
    for bug in (
        _bug("a batch is sent once", "D9", (seams.DELIVERY_VERSIONS, _one_version)),
        _bug("a newer version does not overtake a try", "D9", (seams.DELIVERY_HOLDS, _still_its_row)),
        _bug("a later version's record is not looked for", "D9", (seams.CLUSTER_LATE, always(None))),
        _bug("parts that a version lacks stay", "D10", (seams.VANISHED_VALUES, always([]))),
        _bug("an hour does not wait for its rows to leave", "D11", (seams.DELIVERY_HELD_BY, always(()))),
        _bug("a batch without a row is not there", "D11", (seams.DELIVERY_WAITS, _with_a_row)),
    )
}
