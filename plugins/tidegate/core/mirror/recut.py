"""Another number of buckets: a multiple or a divisor of the old one, so that whole buckets are split or joined.

A key's bucket is its hash modulo their number. So with a multiple a new bucket has keys of one old bucket alone, and
with a divisor an old one goes into one new bucket: a *lump* is all that has one remainder by the smaller number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tidegate.core.base.wording import many
from tidegate.core.mirror.balance import file_errors, receipt_errors, twice_errors
from tidegate.core.mirror.jobs import ApplyReceipt, Bucket, EventFile

_MULTIPLES = 5


class Cut(Protocol):
    """`core.batch.jobs.ApplyPlan` is so."""

    @property
    def events(self) -> tuple[EventFile, ...]: ...

    @property
    def base(self) -> tuple[Bucket, ...]: ...

    @property
    def buckets(self) -> int: ...

    @property
    def cut_before(self) -> int: ...

    @property
    def whole(self) -> bool: ...


def refusal(before: int, wanted: int) -> str | None:
    """Why a table of so many buckets cannot have the wanted number; None if it can."""
    if max(before, wanted) % min(before, wanted) == 0:
        return None
    fewer = [str(n) for n in range(1, before) if before % n == 0]
    more = [str(before << n) for n in range(1, _MULTIPLES)]
    possible = ", ".join([*fewer, str(before), *more])
    return f"the table has {before} buckets, it can have a divisor or a multiple of that: {possible}, ...; not {wanted}"


def lumps(plan: Cut) -> int:
    """Number of lumps of a plan that cuts anew."""
    return min(plan.buckets, plan.cut_before)


def errors(plan: Cut, receipt: ApplyReceipt, listing: Mapping[str, int] | None = None) -> list[str]:
    """Why a receipt cannot be right, by `balance.receipt_errors`; of a plan that cuts anew, unless each lump has the
    rows that it had."""
    if not plan.cut_before:
        return receipt_errors(plan.events, plan.base, receipt, listing, plan.whole)
    found = twice_errors(receipt) + file_errors(receipt, listing)
    unknown = {b.number for b in receipt.buckets} - set(range(plan.buckets))
    found += [f"bucket {n} is not one of 0 to {plan.buckets - 1}" for n in sorted(unknown)]
    before, after = dict.fromkeys(range(lumps(plan)), 0), dict.fromkeys(range(lumps(plan)), 0)
    for bucket in plan.base:
        before[bucket.number % lumps(plan)] += sum(f.rows for f in bucket.files)
    for done in receipt.buckets:
        after[done.number % lumps(plan)] += sum(f.rows for f in done.files)
        rows, tombstones = sum(f.rows for f in done.files), sum(f.tombstones for f in done.files)
        if not done.changed or (rows, tombstones) != (done.rows_before, done.tombstones_before) or done.counts.events:
            found.append(f"bucket {done.number}: {many(rows, 'row')} in its new files, {done.rows_before:,} were cut")
    wrong = [n for n, rows in before.items() if rows != after[n]]
    if wrong:
        n = wrong[0]
        found.append(f"buckets {n} modulo {lumps(plan)}: {many(after[n], 'row')}, before it was cut {before[n]:,}")
    return found
