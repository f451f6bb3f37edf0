"""The records in storage (`hwm/`) compared with the ledger: if one is lost, it is rebuilt from the other (R11)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

from tidegate.core.audit.problems import Problem
from tidegate.core.batch.states import ABANDONED
from tidegate.core.files.receipt import FileEntry, manifest_digest
from tidegate.core.look.views import BatchRow, GenerationRow, Pinned
from tidegate.core.restore.record import BatchRecord, GenerationRecord
from tidegate.core.window.cut import window_id

LOST = (
    "restore it from a backup of the filesystem: without it a ledger that loses its newest commits cannot be rebuilt "
    "(tidegate repair --adopt)"
)
DIFFERS = (
    "either the ledger or the file was changed by something else than Tidegate: compare both with their backups, and "
    "restore the one that is wrong"
)


def lost_batch(batch_id: int, path: str) -> Problem:
    """The problem of a lost record: the ledger says that its batch has landed, or was given up."""
    return Problem(f"batch {batch_id}", f"its record {path} is missing", LOST)


def unreadable_batch(batch_id: int, path: str, why: str) -> Problem:
    return Problem(f"batch {batch_id}", f"its record {path} cannot be read: {why}", LOST)


def check_batch(batch: BatchRow, pinned: Pinned | None, record: BatchRecord, path: str) -> Iterator[Problem]:
    """Compare the record of a LANDED or ABANDONED batch; `pinned` is None where the ledger's rows do not make a
    plan."""
    subject = f"batch {batch.batch_id}"
    if pinned is None:
        yield Problem(subject, "the ledger's rows of its plan cannot be read", DIFFERS)
        return
    wrong = list(_of_plan(pinned, record))
    manifest = record.manifest
    if batch.state == ABANDONED:
        if manifest is not None:
            yield Problem(subject, f"ABANDONED in the ledger, but by {path} it has landed", DIFFERS)
            return
    elif manifest is None:
        yield Problem(subject, f"LANDED in the ledger, but by {path} it was given up", DIFFERS)
        return
    else:
        if manifest.nonce != batch.nonce:
            wrong.append("attempt")
        if manifest_digest(manifest.files) != batch.manifest_digest:
            wrong.append("files")
        # what has no rows has no range
        told = {(r.range.partition, r.read, r.data, r.late, r.dirty, r.filtered, r.dropped) for r in manifest.ranges}
        counts = ((r.range.partition, r.balance) for r in batch.ranges if r.balance is not None)
        if told != {(p, b.read, b.data, b.late, b.dirty, b.filtered, b.dropped) for p, b in counts}:
            wrong.append("counts")
    if wrong:
        yield Problem(subject, f"ledger and {path} differ in: {', '.join(wrong)}", DIFFERS)


def _of_plan(pinned: Pinned, record: BatchRecord) -> Iterator[str]:
    """The spec's number is each ledger's own, its fingerprint is not."""
    for name in (field.name for field in fields(record.plan) if field.name != "spec_version"):
        if getattr(pinned.plan, name) != getattr(record.plan, name):
            yield name.removesuffix("_ms")
    if pinned.fingerprint != record.fingerprint:
        yield "spec"


def lost_generation(generation: GenerationRow, folder: str) -> Problem:
    what = f"the record of generation {generation.number} below {folder} is missing"
    return Problem(f"window {window_id(generation.window_ms)}", what, LOST)


def unreadable_generation(generation: GenerationRow, path: str, why: str) -> Problem:
    what = f"{path}, the record of generation {generation.number}, cannot be read: {why}"
    return Problem(f"window {window_id(generation.window_ms)}", what, LOST)


def check_generation(generation: GenerationRow, record: GenerationRecord, path: str) -> Iterator[Problem]:
    """Compare the record of the generation in force, with its files."""
    wrong = [
        name
        for name, ours, theirs in (
            ("window", generation.window_ms, record.window.start_ms),
            ("number", generation.number, record.number),
            ("batches", sorted(generation.batches), sorted(record.batches)),
            ("late batches", sorted(generation.late), sorted(record.late)),
            ("files", _files(generation.files), _files(record.files)),
            ("digest", generation.digest, record.digest),
        )
        if ours != theirs
    ]
    if wrong:
        what = f"generation {generation.number}: ledger and {path} differ in: {', '.join(wrong)}"
        yield Problem(f"window {window_id(generation.window_ms)}", what, DIFFERS)


def _files(files: Iterable[FileEntry]) -> str:
    return manifest_digest(files)
