"""Run one Spark job on a plan and turn its last words into an error that says what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from tidegate.core.base.errors import (
    AttemptSpoilt,
    BatchRefused,
    JobFailed,
    JobKilled,
    PathExists,
    PathMissing,
    ReplayRefused,
    TidegateError,
)
from tidegate.core.base.plain import UnknownFields, loads, to_plain
from tidegate.core.batch.jobs import ApplyPlan, IngestPlan, JobPlan, MergePlan, ReplayPlan, RewritePlan, dumps_plan
from tidegate.core.batch.launcher import Launcher
from tidegate.core.batch.refusal import FieldsRefused, RefusalKind
from tidegate.core.batch.rules_version import COPYING_RULES
from tidegate.core.files.merge import Merge
from tidegate.core.files.receipt import Failure, Receipt, ReplayReceipt
from tidegate.core.mirror import recut
from tidegate.core.mirror.jobs import ApplyReceipt
from tidegate.core.target.paths import FAILURE, RECEIPT, join
from tidegate.core.window.states import BuildingGeneration
from tidegate.workflow.base import overflow, tables
from tidegate.workflow.base.context import Context

T = TypeVar("T")
P = TypeVar("P", bound=RewritePlan)


def run_job(ctx: Context, job: IngestPlan, plan_path: str) -> None:
    """Write the plan and run the job to its end. Raises JobFailed (retry) or BatchRefused (a human is needed).

    A job that reports an error although its receipt is complete has done its work: the receipt decides.
    """
    job = overflow.with_known(ctx, job)
    error = _run(ctx, ctx.launcher, job, plan_path)
    if read_receipt(ctx, job.attempt_dir) is None:
        raise last_words(ctx, job, error or _no_receipt(job)) from error
    if error is not None:
        ctx.say(f"the job ended with an error after its receipt was complete: {error}")


def _run(ctx: Context, launcher: Launcher, job: JobPlan, plan_path: str) -> JobFailed | None:
    """Write the plan and run the job to its end; how it failed, if it did."""
    try:
        ctx.storage.write_new(plan_path, dumps_plan(job).encode())
    except PathExists:
        pass  # the same attempt, tried again: attempt names are unique
    try:
        launcher.run(plan_path)
    except JobFailed as e:
        return e
    return None


def run_to_its_end(ctx: Context, job: JobPlan, plan_path: str) -> JobFailed | BatchRefused | None:
    """Write the plan and run the job; how it failed in its own words, if it did. What it has left is the caller's to
    look at."""
    error = _run(ctx, ctx.launcher, job, plan_path)
    return None if error is None else last_words(ctx, job, error)


def _no_receipt(job: JobPlan) -> JobFailed:
    return JobFailed(f"the job of attempt {job.attempt} left no receipt")


def run_replay(ctx: Context, job: ReplayPlan, plan_path: str) -> dict[int, ReplayReceipt | TidegateError]:
    """Write the plan and run the job; by window (its start), its receipt, or why it has none: BatchRefused (a human is
    needed) or JobFailed (retry). What is complete counts, however the job ended."""
    job = overflow.with_known(ctx, job)
    error = _run(ctx, ctx.launcher, job, plan_path) or _no_receipt(job)
    found: dict[int, ReplayReceipt | TidegateError] = {}
    for target in job.targets:
        mine = replace(job, attempt=target.attempt, attempt_dir=target.attempt_dir)
        try:
            receipt = receipt_of(ctx, ReplayReceipt, mine)
        except JobFailed as e:
            found[target.window_ms] = e
            continue
        if receipt is None:
            own = last_words(ctx, mine, error)
            found[target.window_ms] = last_words(ctx, job, error) if own is error else own
        else:
            found[target.window_ms] = receipt
    return found


def rewrite_plan(
    ctx: Context,
    kind: type[P],
    generation: BuildingGeneration,
    attempt: str,
    attempt_dir: str,
    merges: tuple[Merge, ...],
    **more: Any,
) -> P:
    """The plan of a job that makes files of a generation out of files that are there."""
    return kind(
        attempt=attempt,
        attempt_dir=attempt_dir,
        pipeline=to_plain(tables.pinned(ctx)),
        topic=ctx.pipeline.source.topic,
        nonce=generation.nonce,
        epoch=generation.epoch,
        spec_version=ctx.spec_version,
        rules_version=COPYING_RULES,
        window_ms=generation.window.start_ms,
        merges=merges,
        **more,
    )


def merge_plan(ctx: Context, generation: BuildingGeneration, merges: tuple[Merge, ...]) -> MergePlan:
    """The plan of a job that writes each of `merges` into the generation's merge directory."""
    key = (generation.window.start_ms, generation.number, generation.epoch, generation.nonce)
    name, directory = ctx.layout.merge_name(*key), ctx.layout.merge_attempt(*key)
    return rewrite_plan(ctx, MergePlan, generation, name, directory, merges)


def rewritten(ctx: Context, kind: type[T], job: RewritePlan, plan_path: str, stays: str = "") -> T:
    """The receipt of a job that rewrites files: run beside the control plane if it is small. The receipt decides.

    Raises JobFailed (retry), ReplayRefused (a human is needed; `stays`: what to say where the job gives no advice).
    Without `stays` there is no second try: what the launcher raises."""
    size = sum(s.entry.bytes for m in (*job.merges, *job.late) for s in m.sources)
    error = _run(ctx, _launcher_of(ctx, size), job, plan_path) or _no_receipt(job)
    receipt = receipt_of(ctx, kind, job)
    if receipt is not None:
        return receipt
    words = last_words(ctx, job, error) if stays else error
    if isinstance(words, BatchRefused):
        raise ReplayRefused(words.args[0], advice=words.advice or stays) from error
    raise words from error


def applied(ctx: Context, job: ApplyPlan, plan_path: str) -> ApplyReceipt:
    """The receipt of a job that merges events into a keyed table: run beside the control plane if it is small.

    The receipt decides, and must add up. Raises JobFailed (retry), AttemptSpoilt (retry), BatchRefused (a human is
    needed; `core.batch.refusal` says of what kind)."""
    size = sum(f.bytes for f in job.events) + sum(f.bytes for b in job.base for f in b.files)
    error = _run(ctx, _launcher_of(ctx, size), job, plan_path) or _no_receipt(job)
    receipt = receipt_of(ctx, ApplyReceipt, job)
    if receipt is None:
        raise last_words(ctx, job, error) from error
    listing = {f.path: f.bytes for f in ctx.storage.list_files(job.attempt_dir) or ()}
    errors = recut.errors(job, receipt, listing)
    if errors:
        advice = "wait for the next try: it merges the same batches again; if it fails too, check the file system"
        raise AttemptSpoilt(f"the receipt of {job.attempt} does not add up: {'; '.join(errors[:3])}", advice=advice)
    return receipt


def _launcher_of(ctx: Context, size: int) -> Launcher:
    """Beside the control plane for so few bytes, else Spark's."""
    here = size <= ctx.pipeline.archive.merge.local_size
    return ctx.local_launcher if here and ctx.local_launcher is not None else ctx.launcher


def receipt_of(ctx: Context, kind: type[T], job: JobPlan) -> T | None:
    """What a job has left. Raises JobFailed for a receipt that cannot be read."""
    path = join(job.attempt_dir, RECEIPT)
    try:
        return loads(kind, ctx.storage.read(path))
    except PathMissing:
        return None
    except ValueError as e:
        raise JobFailed(f"{path} cannot be read: {e}") from None


def last_words(ctx: Context, job: JobPlan, error: JobFailed) -> JobFailed | BatchRefused:
    """What the job says of its end, where it could; else `error`."""
    try:
        failure = loads(Failure, ctx.storage.read(join(job.attempt_dir, FAILURE)))
    except PathMissing:
        return _harmless(job, error) if isinstance(error, JobKilled) else error
    except ValueError as e:
        return JobFailed(f"{error.args[0]} (and its {FAILURE} cannot be read: {e})")
    where = ", ".join(
        f"{name} {value}"
        for name, value in (
            ("partition", failure.partition),
            ("offset", failure.offset),
            ("field", failure.field),
        )
        if value is not None
    )
    message = f"attempt {job.attempt}: {failure.what}" + (f" ({where})" if where else "")
    if failure.retry:
        return JobFailed(message, advice=failure.advice)
    kind = RefusalKind.JOB if failure.kind is None else RefusalKind.known(failure.kind, RefusalKind.JOB)
    refused = FieldsRefused if failure.columns else BatchRefused
    words = refused(message, advice=failure.advice, kind=kind, partition=failure.partition, offset=failure.offset)
    if isinstance(words, FieldsRefused):
        words.columns = failure.columns
    return words


def _harmless(job: JobPlan, error: JobKilled) -> JobKilled:
    """What a person asks who reads that a job was killed."""
    what, *words = str(error.args[0]).split("; its last words:", 1)
    of = "what readers see stays, the next try builds it anew"
    if isinstance(job, IngestPlan) and job.epoch:
        of = f"the next try writes batch {job.batch_id} anew as epoch {job.epoch + 1}"
    return JobKilled("; its last words:".join([f"{what}: nothing is lost, {of}", *words]), advice=error.advice)


def read_receipt(ctx: Context, attempt_dir: str) -> Receipt | None:
    """The receipt is written last and appears whole: if it is there, the attempt is complete.

    Raises AttemptSpoilt for one that cannot be read."""
    path = join(attempt_dir, RECEIPT)
    try:
        return loads(Receipt, ctx.storage.read(path))
    except PathMissing:
        return None
    except ValueError as e:
        raise _unreadable(path, e) from None


def _unreadable(path: str, error: ValueError) -> AttemptSpoilt:
    what = f"{path} cannot be read: {error}"
    if not isinstance(error, UnknownFields):
        return AttemptSpoilt(what)
    advice = "another version of tidegate wrote it: install the same one where jobs run and where tasks run"
    return AttemptSpoilt(what, advice=f"{advice}, then clear the task", retry=False)
