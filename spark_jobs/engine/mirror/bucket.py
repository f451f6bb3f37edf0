"""The second step of an apply: the buckets of a task, one after another, become their new files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.encodings import choose_encoding, sample_of
from spark_jobs.engine.failures import refuse
from spark_jobs.engine.mirror.base import read_base
from spark_jobs.engine.mirror.events import Handed, taken
from spark_jobs.engine.mirror.hashing import buckets_of
from spark_jobs.engine.mirror.merge import Merged, merge_bucket, unmerged
from spark_jobs.engine.mirror.numbers import mask_of
from spark_jobs.engine.mirror.purge import has_any, purged, swept
from spark_jobs.engine.mirror.shape import Shape
from spark_jobs.engine.rewrite.sources import GROUP_BYTES, GROUP_ROWS
from spark_jobs.engine.sinks import format_of
from spark_jobs.engine.sinks.bounds import bounds_of
from spark_jobs.engine.sinks.stored import leaf_ids
from spark_jobs.engine.write import bounds_uri
from tidegate.core.base.plain import dumps
from tidegate.core.batch.jobs import ApplyPlan
from tidegate.core.mirror.counts import Counts
from tidegate.core.mirror.jobs import Bucket, BucketDone, MirrorFile
from tidegate.core.mirror.recut import lumps
from tidegate.core.target.paths import join
from tidegate.core.target.stored import Bounds

FORMAT = "parquet"


@dataclass(frozen=True)
class Group:
    """The work of a task: buckets `low` to `high`, inclusive, and what has been handed over for them."""

    low: int
    high: int
    handed: tuple[Handed, ...]


@dataclass(frozen=True)
class GroupDone:
    """`below_purge`: samples of events that a purge has kept out; `kept_out`: how many, by server of several."""

    buckets: tuple[BucketDone, ...]
    below_purge: tuple[str, ...] = ()
    kept_out: tuple[tuple[str, int], ...] = ()


def merge_group(plan: ApplyPlan, open_storage: Callable[[str], Any], group: Group, attempt: int) -> GroupDone:
    """Merge the events of each of the buckets, and write the files of those that they change. Raises JobError."""
    shape, base = Shape(plan), {b.number: b for b in plan.base}
    writing = _Writing(plan, shape, open_storage, attempt)
    done: list[BucketDone] = []
    samples: list[str] = []
    kept_out: list[tuple[str, int]] = []
    events = taken(open_storage, group.handed, group.low, group.high)
    also = {n for n in base if plan.visits_all and group.low <= n <= group.high}
    for number in sorted(events.keys() | also):
        one, merged = _merged(plan, shape, open_storage, base.get(number), number, events.pop(number, None), writing)
        done.append(one)
        samples += merged.below_purge
        kept_out += merged.kept_out
    writing.tell_bounds(group)
    return GroupDone(tuple(done), tuple(samples), tuple(kept_out))


def recut_group(plan: ApplyPlan, open_storage: Callable[[str], Any], group: Group, attempt: int) -> GroupDone:
    """Cut the lumps of a task into the plan's buckets (`core.mirror.recut`): in memory is one lump. Raises JobError."""
    shape, ids = Shape(plan), dict(plan.fields)
    writing = _Writing(plan, shape, open_storage, attempt)
    count, done = lumps(plan), list[BucketDone]()
    for lump in range(group.low, group.high + 1):
        base = [b for b in plan.base if b.number % count == lump]
        if not base:
            continue
        rows = pa.concat_tables([read_base(shape, ids, open_storage, b, plan.cut_before) for b in base])
        numbers = buckets_of([rows[name] for name in shape.key], plan.buckets)
        for number in range(lump, plan.buckets, count):
            mine = rows.filter(mask_of(numbers == number))
            files = writing.files(number, mine)
            if files:
                tombstones = sum(f.tombstones for f in files)
                done.append(BucketDone(number, True, Counts(), files, len(mine), tombstones))
    writing.tell_bounds(group)
    return GroupDone(tuple(done))


def _merged(
    plan: ApplyPlan,
    shape: Shape,
    open_storage: Callable[[str], Any],
    bucket: Bucket | None,
    number: int,
    events: pa.Table | None,
    writing: _Writing,
) -> tuple[BucketDone, Merged]:
    """What stands now; of what was merged its rows are written, and let go."""
    ids = dict(plan.fields)
    if plan.drops and bucket is not None and not has_any(shape, ids, open_storage, bucket, plan):
        return _untouched(bucket), Merged(Counts())
    rows = read_base(shape, ids, open_storage, bucket, plan.buckets)
    before = len(rows)
    if plan.sweep and not plan.whole:
        merged = swept(shape, rows, plan.swept_below, plan.part)
    elif plan.settled:
        merged = purged(shape, rows, shape.purged_below(rows))
    elif events is None:
        merged = unmerged(shape, rows)
    else:
        merged = merge_bucket(shape, rows, events, shape.purged_below(events))
    if plan.whole:
        merged = _as_a_whole(plan, shape, rows, merged)
    now = merged.rows
    del rows, events
    files = writing.files(number, now)
    changed, counts = now is not None, merged.counts
    done = BucketDone(number, changed, counts, files, before, merged.tombstones_before, merged.purged, merged.swept)
    return done, replace(merged, rows=None)


def _as_a_whole(plan: ApplyPlan, shape: Shape, rows: pa.Table, merged: Merged) -> Merged:
    """What a day writes of a bucket: all of it, changed or not; without what a copy of the source has not found, or
    without old tombstones."""
    now = rows if merged.rows is None else merged.rows
    left = swept(shape, now, plan.swept_below, plan.part) if plan.sweep else purged(shape, now, plan.purge_to)
    return replace(merged, rows=now if left.rows is None else left.rows, purged=left.purged, swept=left.swept)


def _untouched(bucket: Bucket) -> BucketDone:
    """A bucket in which a purge has found nothing: how many other tombstones it has, nobody has counted."""
    return BucketDone(bucket.number, False, Counts(), (), sum(f.rows for f in bucket.files))


class _Writing:
    """What one attempt of a task writes: the files of its buckets, and the bounds of those whose table keeps them."""

    def __init__(self, plan: ApplyPlan, shape: Shape, open_storage: Callable[[str], Any], attempt: int) -> None:
        self._plan, self._shape, self._open_storage, self._attempt = plan, shape, open_storage, attempt
        self._codec = str(plan.pipeline["sink"].get("compression", "zstd"))
        self._bounds: dict[str, Bounds] = {}

    def files(self, number: int, rows: pa.Table | None) -> tuple[MirrorFile, ...]:
        """A bucket's files; nothing of one that stays as it is."""
        return tuple(one for part, some in self._parts(rows) for one in self._written(number, part, some))

    def tell_bounds(self, group: Group) -> None:
        if not self._bounds:
            return
        uri = bounds_uri(self._plan.attempt_dir, f"{group.low:05d}-{group.high:05d}-{self._attempt}")
        with self._open_new(uri) as sink:
            sink.write(dumps(self._bounds).encode())

    def _open_new(self, uri: str) -> Any:
        return self._open_storage(self._plan.attempt_dir).open_new(uri)

    def _parts(self, rows: pa.Table | None) -> Iterator[tuple[str, pa.Table]]:
        """What goes into files of its own, and how those are called."""
        if rows is None:
            return
        if not self._plan.whole:
            yield "part", rows
            return
        deleted = self._shape.deleted(rows)
        yield "part", rows.filter(pc.invert(deleted))
        yield "gone", rows.filter(deleted)

    def _written(self, number: int, part: str, rows: pa.Table) -> Iterator[MirrorFile]:
        """A further file once one has reached the plan's size."""
        groups, file_number = list(_row_groups(self._shape.with_bucket(rows, number))), 0
        while groups:
            extension = format_of(FORMAT).extension(self._codec)
            path = f"bucket-{number:05d}/{part}-{self._attempt}-{file_number:04d}{extension}"
            with self._open_new(join(self._plan.attempt_dir, path)) as sink:
                made = self._file(number, path, sink, groups)
            yield made
            file_number += 1

    def _file(self, number: int, path: str, sink: Any, groups: list[pa.Table]) -> MirrorFile:
        """Takes the row groups that it writes from `groups`."""
        plan, shape = self._plan, self._shape
        writer = format_of(FORMAT).open(sink, shape.stored, choose_encoding(sample_of(groups[0])), self._codec)
        count = tombstones = 0
        while groups and (not count or writer.size() < plan.target_file_size):
            rows = groups.pop(0)
            writer.write(rows)
            count += len(rows)
            tombstones += pc.sum(shape.deleted(rows)).as_py() or 0
        labels = {"tidegate.kind": "mirror", "tidegate.bucket": str(number), "tidegate.attempt": plan.attempt}
        told = writer.close(labels)
        if told != count:
            raise refuse(f"{path}: {told} rows in the file, {count} written", retry=True)
        if not plan.whole:  # bounds go by field ids
            self._bounds[path] = bounds_of(writer.footer, leaf_ids(shape.stored))  # type: ignore[attr-defined]
        return MirrorFile(path, sink.tell(), count, tombstones)


def _row_groups(rows: pa.Table) -> Iterator[pa.Table]:
    size = max(1, min(GROUP_ROWS, len(rows) * GROUP_BYTES // max(1, rows.nbytes)))
    for at in range(0, len(rows), size):
        yield rows.slice(at, size)


def cut(weights: Sequence[tuple[int, int]], groups: int) -> list[tuple[int, int]]:
    """Neighbouring (bucket, weight) as at most so many stretches of about one weight: (first, last), inclusive."""
    left = sum(weight for _, weight in weights)
    found: list[tuple[int, int]] = []
    low, mine = 0, 0
    for i, (bucket, weight) in enumerate(weights):
        mine += weight
        rest = groups - len(found)
        if mine * rest >= left or i == len(weights) - 1:
            found.append((weights[low][0], bucket))
            low, left, mine = i + 1, left - mine, 0
    return found
