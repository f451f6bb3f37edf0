"""When the ledger is behind (R11): what storage or the source tells of that the ledger does not know stops the task.

A database that fails over may forget its last commits, one that is restored from a backup forgets a day. What they
decided has happened all the same: planning from such a ledger would read offsets twice. `workflow.base.preflight`
gathers; here it is decided.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from tidegate.core.base.errors import StorageAhead
from tidegate.core.base.instants import iso
from tidegate.core.batch.planning import PlanningView
from tidegate.core.batch.states import Plan
from tidegate.core.files.receipt import Receipt
from tidegate.core.restore.record import BatchRecord, GenerationRecord
from tidegate.core.window.lateness import Floor

SHOWN = 3


# ---------------------------------------------------------------- batches


def unknown_batch(name: str, next_batch_id: int, path: str) -> StorageAhead:
    """The error where `path` says that there was a batch of the id which the ledger would give next."""
    return StorageAhead(f"{name}: the ledger's next batch is {next_batch_id}, but {path} exists")


def other_attempt(record: BatchRecord, nonce: str) -> bool:
    """Whether the batch has landed by another attempt than the ledger's."""
    return record.manifest is None or record.manifest.nonce != nonce


def unknown_attempt(batch_id: int) -> StorageAhead:
    """The error where `other_attempt`."""
    return StorageAhead(f"batch {batch_id} has landed already, by an attempt that the ledger does not know")


def same_plan(one: Plan, other: Plan) -> bool:
    """Whether two ledgers' plans mean the same batch: everything but the spec's number, which each ledger gives."""
    return replace(one, spec_version=0) == replace(other, spec_version=0)


def check_ranges(plan: Plan, receipt: Receipt, directory: str) -> None:
    """Raises StorageAhead unless what is adopted covers exactly the ranges that the ledger has planned."""
    covered = tuple(r.range for r in receipt.ranges)
    if (receipt.batch_id, receipt.topic_id, covered) != (plan.batch_id, plan.topic_id, plan.ranges):
        raise StorageAhead(f"{directory} holds another plan's batch {plan.batch_id}: {covered[:2]} ...")


def check_recorded_plan(plan: Plan, recorded: Plan) -> None:
    """Raises StorageAhead."""
    if not same_plan(recorded, plan):
        raise _other_plan(plan)


def check_written_plan(plan: Plan, written: Collection[tuple[int, Floor, int]]) -> None:
    """Raises StorageAhead. `written`: clock, floor and rules of each part of the attempt's plan file; two plans of the
    same ranges can differ in what makes a row late."""
    if list(written) != [(plan.clock_ms, plan.floor, plan.rules_version)]:
        raise _other_plan(plan)


def _other_plan(plan: Plan) -> StorageAhead:
    return StorageAhead(f"batch {plan.batch_id} landed by another plan than the ledger's: clock or floor differ")


# ---------------------------------------------------------------- the source's second witness


def beyond(told: Mapping[int, int], view: PlanningView) -> list[tuple[int, int]]:
    """(partition, offset) of which the source was told, though the ledger has not planned as far."""
    return sorted((p, offset) for p, offset in told.items() if offset > view.planned_ends.get(p, -1))


def unplanned_offset(name: str, group: str, partition: int, offset: int, view: PlanningView) -> StorageAhead:
    """The error where the ledger has not planned as far as it told the source. `group`: who was told, in words."""
    planned = view.planned_ends.get(partition)
    return StorageAhead(
        f"{name}: {group} is at offset {offset} of partition {partition}, "
        f"the ledger has planned up to {planned if planned is not None else 'nothing'}"
    )


# ---------------------------------------------------------------- publications


def held_against_the_close(unknown: Iterable[tuple[int, int]]) -> list[int]:
    """Starts of windows whose only unknown generation is the first one: while such a window is CLOSING, what that one
    is of is not decided; the record is compared with the ledger when the window is CLOSED (R14)."""
    found = list(unknown)
    return [start for start, number in found if number == 1 and not any(s == start and n > 1 for s, n in found)]


def unknown_publications(name: str, unknown: Collection[tuple[int, int]]) -> StorageAhead:
    """The error for records of (window start UTC ms, generation) that the ledger has no row of."""
    shown = ", ".join(f"generation {number} of {iso(start)}" for start, number in list(unknown)[:SHOWN])
    more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
    return StorageAhead(f"{name}: storage has records of publications that the ledger does not know: {shown}{more}")


@dataclass(frozen=True)
class Contradiction:
    """Why a generation's record and the ledger exclude each other. `set_aside`: whether the record may be set aside
    without a loss, because the ledger still has every batch that it names."""

    why: str
    set_aside: bool


def contradiction(record: GenerationRecord, data: Collection[int], held: Collection[int]) -> Contradiction | None:
    """None if the generation can be taken back as it was recorded (R15).

    `data`: the batches that brought the window rows in time, by the ledger; `held`: those whose late rows the
    generation in force holds. Late rows that the record does not hold wait for the next reopening."""
    mine = set(record.batches) - set(record.late)
    if mine == set(data) and set(held) <= set(record.late):
        return None
    why = f"generation {record.number} was built of batches {sorted(record.batches)}, the ledger knows of "
    return Contradiction(why + f"{sorted(set(data) | set(held))}", mine <= set(data))


def contradicted(record: GenerationRecord, wrong: Contradiction) -> StorageAhead:
    """The error where the record excludes what the ledger says of the window."""
    return StorageAhead(f"{iso(record.window.start_ms)}: {wrong.why}")
