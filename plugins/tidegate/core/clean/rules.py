"""What may be deleted: only what the ledger proves to be useless to tasks and readers, once it is old enough (R7).

Everything here is decided from facts of one moment; the cleaner reads them again right before. Ages come from the
ledger. A name that the ledger does not know is never touched: the ledger may have lost the commit that it was made by.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.batch.states import ABANDONED, LANDED, OVER_STATES, BatchState
from tidegate.core.spec.pipeline import Cleaning
from tidegate.core.target.paths import (
    BOUNDS,
    CERTIFICATE,
    DAY,
    FAILURE,
    GATHERED,
    RECEIPT,
    SUCCESS,
    Assembly,
    join,
    parse_assembly,
)
from tidegate.core.window.cut import is_number
from tidegate.core.window.kinds import of_kind
from tidegate.core.window.states import (
    BUILDING,
    BUILT,
    CURRENT,
    DISCARDED,
    RETIRED,
    SWAPPING,
    GenerationKind,
    GenerationState,
)

# ---------------------------------------------------------------- facts


@dataclass(frozen=True, kw_only=True)
class BatchFacts:
    """`newest`: no batch was planned after it. `unpublished`: windows (start, UTC ms) that it owes rows to and that
    have no generation in force which was made of it."""

    batch_id: int
    state: BatchState
    epoch: int
    side_moved: bool
    landed_ms: int | None
    cleaned_ms: int | None
    newest: bool
    unpublished: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GenerationFacts:
    """`current`: number of the window's generation in force. `newer_retired`: how many retired ones came after it.
    `doubts`: locations of catalogue changes of the window that may still be executed. `blocked`: by an alarm.
    `working`: another generation of the window is being built or swapped in. `cleaning_ms`: since when its files may be
    deleted, where generations share files."""

    window_ms: int
    number: int
    state: GenerationState
    epoch: int
    kind: GenerationKind
    location: str | None
    built_ms: int | None
    retired_ms: int | None
    cleaned_ms: int | None
    current: int | None
    newer_retired: int
    doubts: tuple[str, ...] = ()
    blocked: bool = False
    working: bool = False
    cleaning_ms: int | None = None


@dataclass(frozen=True)
class Moment:
    """An entry of the event log, of one subject; `detail` as it was noted."""

    at_ms: int
    what: str
    detail: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Verdict:
    """`odd`: kept although its time has come, because something contradicts the ledger; people are told."""

    go: bool
    why: str
    odd: bool = False


def _keep(why: str) -> Verdict:
    return Verdict(False, why)


def _odd(why: str) -> Verdict:
    return Verdict(False, why, odd=True)


# ---------------------------------------------------------------- names


@dataclass(frozen=True, order=True)
class BatchAttempt:
    """`<batch>.<epoch>-<nonce>`"""

    batch_id: int
    epoch: int


def parse_attempt(name: str) -> BatchAttempt | Assembly | None:
    """A name in `tmp/`, or one in `plans/` without `.json`; None for anything else."""
    head, dash, nonce = name.partition("-")
    if not dash or not nonce:
        return None
    batch, dot, epoch = head.partition(".")
    if dot and is_number(batch) and is_number(epoch):
        return BatchAttempt(int(batch), int(epoch))
    return parse_assembly(head)


def is_success_draft(name: str) -> bool:
    """`<window>.<generation>.success` in `publish/`: it waits to be renamed into its directory."""
    head, dot, last = name.rpartition(".")
    return last == "success" and parse_assembly(f"{head}{dot}0") is not None


def parse_side(name: str) -> tuple[int, str] | None:
    """`<batch>.late` or `<batch>.dirty`, in `side/`."""
    batch, _, kind = name.partition(".")
    return (int(batch), kind) if is_number(batch) and kind in ("late", "dirty") else None


def parse_quarantine(name: str) -> BatchAttempt | Assembly | int | None:
    """What a name in `quarantine/` is of: an attempt of a batch, an assembled window, a batch's late or dirty files."""
    kind, _, rest = name.partition("-")
    if kind == "batch":
        found = parse_attempt(rest)
        return found if isinstance(found, BatchAttempt) else None
    if kind == "window":
        return parse_assembly(rest)
    batch = rest.partition("-")[0]
    return int(batch) if kind in ("late", "dirty") and is_number(batch) else None


# ---------------------------------------------------------------- ages


def overtaken_ms(history: Iterable[Moment], epoch: int, number: int | None = None) -> int | None:
    """When the first epoch above `epoch` was taken, UTC ms; `number`: of this generation."""
    later = (
        m.at_ms
        for m in history
        if m.detail.get("epoch", 0) > epoch and (number is None or m.detail.get("generation") == number)
    )
    return min(later, default=None)


def newest_ms(history: Iterable[Moment], number: int) -> int | None:
    """When the last of these events of a window was that tells of this generation; UTC ms."""
    return max((m.at_ms for m in history if m.detail.get("generation") == number), default=None)


def _old(since_ms: int | None, ttl_ms: int | None, now_ms: int, what: str) -> Verdict | None:
    """None if it is old enough."""
    if ttl_ms is None:
        return _keep("the spec keeps it for ever")
    if since_ms is None:
        return _keep(f"the ledger does not say since when it is {what}")
    if now_ms - since_ms < ttl_ms:
        return _keep(f"{what} for less than the spec's time")
    return None


# ---------------------------------------------------------------- attempts and plan files


def batch_attempt(
    attempt: BatchAttempt, facts: BatchFacts | None, since_ms: int | None, ttl: Cleaning, now_ms: int
) -> Verdict:
    """`since_ms`: when it was overtaken, landed or abandoned."""
    if facts is None:
        return _odd("the ledger has no such batch: it may have lost a commit")
    if facts.state not in OVER_STATES and attempt.epoch >= facts.epoch:
        return _keep(f"the batch is {facts.state} at epoch {facts.epoch}")
    words = facts.state if facts.state in OVER_STATES else f"overtaken by epoch {facts.epoch}"
    return _old(since_ms, ttl.attempts_ms, now_ms, words) or Verdict(True, f"batch {facts.batch_id} is {words}")


def rebuild_attempt(
    attempt: Assembly, facts: GenerationFacts | None, since_ms: int | None, ttl: Cleaning, now_ms: int
) -> Verdict:
    """What a replay or heal wrote; its files have been moved out once the generation is BUILT."""
    if facts is None:
        return _odd("the ledger has no such generation: it may have lost a commit")
    if attempt.epoch > facts.epoch:
        return _odd(f"the ledger's epoch of the generation is only {facts.epoch}: it may have lost a commit")
    if facts.state == BUILDING and attempt.epoch == facts.epoch:
        return _keep(f"the generation is BUILDING at epoch {facts.epoch}")
    words = f"overtaken by epoch {facts.epoch}" if facts.state == BUILDING else facts.state
    return _old(since_ms, ttl.attempts_ms, now_ms, words) or Verdict(True, f"generation {facts.number} is {words}")


# ---------------------------------------------------------------- landed batches


def landed(facts: BatchFacts | None, marked: bool, ttl: Cleaning, now_ms: int) -> Verdict:
    """What is left of `landed/<batch>` once its files have moved on. `marked`: its record in `hwm/` is there."""
    if facts is None:
        return _odd("the ledger has no such batch: it may have lost a commit")
    if facts.state != LANDED:
        return _odd(f"the batch is {facts.state} in the ledger") if facts.state == ABANDONED else _keep(facts.state)
    if facts.newest:
        return _keep("it is the newest batch")
    if not facts.side_moved:
        return _keep("its late and dirty files are not in their tables yet")
    if facts.unpublished:
        return _keep(f"{len(facts.unpublished)} of its windows are not published yet")
    if not marked:
        return _odd("its high-water mark is gone: this directory alone still says that it landed")
    return _old(facts.landed_ms, ttl.landed_ms, now_ms, "landed") or Verdict(True, "each of its rows is in the tables")


def landed_files(manifest: Iterable[str], listing: Iterable[str], merged: Iterable[str] = ()) -> Verdict:
    """Files of the manifest belong elsewhere by now; what duplicate tasks wrote beside them belongs to no generation.

    `merged`: those of the manifest that stayed here because a merged file of their window holds their rows."""
    named = set(manifest) - set(merged)
    for path in listing:
        if path in named:
            return _odd(f"{path} of its manifest is still there, or there again")
        if path.split("/")[0] not in ("data", "late", "dirty", BOUNDS, RECEIPT, FAILURE):
            return _odd(f"{path} is not ours")
    return Verdict(True, "no file of its manifest is left")


def side_staging(facts: BatchFacts | None, manifest: Iterable[str], listing: Iterable[str]) -> Verdict:
    """`side/<batch>.<kind>`, through which late and dirty files went; paths below it."""
    if facts is None:
        return _odd("the ledger has no such batch: it may have lost a commit")
    if facts.state != LANDED or not facts.side_moved:
        return _keep("its late and dirty files are not in their tables yet")
    if set(manifest) & set(listing):
        return _odd("files of its manifest are still there, or there again")
    return Verdict(True, f"the late and dirty files of batch {facts.batch_id} are in their tables")


# ---------------------------------------------------------------- generations


def assembly(
    found: Assembly,
    facts: GenerationFacts | None,
    manifest: Iterable[str],
    listing: Iterable[str],
    since_ms: int | None,
    ttl: Cleaning,
    now_ms: int,
    merged: Iterable[str] = (),
) -> Verdict:
    """`publish/<window>.<generation>.<epoch>`; `merged`: paths of files whose rows a merged file holds.

    Never while the generation is BUILDING: an overtaken task may have asked for its epoch and move a file here at this
    very moment, and only the next one brings it on."""
    if facts is None:
        return _odd("the ledger has no such generation: it may have lost a commit")
    if found.epoch > facts.epoch:
        return _odd(f"the ledger's epoch of the generation is only {facts.epoch}: it may have lost a commit")
    if facts.state == BUILDING:
        return _keep("the generation is BUILDING")
    if facts.state in (BUILT, SWAPPING) and found.epoch == facts.epoch:
        return _keep(f"the generation is {facts.state} here")
    if facts.state == DISCARDED:
        return discarded(facts, since_ms, ttl, now_ms)
    named, ours = set(manifest), {CERTIFICATE, SUCCESS, GATHERED, DAY, *merged}
    made_here = (f"g{found.number}.", f"m{found.epoch}-")
    for path in listing:
        if path in named:
            return _odd(f"{path} of the generation's manifest lies here")
        if path not in ours and not path.rsplit("/", 1)[-1].startswith(made_here):
            return _odd(f"{path} is not ours")
    return (
        _unsettled(facts)
        or _old(facts.built_ms, ttl.attempts_ms, now_ms, "built")
        or Verdict(True, f"generation {facts.number} is {facts.state}")
    )


def discarded(facts: GenerationFacts, since_ms: int | None, ttl: Cleaning, now_ms: int) -> Verdict:
    """What a rebuild made that was never published: every row of it is in the generation in force, or in Kafka."""
    if facts.state != DISCARDED:
        return _keep(f"the generation is {facts.state}")
    if of_kind(facts.kind).landed:
        return _odd("a window's first generation holds its only copy")
    return (
        _unsettled(facts)
        or _old(since_ms, ttl.generations_ms, now_ms, "discarded")
        or Verdict(True, f"generation {facts.number} was discarded")
    )


def retired(facts: GenerationFacts, keep: int, ttl: Cleaning, now_ms: int) -> Verdict:
    """`keep`: generations of a window to keep, the one in force included."""
    if facts.state != RETIRED:
        return _keep(f"the generation is {facts.state}")
    if facts.current is None or facts.current <= facts.number:
        return _odd("no later generation is in force")
    if facts.newer_retired < keep - 1:
        return _keep(f"the spec keeps {keep} generations")
    return (
        _unsettled(facts)
        or _old(facts.retired_ms, ttl.generations_ms, now_ms, "retired")
        or Verdict(True, f"generation {facts.current} is in force")
    )


def _unsettled(facts: GenerationFacts) -> Verdict | None:
    if facts.blocked:
        return _keep("the window is blocked by an alarm")
    if facts.working:
        return _keep("a generation of the window is at work")
    return _keep("a catalogue change of the window is unanswered") if facts.doubts else None


def retired_place(
    location: str,
    listing: dict[str, int],
    current_location: str,
    current_files: dict[str, int],
    pointing: Iterable[str],
) -> Verdict:
    """R4: what lies at a retired generation's location is compared with the manifest in force, before it is deleted.

    `listing`, `current_files`: path -> bytes, below `location` and `current_location`; `pointing`: locations of the
    window's partitions in the catalogue."""
    if within(current_location, location) or within(location, current_location):
        return _odd(f"the generation in force lies at {current_location}")
    for path, size in current_files.items():
        if listing.get(path) == size:
            return _odd(f"{path} of the generation in force lies here")
    for place in pointing:
        if within(place, location):
            return _odd(f"the catalogue has a partition at {place}")
    return Verdict(True, "nothing in force lies here")


def within(path: str, directory: str) -> bool:
    """Whether `path` is `directory` or lies below it."""
    return join(path).startswith(join(directory) + "/") or join(path) == join(directory)


# ---------------------------------------------------------------- quarantine


def quarantined(
    found: BatchAttempt | Assembly | int,
    batch: BatchFacts | None,
    generation: GenerationFacts | None,
    since_ms: int | None,
    ttl: Cleaning,
    now_ms: int,
) -> Verdict:
    """Keep files that contradicted the ledger until that is settled, and for the spec's time after the last event.

    `since_ms`: the newest event of its batch or window."""
    if isinstance(found, Assembly):
        if generation is None:
            return _odd("the ledger has no such generation: it may have lost a commit")
        settled = generation.state in (CURRENT, RETIRED, DISCARDED) and generation.current is not None
        settled = settled and _unsettled(generation) is None
    else:
        if batch is None:
            return _odd("the ledger has no such batch: it may have lost a commit")
        settled = batch.state == ABANDONED or (
            batch.state == LANDED and batch.side_moved and not batch.unpublished and not batch.newest
        )
    if not settled:
        return _keep("what it belongs to is not settled")
    return _old(since_ms, ttl.quarantine_ms, now_ms, "settled") or Verdict(True, "what it belonged to is settled")
