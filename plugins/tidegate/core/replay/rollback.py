"""Bring back the rows of an earlier generation of a window: which may be, and what the new one must show.

A rollback makes the next generation of copies of the earlier one's files; where tables name each file, of these files
themselves. Neither Kafka nor a decoder is asked, so that neither retention nor today's columns matter; the earlier
generation stays what it was (R4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidegate.core.base.errors import ReplayRefused
from tidegate.core.base.instants import DAY_MS, iso
from tidegate.core.files.receipt import FileEntry
from tidegate.core.window.states import (
    ARCHIVE,
    CURRENT,
    DISCARDED,
    RETIRED,
    GenerationKind,
    GenerationState,
    WindowKey,
    rows_by_values,
)
from tidegate.core.window.states import ROLLBACK as ROLLBACK

if TYPE_CHECKING:
    from tidegate.core.spec.pipeline import Pipeline


@dataclass(frozen=True)
class Origin:
    """Of a generation of kind rollback: whose rows it holds, and why they were brought back."""

    number: int
    why: str = ""

    def words(self) -> str:
        return f"rows of generation {self.number}, brought back{f' because: {self.why}' if self.why else ''}"


@dataclass(frozen=True)
class Known:
    """A generation of a window as the ledger has it; `late` of `batches` came late and were taken up. UTC ms.

    `cleaning_ms`: since when its files may be deleted, where generations share files. `origin`: of a rollback."""

    number: int
    state: GenerationState
    retired_ms: int | None
    cleaned_ms: int | None
    batches: tuple[int, ...]
    late: tuple[int, ...] = ()
    cleaning_ms: int | None = None
    kind: GenerationKind = ARCHIVE
    origin: int | None = None


class RollbackLedger(Protocol):
    """Rollbacks that have begun; `Origin` of those."""

    def begin(self, name: str, key: WindowKey, current: int, origin: int, why: str) -> int:
        """The next generation beside `current`, BUILDING(0), of the batches of `origin`; its number.

        Raises LostComparison if `current` is not the newest and in force, or if `origin` is not RETIRED, was cleaned,
        is about to be, or holds the rows of other batches than `current`."""
        ...

    def generations(self, name: str, key: WindowKey) -> list[Known]:
        """All of the window, by number."""
        ...

    def of(self, name: str, key: WindowKey, number: int) -> Origin | None:
        """None for a generation of another kind."""
        ...


@dataclass(frozen=True)
class PartitionChange:
    """Rows of one combination of dynamic partition values, now and after the rollback; 0 where there are none."""

    values: tuple[tuple[str, str | None], ...]
    now: int
    then: int


def choose(generations: Sequence[Known], to: int | None, pipeline: Pipeline) -> Known:
    """The generation to go back to: `to`, or the one that was in force before. Raises ReplayRefused."""
    current = next(g for g in generations if g.state == CURRENT)
    once = sorted((g for g in generations if g.state == RETIRED), key=lambda g: (g.retired_ms or 0, g.number))
    if to is None:
        if not once:
            raise ReplayRefused(
                f"generation {current.number} is the only one that was ever in force: there is nothing to go back to",
                advice="replay the window, or correct the pipeline and replay it then",
            )
        found = once[-1]
    else:
        named = [g for g in generations if g.number == to]
        if not named or (named[0].state != RETIRED and named[0].number != current.number):
            there = ", ".join(str(g.number) for g in once) or "none"
            what = "does not exist" if not named else f"is {named[0].state}: it was never in force"
            raise ReplayRefused(f"generation {to} {what}", advice=f"generations that were in force once: {there}")
        found = named[0]
    if found.number != current.number:
        _refuse_cleaned(found, pipeline)
        _refuse_other_rows(found, current)
    return found


def _refuse_cleaned(found: Known, pipeline: Pipeline) -> None:
    cleaned_ms = found.cleaning_ms if found.cleaned_ms is None else found.cleaned_ms
    if cleaned_ms is None:
        return
    kept_ms = pipeline.clean.generations_ms
    kept = "null" if kept_ms is None else f"{kept_ms / DAY_MS:g} days"
    raise ReplayRefused(
        f"the files of generation {found.number} were cleaned at {iso(cleaned_ms)}: archive.keep_generations "
        f"is {pipeline.archive.keep_generations}, clean.generations {kept}",
        advice="replay the window from Kafka while it has the records, with the columns as they were; raise the two "
        "keys so that generations are kept for longer from now on",
    )


def _refuse_other_rows(found: Known, current: Known) -> None:
    """Every row has one owner: rows that the earlier generation did not have yet would have none."""
    more = sorted(set(current.batches) - set(found.batches)) or sorted(set(current.late) - set(found.late))
    fewer = sorted(set(found.batches) - set(current.batches)) or sorted(set(found.late) - set(current.late))
    if not more and not fewer:
        return
    batches = ", ".join(str(i) for i in more or fewer)
    what = "took up late rows" if more else "does not hold rows"
    raise ReplayRefused(
        f"generation {current.number} {what} of batch {batches}, generation {found.number} "
        f"{'did not have them' if more else 'did'}: after a rollback no generation would hold them, or two would",
        advice="replay the window: a replay keeps the late rows that were taken up; or go back to a generation that "
        "holds the rows of the same batches (tidegate explain lists them)",
    )


def holders(generations: Iterable[Known], number: int) -> list[int]:
    """Numbers of the window's other generations that may need files which generation `number` names too."""
    return [g.number for g in generations if g.number != number and g.state != DISCARDED and g.cleaned_ms is None]


def lost(files: Iterable[FileEntry], there: dict[str, int]) -> list[str]:
    """Paths of the generation's files that storage does not have as the manifest says; `there`: path -> bytes."""
    return [f.path for f in files if there.get(f.path) != f.bytes]


def changes(now: tuple[FileEntry, ...], then: tuple[FileEntry, ...]) -> list[PartitionChange]:
    """Each dynamic partition of either, in order."""
    before, after = rows_by_values(now), rows_by_values(then)
    return [
        PartitionChange(v, before.get(v, 0), after.get(v, 0)) for v in sorted(before.keys() | after.keys(), key=str)
    ]
