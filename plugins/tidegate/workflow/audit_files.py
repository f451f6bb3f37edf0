"""Where every file of the ledger must be now, and what is there."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidegate.core.audit import Ledger, Problem, republish
from tidegate.core.layout import SUCCESS, join, time_values, window_id
from tidegate.core.receipt import DATA, DIRTY, LATE, FileEntry
from tidegate.core.views import BatchRow, GenerationRow
from tidegate.core.window import BUILDING, BUILT, SWAPPING
from tidegate.workflow.assembly import published_path
from tidegate.workflow.context import Context

_BACKUP = "restore it from a backup of the filesystem; publishing its window stops with an alarm until then"
_SIDE = "restore it from a backup of the filesystem: late and dirty files are not rebuilt"
_FOREIGN = "readers count its rows: find out who wrote it, then remove it"


@dataclass(frozen=True)
class Wanted:
    """A file that must be in one of `homes`: (directory, path below it), the likeliest first."""

    subject: str
    entry: FileEntry
    homes: tuple[tuple[str, str], ...]
    advice: str


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


class Pace:
    """Says how far a long work is, every few seconds."""

    def __init__(self, say: Callable[[str], None], every_s: float = 5.0) -> None:
        self._say, self._every_s, self._last = say, every_s, time.monotonic()

    def say(self, words: Callable[[], str]) -> None:
        if time.monotonic() - self._last >= self._every_s:
            self._last = time.monotonic()
            self._say(words())


class Files:
    """The files of one pipeline, listed directory by directory."""

    def __init__(self, ctx: Context, ledger: Ledger) -> None:
        self._ctx, self._ledger, self._layout = ctx, ledger, ctx.layout
        self._listed: dict[str, dict[str, int] | None] = {}

    def look(self) -> Listing:
        """Raises StorageError."""
        found, lost, problems = [], [], []
        wanted = [*self._data(), *self._side()]
        pace = Pace(self._ctx.say)
        for n, item in enumerate(wanted, 1):
            uri, problem = self._place(item)
            if uri is not None:
                found.append(Found(uri, item))
            else:
                lost.append(item)
                problems.append(Problem(item.subject, problem, item.advice))
            pace.say(lambda n=n: f"looked for {n:,} of {len(wanted):,} files")
        problems += [*self._windows(), *self._foreign_side(), *self._unknown_batches()]
        return Listing(tuple(found), tuple(lost), tuple(problems))

    def _list(self, directory: str) -> dict[str, int] | None:
        if directory not in self._listed:
            listing = self._ctx.storage.list_files(directory)
            self._listed[directory] = None if listing is None else {f.path: f.bytes for f in listing}
        return self._listed[directory]

    def _place(self, item: Wanted) -> tuple[str | None, str]:
        """The file's URI, or what is wrong with it."""
        other: tuple[str, int] | None = None
        for directory, path in item.homes:
            size = (self._list(directory) or {}).get(path)
            if size == item.entry.bytes:
                return join(directory, path), ""
            if size is not None and other is None:
                other = (join(directory, path), size)
        if other is not None:
            return None, f"{other[0]} has {other[1]:,} bytes, the manifest says {item.entry.bytes:,}"
        place = join(*item.homes[0])
        return None, f"{place} is not there ({item.entry.rows:,} {item.entry.kind} rows)"

    # ------------------------------------------------------------ where files must be

    def _data(self) -> Iterator[Wanted]:
        """Of a published window the files of the generation in force, of any other those of its batches."""
        first = {g.window_ms: g for g in self._ledger.books.generations if g.number == 1}
        by_window: dict[int, list[tuple[int, FileEntry]]] = defaultdict(list)
        for batch_id in self._ledger.landed:
            for f in self._ledger.files(batch_id):
                if f.kind == DATA and f.window_ms is not None:
                    by_window[f.window_ms].append((batch_id, f))
        for window_ms in sorted(set(by_window) | set(self._ledger.current)):
            current = self._ledger.current.get(window_ms)
            if current is not None:
                yield from self._of_generation(current, (current.location or "",), republish(self._ctx.name, window_ms))
            elif window_ms in first and first[window_ms].state in (BUILT, SWAPPING):
                built = first[window_ms]
                yield from self._of_generation(
                    built, (built.directory or "", self._table_directory(window_ms)), _BACKUP
                )
            else:
                yield from self._of_batches(window_ms, by_window[window_ms], first.get(window_ms))

    def _of_generation(self, generation: GenerationRow, places: tuple[str, ...], advice: str) -> Iterator[Wanted]:
        subject = f"window {window_id(generation.window_ms)}"
        for f in generation.files:
            yield Wanted(subject, f, tuple((place, f.path) for place in places), advice)

    def _of_batches(
        self, window_ms: int, files: list[tuple[int, FileEntry]], building: GenerationRow | None
    ) -> Iterator[Wanted]:
        # in the order in which files move: who looks the other way round can miss one that is moving
        epochs = range(1, building.epoch + 1) if building is not None and building.state == BUILDING else ()
        for batch_id, f in files:
            moved = published_path(f, f"b{batch_id}")
            homes = [(self._layout.landed(batch_id), f.path)]
            homes += [(self._layout.assembly(window_ms, 1, e), moved) for e in epochs]
            yield Wanted(f"batch {batch_id}", f, tuple(homes), _BACKUP)

    def _table_directory(self, window_ms: int) -> str:
        spec = self._ctx.pipeline
        return self._layout.window(time_values(window_ms, spec.time_partitions, spec.windows.timezone))

    def _side(self) -> Iterator[Wanted]:
        for batch in self._ledger.landed.values():
            for f in self._ledger.files(batch.batch_id):
                if f.kind in (LATE, DIRTY):
                    yield Wanted(f"batch {batch.batch_id}", f, self._side_homes(batch, f), _SIDE)

    def _side_homes(self, batch: BatchRow, f: FileEntry) -> tuple[tuple[str, str], ...]:
        below = f.path.removeprefix(f"{f.kind}/")
        home = (self._layout.side(batch.batch_id, f.kind), below)
        if batch.side_moved:
            return (home,)
        return (
            home,
            (self._layout.landed(batch.batch_id), f.path),
            (self._layout.side_staging(batch.batch_id, f.kind), below),
        )

    # ------------------------------------------------------------ what must not be there, or must besides

    def _windows(self) -> Iterator[Problem]:
        for window_ms, generation in sorted(self._ledger.current.items()):
            subject, location = f"window {window_id(window_ms)}", generation.location or ""
            listing = self._list(location)
            advice = republish(self._ctx.name, window_ms)
            if listing is None:
                yield Problem(subject, f"{location} is not there", advice)
                continue
            if SUCCESS not in listing:
                yield Problem(subject, f"{location} has no {SUCCESS}", advice)
            manifest = {f.path for f in generation.files}
            yield from _foreign(subject, location, listing, manifest)

    def _foreign_side(self) -> Iterator[Problem]:
        for batch in self._ledger.landed.values():
            files = self._ledger.files(batch.batch_id)
            for kind in (LATE, DIRTY):
                manifest = {f.path.removeprefix(f"{kind}/") for f in files if f.kind == kind}
                directory = self._layout.side(batch.batch_id, kind)
                if manifest and batch.side_moved:
                    yield from _foreign(f"batch {batch.batch_id}", directory, self._list(directory) or {}, manifest)

    def _unknown_batches(self) -> Iterator[Problem]:
        """R11: storage must not know batches that the ledger does not."""
        following = self._ledger.books.next_batch_id
        for directory in (self._layout.landing_zone(), self._layout.high_water_marks()):
            names = self._ctx.storage.list_names(directory) or []
            ahead = sorted(int(n) for n in names if n.isdigit() and int(n) >= following)
            if ahead:
                yield Problem(
                    "ledger",
                    f"{directory} knows batches up to {ahead[-1]}, the ledger's next is {following}",
                    "the ledger lost commits (a restored backup, a failover?): restore it before the next ingest",
                )


def _foreign(subject: str, directory: str, listing: dict[str, int], manifest: set[str]) -> Iterator[Problem]:
    """Files that readers see although no manifest names them."""
    for path in sorted(set(listing) - manifest):
        if not any(part.startswith(("_", ".")) for part in path.split("/")):
            yield Problem(subject, f"{join(directory, path)} is in no manifest ({listing[path]:,} bytes)", _FOREIGN)
