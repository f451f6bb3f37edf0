"""What the ledger says of deliveries, against the generations that they are of, or the versions of batches (D9)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tidegate.core.audit.problems import RESTORE, Problem
from tidegate.core.base.wording import those
from tidegate.core.deliver.states import STANDING, Delivered, Version
from tidegate.core.deliver.units import side_of
from tidegate.core.look.views import GenerationRow
from tidegate.core.window.cut import window_id

_OF_WINDOWS, _OF_BATCHES = ("window", "generation"), ("batch", "version")


def delivered(rows: Iterable[Delivered], generations: Iterable[GenerationRow]) -> Iterator[Problem]:
    """Every try is of a generation of its window, with its digest; what stands there was read back with its rows."""
    known = {(g.window_ms, g.number): Version(g.number, g.rows or 0, g.digest or "") for g in generations}
    for row in (row for row in rows if not side_of(row.name)):
        name = window_id(row.window_ms)
        yield from _one(row, known.get((row.window_ms, row.generation)), f"window {name}", name, _OF_WINDOWS)


def of_batches(rows: Iterable[Delivered], versions: Mapping[str, Mapping[int, Version]]) -> Iterator[Problem]:
    """The same of batches of side tables. `versions`: by side table, of batches as they are now.

    Of an older version nobody knows the files any more, and it is due."""
    for row in (row for row in rows if side_of(row.name)):
        now = versions.get(side_of(row.name), {}).get(row.window_ms)
        if now is not None and row.generation < now.number:
            continue
        of = now if now is not None and row.generation == now.number else None
        yield from _one(row, of, row.unit, f"--{row.unit}", _OF_BATCHES)


def _one(row: Delivered, of: Version | None, subject: str, named: str, words: tuple[str, str]) -> Iterator[Problem]:
    """`words`: what the unit and its version are called."""
    unit, number = words
    name = f"delivery {row.name}, try {row.epoch}"
    if of is None:
        yield Problem(subject, f"{name}: the {unit} has no {number} {row.generation}", RESTORE)
        return
    if row.digest != of.digest:
        yield Problem(subject, f"{name}: its digest is not that of {number} {row.generation}", RESTORE)
    there = None if row.content is None else row.content.rows
    if row.state == STANDING and there != of.rows:
        what = "nothing was read back" if there is None else f"{those(there, 'row', 'were')} read back"
        again = f"tidegate deliver {row.pipeline} {named} --again --to {row.name} --why ..."
        wrong = f"{name}: {what} there, {number} {row.generation} has {of.rows:,}"
        yield Problem(subject, wrong, f"send it again: {again}")
