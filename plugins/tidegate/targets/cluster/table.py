"""A Hive table of another cluster (`core.deliver.port.FurtherSystem`).

A generation's files are copied into a staging directory of the try's own (D1), each read back and held against the
manifest (D3); one rename brings them to a place of their own, and the partitions are pointed there as those of the
pipeline's own table are (R2, R8), with intents beside the files instead of in the ledger (`targets/cluster/tries.py`).

    copies/<staging>/                                   files on their way; a later try takes those that are whole
    generations/<window>/<generation>.<epoch>-<nonce>/  where the files of a window stand
    replaced/<ms>.<window>.<generation>.<epoch>-<nonce> others made way for that one, then (UTC)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tidegate.core.base.clock import Clock
from tidegate.core.base.errors import (
    CatalogueError,
    CatalogueUnsure,
    DeliveryRefused,
    DeliveryUnsure,
    OutcomeUnknown,
    PathExists,
    PathMissing,
    StorageError,
)
from tidegate.core.base.partition_values import partition_path
from tidegate.core.base.storage import Storage
from tidegate.core.deliver.port import Attempt, Content, Holds, Needed, Rows, Standing
from tidegate.core.files.merge import Source
from tidegate.core.files.receipt import CHECKSUM_MODULUS
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.paths import Layout, join
from tidegate.core.target.port import Shown, Targets
from tidegate.core.window.cut import parse_window_id, window_from, window_id
from tidegate.core.window.states import GenerationKind, PublishedGeneration, WindowKey
from tidegate.targets.cluster.copying import Copied, Copying, Files, Pace, digest
from tidegate.targets.cluster.tries import Order, Record, Tries, TryFence, name_of, order_of
from tidegate.targets.hive import partitions
from tidegate.targets.hive.success_marker import write_success
from tidegate.targets.hive.table import HiveTable
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


@dataclass(frozen=True, kw_only=True)
class Options:
    """Keys of the delivery. `rate`: bytes a second; None: no limit."""

    delivery: str
    rate: int | None = None
    success: bool = True
    keep_ms: int = 86_400_000

    @classmethod
    def of(cls, delivery: str, told: Mapping[str, str]) -> Options:
        """As `spec.by_kind.own_options` wrote them."""
        rate = told.get("rate")
        return cls(
            delivery=delivery,
            rate=None if rate is None else int(rate),
            success=told["success"] == "True",
            keep_ms=int(told["keep"]),
        )


class ClusterTable:
    """Implements `core.deliver.port.FurtherSystem`."""

    def __init__(self, site: Site, storage: Files, targets: Targets, options: Options) -> None:
        table = targets.data(site)
        assert isinstance(table, HiveTable)
        self._site, self._table, self._options = site, table, options
        self._storage, self._layout = storage, Layout.of(site.pipeline)
        self._tries = Tries(self._storage, self._layout.workdir, site.clock, site.request_ttl_ms)
        self._pace = Pace(options.rate)

    def prepare(self) -> list[str]:
        with _told():
            self._claim()
            self._table.prepare()
        done, self._site.lines = self._site.lines, []
        return done

    def send(self, attempt: Attempt, rows: Rows, holds: Holds) -> Standing:
        with _told():
            self._tries.refuse_late(attempt)
            self._tries.wait_for_none(attempt.token.unit)
            place, files = self._found(attempt, rows) or self._brought(attempt, rows)
            self._show(attempt, place, files, holds)
        return Standing(content=_content({c.entry.path: c.digest for c in files}, files), token=attempt.token)

    def standing(self, window_ms: int) -> Standing:
        with _told():
            shown, key = self._shown(window_ms), self._key(window_ms)
            records = self._tries.records(window_ms)
            by = next((r for r in records if self._wanted(key, r.files, r.place) == shown), None)
            known = [copied for record in records for copied in record.files]
            return Standing(content=_content(self._read(key, shown), known), token=None if by is None else by.token)

    def sweep(self, needed: Needed) -> list[str]:
        with _told():
            found = set(self._storage.list_names(self._layout.copies()) or [])
            gone = sorted(found - needed(found))
            for name in gone:
                self._storage.delete(self._layout.copied(name))
            replaced = self._storage.list_names(self._replaced()) or []
            return [*(f"removed copies/{name}, which no try needs" for name in gone), *self._clean(replaced)]

    def close(self) -> None:
        """No connection is kept."""

    # ------------------------------------------------------------ whose directory it is

    def _claim(self) -> None:
        """Raises DeliveryRefused for a directory that another pipeline or delivery writes to."""
        mine = {"pipeline": self._site.pipeline.name, "delivery": self._options.delivery}
        path = join(self._layout.workdir, "delivery.json")
        if not self._storage.exists(path):
            if self._storage.exists(self._layout.high_water_marks()):
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
                copied = [copying.whole(file, join(place, file.entry.path)) for file in rows.files]
                whole = tuple(c for c in copied if c is not None)
                if len(whole) == len(copied):
                    return place, whole
        return None

    def _brought(self, attempt: Attempt, rows: Rows) -> tuple[str, tuple[Copied, ...]]:
        staging = self._layout.copied(attempt.staging)
        place = join(self._home(attempt.token.unit), name_of(attempt))
        self._storage.make_dirs(staging)
        earlier, copying = self._earlier(attempt), Copying(self._storage, rows, self._pace)
        files = tuple(self._one(copying, file, staging, earlier) for file in rows.files)
        self._storage.make_dirs(parent(place))
        try:
            self._storage.rename_no_replace(staging, place)
        except OutcomeUnknown:
            if self._storage.exists(staging) or not self._storage.exists(place):
                raise
        if not self._is_whole(place, rows):  # a later try has taken files for itself
            raise DeliveryRefused(f"{place} is not whole: another try is at work")
        return place, files

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
        path = join(staging, file.entry.path)
        self._storage.make_dirs(parent(path))
        for uri, size in earlier.get(file.entry.path, ()):
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

    # ------------------------------------------------------------ what readers meet

    def _show(self, attempt: Attempt, place: str, files: tuple[Copied, ...], holds: Holds) -> None:
        token, now_ms, key = attempt.token, self._site.clock.now_ms(), self._key(attempt.token.unit)
        record = Record(token=token, nonce=attempt.nonce, place=place, since_ms=now_ms, files=files)
        self._note_replaced(token.unit, place)
        self._tries.begin(record, name_of(attempt))
        generation = PublishedGeneration(
            pipeline=token.pipeline,
            window=key,
            number=token.generation,
            kind=GenerationKind.ARCHIVE,
            batches=(),
            location=place,
            files=tuple(c.entry for c in files),
            digest=token.digest,
            published_ms=now_ms,
            epoch=token.epoch,
        )
        with self._table.session():
            partitions.align(self._table, TryFence(self._tries, name_of(attempt), generation, holds), place)
        if self._options.success:
            write_success(self._table, key, token.generation, place)

    def _shown(self, window_ms: int) -> Shown:
        return self._table.catalogue.partitions(self._table.name, self._table.values(self._key(window_ms)))

    def _wanted(self, key: WindowKey, files: tuple[Copied, ...], place: str) -> Shown:
        return partitions.wanted(self._table, key, tuple(c.entry for c in files), place)

    def _read(self, key: WindowKey, shown: Shown) -> dict[str, str]:
        """SHA-256 of each file that readers of the window meet, by its path below the window's."""
        found, time = {}, len(self._table.values(key))
        for values, location in shown.items():
            listing = [f.path for f in self._storage.list_files(location) or []]
            for path in strays(listing, ()):
                below = join(partition_path(values[time:]), path) if values[time:] else path
                found[below] = digest(self._storage, join(location, path))
        return found

    # ------------------------------------------------------------ what has made way

    def _note_replaced(self, window_ms: int, place: str) -> None:
        """Directories beside `place` are looked at later, by whoever sweeps. Each note is a name of its own: who has
        dealt with one does not take a later one away."""
        mine = place.rpartition("/")[2]
        if {*(self._storage.list_names(self._home(window_ms)) or [])} - {mine}:
            name = f"{self._site.clock.now_ms()}.{window_id(window_ms)}.{mine}"
            with suppress(PathExists):
                self._storage.write_new(join(self._replaced(), name), b"")

    def _clean(self, notes: list[str]) -> Iterator[str]:
        due_ms = self._site.clock.now_ms() - self._options.keep_ms
        for name in notes:
            noted_ms, window, *_ = name.split(".")
            if int(noted_ms) > due_ms:
                continue
            window_ms = parse_window_id(window)
            records = self._tries.records(window_ms)
            if not records or records[0].since_ms > due_ms:  # what made way for the newest one did so then
                continue
            home, oldest = self._home(window_ms), self._oldest_kept(window_ms)
            shown = self._shown(window_ms).values()
            gone = []
            for other in self._storage.list_names(home) or []:
                order, place = order_of(other), join(home, other)
                if order is not None and order < oldest:
                    if any(f"{location}/".startswith(f"{place}/") for location in shown):
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

    def _key(self, window_ms: int) -> WindowKey:
        return window_from(window_ms, self._site.pipeline.windows)

    def _home(self, window_ms: int) -> str:
        return join(self._layout.generations(), window_id(window_ms))

    def _replaced(self) -> str:
        return join(self._layout.workdir, "replaced")

    def _is_whole(self, place: str, rows: Rows) -> bool:
        """Whether readers meet exactly the manifest's files there, by name and length."""
        listing = {f.path: f.bytes for f in self._storage.list_files(place) or []}
        manifest = {file.entry.path: file.entry.bytes for file in rows.files}
        return manifest.items() <= listing.items() and not any(strays(listing, manifest))


def _content(digests: Mapping[str, str], known: tuple[Copied, ...] | list[Copied]) -> Content:
    """Rows of the files by what is `known` of them; the sum of the hashes of their paths and bytes."""
    rows = {(c.entry.path, c.digest): c.entry.rows for c in known}
    total = sum(
        int.from_bytes(hashlib.sha256(f"{path}\n{found}".encode()).digest()[:8]) for path, found in digests.items()
    )
    return Content(rows=sum(rows.get(one, 0) for one in digests.items()), checksum=total % CHECKSUM_MODULUS)


@contextmanager
def _told() -> Iterator[None]:
    """Errors of storage and catalogue in the words of the port."""
    try:
        yield
    except (CatalogueUnsure, OutcomeUnknown) as e:
        raise DeliveryUnsure(str(e.args[0]), advice=e.advice) from e
    except (CatalogueError, StorageError) as e:
        raise DeliveryRefused(str(e.args[0]), advice=e.advice, retry=e.retry) from e
