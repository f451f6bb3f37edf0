"""The arithmetic of a keyed table: `rows + tombstones + purged = inserted`, over its whole life and in each merge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegate.core.base.wording import many
from tidegate.core.mirror.counts import add_up
from tidegate.core.mirror.jobs import ApplyReceipt, Bucket, BucketDone, EventFile


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Sums of a keyed table: what stands in it, and what its whole life has added up."""

    rows: int = 0
    tombstones: int = 0
    events: int = 0
    inserted: int = 0
    purged: int = 0


def imbalance(sums: Totals) -> str | None:
    """What does not add up, for people; None if all does. Else rows are gone that no merge and no purge has taken."""
    there, put = sums.rows + sums.tombstones + sums.purged, sums.inserted
    if there == put:
        return None
    return (
        f"{many(sums.rows, 'row')}, {many(sums.tombstones, 'tombstone')} and {sums.purged:,} purged are {there:,}, "
        f"but {put:,} were inserted: another writer has removed or added rows"
    )


def after(before: Totals, receipt: ApplyReceipt) -> Totals:
    """The table's sums once the merge is committed."""
    counts = add_up(b.counts for b in receipt.buckets)
    changed = [b for b in receipt.buckets if b.changed]
    rows = sum(f.rows for b in changed for f in b.files) - sum(b.rows_before for b in changed)
    tombstones = sum(f.tombstones for b in changed for f in b.files) - sum(b.tombstones_before for b in changed)
    return Totals(
        rows=before.rows + rows - tombstones,
        tombstones=before.tombstones + tombstones,
        events=before.events + sum(read for batch, read in receipt.events if batch >= 0),  # below: rows of copies
        inserted=before.inserted + counts.inserted,
        purged=before.purged + sum(b.purged + b.swept for b in changed),
    )


def receipt_errors(
    events: Iterable[EventFile],
    base: Iterable[Bucket],
    receipt: ApplyReceipt,
    listing: Mapping[str, int] | None = None,
    whole: bool = False,
) -> list[str]:
    """Why the receipt cannot be right: empty if each event of the plan's files has one fate, and each bucket has the
    rows that it had and those that were inserted, without the tombstones that were purged. `listing`: path -> bytes of
    what is in the attempt's directory; None: nobody has looked. `whole`: each bucket of the base must have been
    written, whatever has changed in it."""
    found: list[str] = []
    due: dict[int, int] = {}
    for file in events:
        due[file.batch_id] = due.get(file.batch_id, 0) + file.rows
    read = dict(receipt.events)
    if whole:  # its files say of no batch whose events they hold
        due, read = {0: sum(due.values())}, {0: sum(read.values())}
    if {n: rows for n, rows in read.items() if rows} != {n: rows for n, rows in due.items() if rows}:
        found.append(f"events by batch are {read}, those of the plan's files {due}")
    counted = sum(b.counts.events for b in receipt.buckets)
    if counted != sum(read.values()):
        found.append(f"{many(sum(read.values()), 'event')} read, but {counted:,} have a fate")
    found += twice_errors(receipt)
    before = {b.number: sum(f.rows for f in b.files) for b in base}
    for bucket in receipt.buckets:
        found += _bucket_errors(bucket, before.get(bucket.number, 0), whole)
    left = before.keys() - {b.number for b in receipt.buckets} if whole else set()
    if left:
        found.append(f"{many(len(left), 'bucket')} of the day before left out, bucket {min(left)} the first")
    return found + file_errors(receipt, listing)


def twice_errors(receipt: ApplyReceipt) -> list[str]:
    """Which buckets a receipt lists more than once."""
    times = Counter(b.number for b in receipt.buckets)
    return [f"bucket {n} is listed twice" for n, listed in times.items() if listed > 1]


def file_errors(receipt: ApplyReceipt, listing: Mapping[str, int] | None) -> list[str]:
    """Which files of a receipt are not in the attempt's directory as it says; none where nobody has looked."""
    files = [] if listing is None else [(f, listing.get(f.path)) for b in receipt.buckets for f in b.files]
    return [f"{f.path}: {f.bytes} bytes, in its directory {there}" for f, there in files if there != f.bytes]


def _bucket_errors(bucket: BucketDone, before: int, whole: bool) -> list[str]:
    name, counts = f"bucket {bucket.number}", bucket.counts
    found = []
    if bucket.rows_before != before:
        found.append(f"{name}: {many(bucket.rows_before, 'row')} read, the table's files have {before:,}")
    gone = bucket.purged + bucket.swept
    if bucket.changed != (whole or bool(counts.inserted + counts.changed + gone)):
        found.append(f"{name}: {'changed' if bucket.changed else 'unchanged'}, by counts {counts}")
    rows = sum(f.rows for f in bucket.files)
    if rows != (before + counts.inserted - gone if bucket.changed else 0):
        less = f", {gone:,} purged" if gone else ""
        found.append(
            f"{name}: {many(rows, 'row')} in its new files, {before:,} before and {counts.inserted:,} inserted{less}"
        )
    left = sum(f.tombstones for f in bucket.files)
    if gone and not counts.events and left != bucket.tombstones_before - bucket.purged:
        had = many(bucket.tombstones_before, "tombstone")
        found.append(f"{name}: {bucket.purged:,} of {had} purged, {left:,} left")
    return found
