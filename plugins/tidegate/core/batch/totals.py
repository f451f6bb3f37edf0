"""Running sums over what has landed: what is final is added up once, so that a look at a pipeline costs the same after
a hundred batches as after a million."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol, TypeVar

from tidegate.core.files.balance import Balance

S = TypeVar("S")


def _added(one: S, other: S) -> S:
    """Field by field; both are of one kind."""
    names = [f.name for f in fields(one)]  # type: ignore[arg-type]
    return type(one)(**{n: getattr(one, n) + getattr(other, n) for n in names})


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Over ranges of LANDED batches of one kind. `bytes`: keys and values as Kafka delivered them; `unaccounted`, range
    by range, what `read` differs by from what its records became."""

    offsets: int = 0
    read: int = 0
    data: int = 0
    late: int = 0
    dirty: int = 0
    filtered: int = 0
    dropped: int = 0
    rerouted: int = 0
    bytes: int = 0
    unaccounted: int = 0

    def __add__(self, other: Sums) -> Sums:
        return _added(self, other)


@dataclass(frozen=True)
class Spent:
    """Time that a step took, in all (ms), and how often its beginning and end are both known."""

    ms: int = 0
    count: int = 0

    def __add__(self, other: Spent) -> Spent:
        return _added(self, other)


NO_TIME = Spent()


@dataclass(frozen=True)
class BatchSteps:
    """`plan`: from the plan's clock to the plan; `start`: until the epoch that was sealed began; `write`: until it was
    sealed, the job's own time in it is `job`; `land`: until it had landed."""

    plan: Spent = NO_TIME
    start: Spent = NO_TIME
    write: Spent = NO_TIME
    job: Spent = NO_TIME
    land: Spent = NO_TIME

    def __add__(self, other: BatchSteps) -> BatchSteps:
        return _added(self, other)


NOTHING, NO_STEPS = Sums(), BatchSteps()


@dataclass(frozen=True)
class Totals:
    """Over the LANDED batches of a pipeline. `taken`: dirty rows that belong to a redrive by now; `steps` of all but
    redrives."""

    ingested: Sums = NOTHING
    redriven: Sums = NOTHING
    taken: int = 0
    steps: BatchSteps = NO_STEPS

    def __add__(self, other: Totals) -> Totals:
        return _added(self, other)

    @property
    def dirty_now(self) -> int:
        """Dirty rows that no redrive has taken up."""
        return self.ingested.dirty + self.redriven.dirty - self.taken

    @property
    def balance(self) -> Balance:
        """Each row with its owner: what a redrive has taken is the redrive's alone. Gaps are what is left of the
        offsets; a redrive has none but the rows that it reads."""
        one, two = self.ingested, self.redriven
        offsets, read = one.offsets + two.read - self.taken, one.read + two.read - self.taken
        return Balance(
            offsets=offsets,
            read=read,
            gaps=offsets - read,
            data=one.data + two.data,
            late=one.late + two.late,
            dirty=self.dirty_now,
            filtered=one.filtered + two.filtered,
            dropped=one.dropped + two.dropped,
            rerouted=one.rerouted + two.rerouted,
        )


NO_TOTALS = Totals()


class TotalsLedger(Protocol):
    def advance(self, name: str) -> bool:
        """Add a bounded number of batches, which are LANDED or ABANDONED, to the pipeline's running sums; whether more
        are left. Raises LostComparison if somebody else has added them meanwhile."""
        ...
