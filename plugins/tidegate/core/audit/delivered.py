"""What the ledger says of deliveries, against the generations that they are of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.core.audit.problems import RESTORE, Problem
from tidegate.core.base.wording import those
from tidegate.core.deliver.states import STANDING, Delivered
from tidegate.core.deliver.units import side_of
from tidegate.core.look.views import GenerationRow
from tidegate.core.window.cut import window_id


def delivered(rows: Iterable[Delivered], generations: Iterable[GenerationRow]) -> Iterator[Problem]:
    """Every try is of a generation of its window, with its digest; what stands there was read back with its rows.

    Batches of side tables have no generations: `tidegate compare` reads them there."""
    known = {(g.window_ms, g.number): g for g in generations}
    for row in (row for row in rows if not side_of(row.name)):
        of = f"delivery {row.name}, try {row.epoch}"
        subject = f"window {window_id(row.window_ms)}"
        generation = known.get((row.window_ms, row.generation))
        if generation is None:
            yield Problem(subject, f"{of}: the window has no generation {row.generation}", RESTORE)
            continue
        if row.digest != generation.digest:
            yield Problem(subject, f"{of}: its digest is not that of generation {row.generation}", RESTORE)
        if row.state != STANDING:
            continue
        there = None if row.content is None else row.content.rows
        if there != generation.rows:
            what = "nothing was read back" if there is None else f"{those(there, 'row', 'were')} read back"
            again = f"tidegate deliver {row.pipeline} {window_id(row.window_ms)} --again --to {row.name} --why ..."
            wrong = f"{of}: {what} there, generation {row.generation} has {generation.rows or 0:,}"
            yield Problem(subject, wrong, f"send it again: {again}")
