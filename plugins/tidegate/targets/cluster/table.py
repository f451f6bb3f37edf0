"""A table of another cluster (`core.deliver.port.FurtherSystem`), whatever kind of table it is.

A generation's files are copied into a staging directory of the try's own (D1), each read back and compared with the
manifest (D3); one rename brings them to a place of their own, which the table is told of: `hive.py`, `iceberg.py`.

    copies/<staging>/                                   files on their way; a later try takes those that are whole
    generations/<window>/<generation>.<epoch>-<nonce>/  where the files of a window stand
    replaced/<ms>.<window>.<generation>.<epoch>-<nonce> others made way for that one, then (UTC)

Of a side table the same lies below `beside/<late or dirty>`, with batches and versions (D9). An object store has no
renames: files are copied to their place at once, and a later try begins anew unless all of them are whole.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tidegate.core.base.clock import Clock
from tidegate.core.base.errors import (
    CatalogueError,
    CatalogueUnsure,
    DeliveryDenied,
    DeliveryRefused,
    DeliveryUnsure,
    OutcomeUnknown,
    PathExists,
    PathMissing,
    StorageError,
)
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.base.storage import Storage
from tidegate.core.deliver import units
from tidegate.core.deliver.parts import added, paired
from tidegate.core.deliver.port import Attempt, Content, Holds, Missing, Needed, Part, Rows, Standing
from tidegate.core.files.failure import JobError
from tidegate.core.files.merge import Source
from tidegate.core.files.receipt import CHECKSUM_MODULUS
from tidegate.core.spec.pipeline import Fields, Pipeline
from tidegate.core.target.paths import Layout, join, usual_workdir
from tidegate.core.window.cut import window_from
from tidegate.core.window.states import WindowKey
from tidegate.targets.cluster import copying as arriving
from tidegate.targets.cluster.copying import Copied, Copying, Files, Pace, digest, digest_of, path_there
from tidegate.targets.cluster.tries import Order, Record, Tries, name_of, order_of
from tidegate.workflow.base.context import REQUEST_TTL_MS
from tidegate.workflow.base.places import strays
from tidegate.workflow.base.renames import parent


@dataclass(kw_only=True)
class Site:
    """Implements `core.target.port.Site`: the pipeline as if the other cluster's table were its own."""

    pipeline: Pipeline
    storage: Storage
    clock: Clock
    request_ttl_ms: int = REQUEST_TTL_MS
    lines: list[str] = field(default_factory=list)

    @property
    def say(self) -> Callable[[str], None]:
        """Keeps a line until `prepare` returns it."""
        return self.lines.append

    def landed_fields(self) -> Fields:
        return ()  # a copy's table calls its columns as its own files do


@dataclass(frozen=True, kw_only=True)
class Options:
    """Keys of the delivery. `rate`: bytes a second; None: no limit. `side`: as `Delivery.side`."""

    delivery: str
    rate: int | None = None
    success: bool = True
    keep_ms: int = 86_400_000
    side: str = ""

    @classmethod
    def of(cls, delivery: str, told: Mapping[str, str]) -> Options:
        """As `spec.by_kind.own_options` wrote them."""
        rate = told.get("rate")
        return cls(
            delivery=units.base_of(delivery),
            side=units.side_of(delivery),
            rate=None if rate is None else int(rate),
            success=told["success"] == "True",
            keep_ms=int(told["keep"]),
        )


@dataclass(frozen=True, kw_only=True)
class Met:
    """What readers meet of a window: URIs of its files by their paths below the window's place, or whatever names them
    for certain. `places`: URIs that the table knows; none of them may be deleted. `by`: whether this is what a try has
    shown. `values`: of the partition in which each file is. `altered`: partitions that somebody else has changed, and
    who, in words."""

    files: Mapping[str, str]
    places: tuple[str, ...]
    by: Callable[[Record], bool]
    values: Mapping[str, PartitionValues] = field(default_factory=dict)
    altered: Mapping[PartitionValues, str] = field(default_factory=dict)


class ClusterTable(ABC):
    """Implements `core.deliver.port.FurtherSystem` over a table of the other cluster."""

    def __init__(self, site: Site, storage: Files, options: Options) -> None:
        self._site, self._options, self._pace = site, options, Pace(options.rate)
        self._storage, self._layout = storage, Layout.of(site.pipeline)
        self._tries = Tries(self._storage, self._layout.workdir, site.clock, site.request_ttl_ms, options.side)

    def missing(self) -> Missing | None:
        with _told():
            return Missing() if self._tries.are_none or self._is_missing() else None

    def tries(self) -> None:
        return  # records of tries lie beside what readers meet, and are not changed with it

    def prepare(self) -> list[str]:
        with _told():
            self._claim()
            self._prepare()
        done, self._site.lines = self._site.lines, []
        return done

    def send(self, attempt: Attempt, rows: Rows, holds: Holds) -> Standing:
        with _told():
            self._tries.refuse_late(attempt)
            self._tries.wait_for_none(attempt.token.unit)
            place, files = self._found(attempt, rows) or self._brought(attempt, rows)
            record = Record(
                token=attempt.token,
                nonce=attempt.nonce,
                place=place,
                since_ms=self._site.clock.now_ms(),
                files=files,
            )
            self._note_replaced(attempt.token.unit, place)
            self._tries.begin(record, name_of(attempt))
            self._show(record, name_of(attempt), holds)
        return Standing(content=_content({c.entry.path: c.digest for c in files}, files), token=attempt.token)

    def standing(self, window_ms: int) -> Standing:
        with _told():
            met, records = self._met(window_ms), self._tries.records(window_ms)
            by = next((record.token for record in records if met.by(record)), None)
            known = [copied for record in records for copied in record.files]
            return Standing(content=_content(self._read(met), known), token=by)

    def parts(self, window_ms: int, rows: Rows) -> tuple[Part, ...]:
        here, own = dict[PartitionValues, Content](), dict[str, str]()
        for file in rows.files:
            path, entry = path_there(file.entry), file.entry
            with rows.opened(file) as stream:
                own[path] = digest_of(stream)
            added(here, entry.values, Content(rows=entry.rows, checksum=_sum({path: own[path]})))
        with _told():
            return paired(here, self._parts_there(window_ms, rows, own))

    def _parts_there(self, window_ms: int, rows: Rows, own: Mapping[str, str]) -> dict[PartitionValues, Content]:
        """`own`: SHA-256 of the files here. Files there that are not the same are opened, and their rows counted."""
        there: dict[PartitionValues, Content] = {}
        known = {path_there(file.entry): file.entry.rows for file in rows.files}
        met = self._met(window_ms)
        for path, uri in met.files.items():
            with suppress(PathMissing):
                found = digest(self._storage, uri)
                count = known[path] if own.get(path) == found else self._counted(uri, rows)
                added(there, met.values[path], Content(rows=count, checksum=_sum({path: found})))
        for values, who in met.altered.items():
            added(there, values, Content(rows=0, checksum=_sum({who: ""})))
        return there

    def _counted(self, uri: str, rows: Rows) -> int:
        """Rows that readers find in a file; none in one that cannot be read."""
        try:
            with self._storage.open_existing(uri) as copy:
                return rows.count(uri, copy)
        except JobError:
            return 0

    def sweep(self, needed: Needed) -> list[str]:
        with _told():
            found = set(self._storage.list_names(self._layout.copies()) or [])
            gone = sorted(found - needed(found))
            for name in gone:
                self._storage.delete(self._layout.copied(name))
            done = [f"removed copies/{name}, which no try needs" for name in gone]
            return [*done, *self._clean(self._storage.list_names(self._replaced()) or []), *self._clean_up()]

    def close(self) -> None:
        return  # no connection is kept

    # ------------------------------------------------------------ what each kind of table does

    @abstractmethod
    def _prepare(self) -> None:
        """Create the table, or give it the pipeline's columns; looks first."""

    def _is_missing(self) -> bool:
        """Whether the table is not there, if that can be told."""
        return False

    def _clean_up(self) -> list[str]:
        """Remove what the table itself needs no more; what was removed, in words."""
        return []

    @abstractmethod
    def _show(self, record: Record, name: str, holds: Holds) -> None:
        """Let readers meet the files of the record, and nothing else of its window. Raises LostComparison."""

    @abstractmethod
    def _met(self, window_ms: int) -> Met:
        """What readers meet."""

    # ------------------------------------------------------------ whose directory it is

    def _claim(self) -> None:
        """Raises DeliveryRefused for a directory that another pipeline or delivery writes to."""
        mine = {"pipeline": self._site.pipeline.name, "delivery": self._options.delivery}
        workdir = usual_workdir(self._layout.location)
        path = join(workdir, "delivery.json")
        if not self._storage.exists(path):
            if self._storage.exists(join(workdir, "hwm")):
                raise DeliveryRefused(f"{self._layout.location} is the table of a pipeline", retry=False)
            with suppress(PathExists):
                self._storage.write_new(path, json.dumps(mine).encode())
                self._site.say(f"took {self._layout.location}")
        whose = json.loads(self._storage.read(path))
        if whose != mine:
            raise DeliveryRefused(
                f"{self._layout.location} belongs to the delivery {whose['delivery']} of {whose['pipeline']}",
                advice="give each delivery a table and a location of its own",
                retry=False,
            )

    # ------------------------------------------------------------ files arrive (D1 to D3)

    def _found(self, attempt: Attempt, rows: Rows) -> tuple[str, tuple[Copied, ...]] | None:
        """The place to which an earlier try has brought the generation; None unless all of it is whole there.

        Not one that is being cleaned: at the newest record's place or later."""
        home, oldest = self._home(attempt.token.unit), self._oldest_kept(attempt.token.unit)
        for name in sorted(self._storage.list_names(home) or [], reverse=True):
            order = order_of(name)
            if order is None or order[0] != attempt.token.generation or order < oldest:
                continue
            place = join(home, name)
            if self._is_whole(place, rows):
                copying = Copying(self._storage, rows, self._pace)
                copied = [copying.whole(file, join(place, path_there(file.entry))) for file in rows.files]
                whole = tuple(c for c in copied if c is not None)
                if len(whole) == len(copied):
                    return place, whole
        return None

    def _brought(self, attempt: Attempt, rows: Rows) -> tuple[str, tuple[Copied, ...]]:
        place = join(self._home(attempt.token.unit), name_of(attempt))
        staging = self._layout.copied(attempt.staging) if self._storage.renames else place
        arriving.refuse_long_keys([join(place, path_there(file.entry)) for file in rows.files])
        self._storage.make_dirs(staging)
        earlier, copying = self._earlier(attempt), Copying(self._storage, rows, self._pace)
        files = tuple(self._one(copying, file, staging, earlier) for file in rows.files)
        if staging != place:
            self._move(staging, place)
        if not self._is_whole(place, rows):  # a later try has taken files for itself
            raise DeliveryRefused(f"{place} is not whole: another try is at work")
        return place, files

    def _move(self, staging: str, place: str) -> None:
        self._storage.make_dirs(parent(place))
        try:
            self._storage.rename_no_replace(staging, place)
        except OutcomeUnknown:
            if self._storage.exists(staging) or not self._storage.exists(place):
                raise

    def _earlier(self, attempt: Attempt) -> dict[str, list[tuple[str, int]]]:
        """Path -> (URI, bytes) of files that other tries of this generation have left."""
        found: dict[str, list[tuple[str, int]]] = {}
        for name in self._storage.list_names(self._layout.copies()) or []:
            if name != attempt.staging and name.startswith(f"{attempt.token.unit}_{attempt.token.generation}_"):
                folder = self._layout.copied(name)
                for file in self._storage.list_files(folder) or []:
                    found.setdefault(file.path, []).append((join(folder, file.path), file.bytes))
        return found

    def _one(
        self, copying: Copying, file: Source, staging: str, earlier: Mapping[str, list[tuple[str, int]]]
    ) -> Copied:
        """A file that an earlier try has copied whole is taken from its staging, not copied again."""
        path = join(staging, path_there(file.entry))
        self._storage.make_dirs(parent(path))
        for uri, size in earlier.get(path_there(file.entry), ()):
            if size != file.entry.bytes:
                continue
            try:
                self._storage.rename_no_replace(uri, path)
            except PathMissing:
                continue
            if (found := copying.whole(file, path)) is not None:
                return found
            self._storage.delete(path)
        return copying.copy(file, path)

    def _read(self, met: Met) -> dict[str, str]:
        """SHA-256 of each file that readers meet, by its path; of one that is gone nothing."""
        found = {"; ".join(sorted({*met.altered.values()})): ""} if met.altered else {}
        for path, uri in met.files.items():
            with suppress(PathMissing):
                found[path] = digest(self._storage, uri)
        return found

    # ------------------------------------------------------------ what has made way

    def _note_replaced(self, window_ms: int, place: str) -> None:
        """Directories beside `place` are looked at later, by the next sweep. Each note is a name of its own: who has
        dealt with one does not take a later one away."""
        mine = place.rpartition("/")[2]
        if {*(self._storage.list_names(self._home(window_ms)) or [])} - {mine}:
            name = f"{self._site.clock.now_ms()}.{units.id_of(self._options.side, window_ms)}.{mine}"
            with suppress(PathExists):
                self._storage.write_new(join(self._replaced(), name), b"")

    def _clean(self, notes: list[str]) -> Iterator[str]:
        due_ms = self._site.clock.now_ms() - self._options.keep_ms
        for name in notes:
            noted_ms, window, *_ = name.split(".")
            if int(noted_ms) > due_ms:
                continue
            window_ms = units.parsed(self._options.side, window)
            records = self._tries.records(window_ms)
            if not records or records[0].since_ms > due_ms:  # what made way for the newest one did so then
                continue
            home, oldest = self._home(window_ms), self._oldest_kept(window_ms)
            places, gone = self._met(window_ms).places, []
            for other in self._storage.list_names(home) or []:
                order, place = order_of(other), join(home, other)
                if order is not None and order < oldest:
                    if any(f"{known}/".startswith(f"{place}/") for known in places):
                        break  # the newest try has not come to its end
                    gone.append(place)
            else:
                for place in gone:
                    self._storage.delete(place)
                    yield f"removed {place}, which has made way"
                self._tries.forget(window_ms, records[0].order)
                self._storage.delete(join(self._replaced(), name))

    def _oldest_kept(self, window_ms: int) -> Order:
        """Of the newest record's place: those before it make way."""
        records = self._tries.records(window_ms)
        return (order_of(records[0].place.rpartition("/")[2]) if records else None) or (0, 0)

    # ------------------------------------------------------------ places

    def _key(self, unit: int) -> WindowKey:
        return units.key_of(unit) if self._options.side else window_from(unit, self._site.pipeline.windows)

    def _home(self, window_ms: int) -> str:
        return join(self._layout.generations(), units.id_of(self._options.side, window_ms))

    def _replaced(self) -> str:
        return join(self._layout.workdir, "replaced")

    def _is_whole(self, place: str, rows: Rows) -> bool:
        """Whether readers meet exactly the manifest's files there, by name and length."""
        listing = {f.path: f.bytes for f in self._storage.list_files(place) or []}
        manifest = {path_there(file.entry): file.entry.bytes for file in rows.files}
        return manifest.items() <= listing.items() and not any(strays(listing, manifest))


def _content(digests: Mapping[str, str], known: tuple[Copied, ...] | list[Copied]) -> Content:
    """Rows of the files by what is `known` of them; the sum of the hashes of their paths and bytes."""
    rows = {(c.entry.path, c.digest): c.entry.rows for c in known}
    return Content(rows=sum(rows.get(one, 0) for one in digests.items()), checksum=_sum(digests))


def _sum(digests: Mapping[str, str]) -> int:
    hashes = (hashlib.sha256(f"{path}\n{found}".encode()).digest()[:8] for path, found in digests.items())
    return sum(map(int.from_bytes, hashes)) % CHECKSUM_MODULUS


@contextmanager
def _told() -> Iterator[None]:
    """Errors of storage and catalogue in the words of the port."""
    try:
        yield
    except (CatalogueUnsure, OutcomeUnknown) as e:
        raise DeliveryUnsure(str(e.args[0]), advice=e.advice) from e
    except (CatalogueError, StorageError) as e:
        kind = DeliveryDenied if isinstance(e, StorageError) and not e.retry else DeliveryRefused
        raise kind(str(e.args[0]), advice=e.advice, retry=e.retry) from e
