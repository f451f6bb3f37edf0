"""Bugs in how windows are delivered (D1 to D8): `test_planted.py` names what finds each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from tests.mutants import seams
from tests.mutants.planting import Bug, Patch, always


def _by_generation(original, self):
    return f"{self.token.unit}_{self.token.generation}"


def _the_same_epoch(original, pipeline, name, due, digest, nonce, above):
    step = original(pipeline, name, due, digest, nonce, above)
    return replace(step, sets={**step.sets, "epoch": 1}, after=replace(step.after, epoch=1))


def _still_its_row(original, self, row):
    """Whatever generation is in force."""
    found = self.get(row.pipeline, row.name, row.window_ms)
    return found is not None and found.token == row.token


def _any_token(original, ctx, sender, row, one, rows):
    """What stands there is taken for the try's."""
    found = sender.standing(one.window_ms)
    if row.generation != one.generation or found.token is None:
        return False
    ctx.ledger.deliveries.stands(row, found.content)
    return True


def _only_rows(original, row, found):
    same = row.content is not None and found.content.rows == row.content.rows
    return None if same else original(row, found)


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
        _bug("the token is not compared", "token", (seams.DELIVERY_COMPARE, always(None))),
        _bug("a commit without an answer is taken for done", "token", (seams.DELIVERY_COMMITTED, always(True))),
        _bug("a commit without an answer is taken for lost", "token", (seams.DELIVERY_COMMITTED, always(False))),
        _bug("rows are not read back", "D7", (seams.DELIVERY_REFUSE_OTHER, always(None))),
        _bug("overflowing rows lose their values", "rows", (seams.DELIVERY_PARTITION_VALUE, _of_the_directory)),
    )
}
