"""When a batch is too dirty to land."""

from __future__ import annotations

from collections import Counter

from tidegate.core.files.receipt import Receipt
from tidegate.core.spec.pipeline import DirtyLimits

SHOWN = 3
"""Records that a refusal shows, all of them with the commonest reason."""


def refusal(limits: DirtyLimits, receipt: Receipt) -> str | None:
    """Why the batch may not land, naming the field and samples; None if it may.

    Either limit refuses alone. The ratio is of the records read, and a single dirty record never breaks it: a batch of
    twenty with one bad record is not a broken producer.
    """
    dirty, read = receipt.dirty_rows, receipt.read_rows
    if not dirty:
        return None
    too_many = limits.max_count is not None and dirty > limits.max_count
    too_dense = limits.max_ratio is not None and dirty > max(1, limits.max_ratio * read)
    if not (too_many or too_dense):
        return None
    limit = f"dirty.max_count {limits.max_count}" if too_many else f"dirty.max_ratio {limits.max_ratio}"
    common = Counter((s.field, s.reason) for s in receipt.samples).most_common(1)
    most = common[0][0] if common else None
    worst = f"; mostly {most[0] or 'record'}: {most[1]}" if most else ""
    typical = [s for s in receipt.samples if (s.field, s.reason) == most][:SHOWN]
    samples = "; ".join(f"partition {s.partition} offset {s.offset}: {s.raw[:80]}" for s in typical)
    return f"{dirty:,} of {read:,} records are dirty, over {limit}{worst}" + (
        f" (for example {samples})" if samples else ""
    )
