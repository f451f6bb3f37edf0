"""Where every file of the ledger must be now, and what is there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tidegate.core.audit.coverage import twin_of
from tidegate.core.audit.problems import Problem, republish
from tidegate.core.audit.scope import ALL, Part
from tidegate.core.base.wording import many
from tidegate.core.files.receipt import DIRTY, LATE, FileEntry
from tidegate.core.look.views import BatchRow, GenerationRow, Spine
from tidegate.core.replay.reread import reading_of
from tidegate.core.target.paths import join
from tidegate.core.window.cut import window_id
from tidegate.core.window.states import BUILT, CURRENT, SWAPPING
from tidegate.workflow.base import places
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.preflight import unknown_publications
from tidegate.workflow.side.dirty_files import sources

_BACKUP = "restore it from a backup of the filesystem; publishing its window stops with an alarm until then"
_LANDED = "nothing while Kafka has its records: the window's publish task reads them again; else restore the file"
_SIDE = "restore it from a backup of the filesystem: late and dirty files are not rebuilt"
_KEPT = (
    "restore it from a backup of the filesystem: it tells a ledger that loses its newest commits that its rows have "
    "left the late table"
)
_FOREIGN = "readers count its rows: find out who wrote it, then remove it"
_SHOWN = 5
_LISTINGS = 256
"""Directories whose listings are kept: a page's own, and those of windows that are being assembled."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A file that must be in one of `homes`: (directory, path below it), the likeliest first.

    `batch_id`: whose rows these are; None for a generation's file, which may be of several (`batches`, first, last).
    `apart`: its rows are in another file too, which counts. `again`: they are of a second reading of a table, which no
    batch has the offsets of. `by_backup`: no task makes it again."""

    subject: str
    entry: FileEntry
    homes: tuple[tuple[str, str], ...]
    advice: str
    batch_id: int | None = None
    batches: tuple[int, int] | None = None
    apart: bool = False
    again: bool = False
    by_backup: bool = False


@dataclass(frozen=True)
class Found:
    """`uri` of a file that is there with its length."""

    uri: str
    wanted: Wanted


@dataclass(frozen=True)
class Listing:
    """`lost`: neither here nor there, or not with its length."""

    found: tuple[Found, ...]
    lost: tuple[Wanted, ...]
    problems: tuple[Problem, ...]


def _reread(spine: Spine) -> dict[int, tuple[int, ...]]:
    """Windows whose rows in force are of a second reading -> the batches of the first one."""
    found: dict[int, list[GenerationRow]] = defaultdict(list)
    for one in spine.generations:
        found[one.window_ms].append(one)
    current = ((rows, one) for rows in found.values() for one in rows if one.state == CURRENT)
    return {one.window_ms: one.batches for rows, one in current if reading_of(rows, one.number) is not None}


class Files:
    """The files of one pipeline, listed directory by directory. Raises StorageError.

    Who owns a window's rows, its batches or a generation, is decided by the spine."""

    def __init__(self, ctx: Context, spine: Spine, part: Part = ALL) -> None:
        self._ctx, self._layout, self._spine, self._part = ctx, ctx.layout, spine, part
        self._first = {g.window_ms: g for g in spine.generations if g.number == 1}
        self._current = {g.window_ms for g in spine.generations if g.state == CURRENT}
        self._swapping = {(g.window_ms, g.location) for g in spine.generations if g.state == SWAPPING}
        self._took_up = {(i, g.window_ms) for g in spine.generations if g.state == CURRENT for i in g.late}
        self._aside = {(i, g.window_ms) for g in spine.generations if g.state == CURRENT for i in g.set_aside}
        self.reread = _reread(spine)
        self._listed: dict[str, tuple[dict[str, int] | None, int]] = {}
        self._looks = 0

    def of_batch(self, batch: BatchRow, files: Iterable[FileEntry]) -> Listing:
        """Files of a landed batch: what waits for its window, and its late and dirty files."""
        wanted = []
        for f in files:
            if not self._part.holds(f.window_ms):
                continue
            if f.kind == LATE and (batch.batch_id, f.window_ms) in self._took_up:
                wanted.append(self._kept(batch, f))
            elif f.kind in (LATE, DIRTY):
                homes = places.side(self._layout, batch, f)
                wanted.append(
                    Wanted(
                        subject=f"batch {batch.batch_id}", entry=f, homes=homes, advice=_SIDE, batch_id=batch.batch_id
                    )
                )
            elif f.window_ms is not None and not self.placed(f.window_ms):
                homes = places.waiting(self._layout, batch, f, self._first.get(f.window_ms))
                wanted.append(
                    Wanted(
                        subject=f"batch {batch.batch_id}", entry=f, homes=homes, advice=_LANDED, batch_id=batch.batch_id
                    )
                )
        return self._look(wanted, self._foreign_side(batch, files) if self._part.within is None else ())

    def _kept(self, batch: BatchRow, f: FileEntry) -> Wanted:
        """A late file whose rows are in the window's generation: it waits to leave, or has left."""
        homes = places.late(self._layout, batch.batch_id, f, self._ctx.landed(batch.batch_id))
        left = (batch.batch_id, f.window_ms) in self._aside
        subject = f"batch {batch.batch_id}"
        return Wanted(
            subject=subject,
            entry=f,
            homes=homes[-1:] if left else homes,
            advice=_KEPT,
            batch_id=batch.batch_id,
            apart=True,
            by_backup=True,
        )

    def of_sources(self, redrive: BatchRow) -> Listing:
        """The dirty files that a redrive has read, as files of rows that it must have: see core.coverage. What is wrong
        with them is said of the batches that they came from."""
        subject, twin, wanted = f"batch {redrive.batch_id}", twin_of(redrive.batch_id), []
        for source in sources(self._ctx, redrive.sources):
            homes = places.dirty(self._layout, source.batch_id, source.entry, self._ctx.landed(source.batch_id))
            wanted.append(Wanted(subject=subject, entry=source.entry, homes=homes, advice=_SIDE, batch_id=twin))
        return replace(self._look(wanted, ()), problems=())

    def of_window(self, generation: GenerationRow) -> Listing:
        """Files of the generation in force, or of the first one on its way there."""
        window_ms, published = generation.window_ms, generation.window_ms in self._current
        advice = republish(self._ctx.name, window_ms) if published else _BACKUP
        directories = places.generation(self._ctx.pipeline, generation, published, self._makes_way(generation))
        subject = f"window {window_id(window_ms)}"
        span = (min(generation.batches, default=0), max(generation.batches, default=0))
        again = window_ms in self.reread
        homes = {f.path: places.below(self._layout, directories, f.path) for f in generation.files}
        wanted = [
            Wanted(
                subject=subject,
                entry=f,
                homes=homes[f.path],
                advice=advice,
                batches=None if again else span,
                again=again,
                by_backup=not published,
            )
            for f in generation.files
        ]
        return self._look(wanted, self._published(generation) if published else ())

    def _makes_way(self, current: GenerationRow) -> bool:
        return (current.window_ms, current.location) in self._swapping

    def placed(self, window_ms: int) -> bool:
        """Whether a generation owns the window's rows, and no more its batches."""
        first = self._first.get(window_ms)
        return window_ms in self._current or (first is not None and first.state in (BUILT, SWAPPING))

    def _look(self, wanted: Iterable[Wanted], problems: Iterable[Problem]) -> Listing:
        found, lost, wrong = [], [], list(problems)
        for item in wanted:
            uri, problem = self._place(item)
            if uri is not None:
                found.append(Found(uri, item))
            else:
                lost.append(item)
                wrong.append(Problem(item.subject, problem, item.advice))
        return Listing(tuple(found), tuple(lost), tuple(wrong))

    def _list(self, directory: str) -> dict[str, int] | None:
        return self._look_at(directory, 0)[0]

    def _look_at(self, directory: str, after: int) -> tuple[dict[str, int] | None, int]:
        """What is there, and the number of the look, which is above `after`."""
        known = self._listed.pop(directory, None)
        if known is None or known[1] <= after:
            listing = self._ctx.storage.list_files(directory)
            self._looks += 1
            known = None if listing is None else {f.path: f.bytes for f in listing}, self._looks
        while len(self._listed) >= _LISTINGS:
            del self._listed[next(iter(self._listed))]
        self._listed[directory] = known
        return known

    def _place(self, item: Wanted) -> tuple[str | None, str]:
        """The file's URI, or what is wrong with it.

        It may be on its way from one home to the next: each is looked at after those before it, and the first one, to
        which some files come last, once more at the end."""
        other: tuple[str, int] | None = None
        after = 0
        homes = item.homes if len(item.homes) == 1 else (*item.homes, item.homes[0])
        for directory, path in homes:
            listing, after = self._look_at(directory, after)
            size = (listing or {}).get(path)
            if size == item.entry.bytes:
                return join(directory, path), ""
            if size is not None and other is None:
                other = (join(directory, path), size)
        if other is not None:
            return None, f"{other[0]} has {many(other[1], 'byte')}, the manifest says {item.entry.bytes:,}"
        place = join(*item.homes[0])
        return None, f"{place} is not there ({many(item.entry.rows, f'{item.entry.kind} row')})"

    # ------------------------------------------------------------ what must not be there, or must besides

    def _published(self, generation: GenerationRow) -> Iterator[Problem]:
        if self._makes_way(generation):
            return  # the hour is the old one, the new one, or absent for an instant
        subject, location = f"window {window_id(generation.window_ms)}", generation.location or ""
        listing, advice = self._list(location), republish(self._ctx.name, generation.window_ms)
        if listing is None:
            if self._ctx.target.marks:  # else the table names files: those that are gone have been told by name
                yield Problem(subject, f"{location} is not there", advice)
            return
        beside = self._ctx.target.beside(location)
        for path, size in sorted(beside.items()):
            if listing.get(path) != size:
                yield Problem(subject, f"{join(location, path)} is not there as it was written", advice)
        for mark in self._ctx.target.marks:
            if mark not in listing:
                yield Problem(subject, f"{location} has no {mark}", advice)
        if all(size >= 0 for size in beside.values()):  # else nobody can say which files are its own
            yield from _foreign(subject, location, listing, {f.path for f in generation.files} | beside.keys())

    def _foreign_side(self, batch: BatchRow, files: Iterable[FileEntry]) -> Iterator[Problem]:
        for kind in (LATE, DIRTY):
            manifest = {f.path.removeprefix(f"{kind}/"): f.window_ms for f in files if f.kind == kind}
            directory = self._layout.side(batch.batch_id, kind)
            # redriven rows have left, and so have those that windows took up
            gone = kind == DIRTY and batch.set_aside
            named = {p for p, w in manifest.items() if not gone and (batch.batch_id, w) not in self._aside}
            if manifest and batch.side_moved:
                yield from _foreign(f"batch {batch.batch_id}", directory, self._list(directory) or {}, named)

    def unknown_batches(self) -> Iterator[Problem]:
        """R11: storage must not know batches or publications that the ledger does not."""
        advice = f"the ledger lost commits (a failover, a restored backup?): tidegate repair {self._ctx.name} --adopt"
        for directory in (self._layout.landing_zone(), self._layout.high_water_marks()):
            names = self._ctx.storage.list_names(directory) or []
            row = self._ctx.ledger.pipelines.row(self._ctx.name)  # after storage: batches land meanwhile
            following = self._spine.next_batch_id if row is None else row.next_batch_id
            ahead = sorted(int(n) for n in names if n.isascii() and n.isdigit() and int(n) >= following)
            if ahead:
                yield Problem(
                    "ledger",
                    f"{directory} knows batches up to {ahead[-1]}, the ledger's next is {following}",
                    advice,
                )
        for (start, number), path in list(unknown_publications(self._ctx).items())[:_SHOWN]:
            what = f"{path} records generation {number}, which the ledger does not know"
            yield Problem(f"window {window_id(start)}", what, advice)


def _foreign(subject: str, directory: str, listing: dict[str, int], manifest: set[str]) -> Iterator[Problem]:
    """Files that readers see although no manifest names them."""
    for path in places.strays(listing, manifest):
        yield Problem(subject, f"{join(directory, path)} is in no manifest ({many(listing[path], 'byte')})", _FOREIGN)
