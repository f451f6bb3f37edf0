"""A replay's dry run: everything but publishing. The rows are read, decoded, written, compared, and deleted again.

The ledger gets an event and nothing else. Files of a dry run that died are cleaned by age, like any attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from tidegate.core.base.errors import StorageError, TidegateError
from tidegate.core.base.instants import iso
from tidegate.core.files.receipt import CHECKSUM_MODULUS, FileEntry, content_digest
from tidegate.core.look.overdue import backfill
from tidegate.core.replay.origin import AUTO, MOST_WINDOWS
from tidegate.core.spec.evolution import changes
from tidegate.core.spec.pipeline import Pipeline, table_columns
from tidegate.core.target.paths import join
from tidegate.core.window.states import FORGOTTEN, PublishedGeneration, WindowKey
from tidegate.workflow.base import preflight
from tidegate.workflow.base.context import Context, guard
from tidegate.workflow.base.in_force import in_force
from tidegate.workflow.generation import rebuild
from tidegate.workflow.generation.origin import Work
from tidegate.workflow.generation.rebuild import Rebuilt

SAME, DIFFERS, REFUSED, FAILED = "same", "differs", "refused", "failed"
"""What a replay would give: what stands there, something else, nothing, or nothing yet because a try failed."""


@dataclass(frozen=True)
class Content:
    """`checksum` does not depend on the order of rows or on how they are cut into files; hexadecimal."""

    rows: int
    files: int
    checksum: str


@dataclass(frozen=True, kw_only=True)
class Rehearsed:
    """`generation` is the one in force. `columns`: what would change about them, in words. `copied`: rows that came
    from files and not from Kafka."""

    window: WindowKey
    what: str
    generation: int | None = None
    now: Content | None = None
    then: Content | None = None
    columns: tuple[str, ...] = ()
    copied: int = 0
    why: str = ""
    advice: str = ""


def rehearse(
    ctx: Context,
    windows: Iterable[WindowKey],
    wanted: str = AUTO,
    *,
    told: Callable[[Rehearsed], None] = lambda found: None,
) -> list[Rehearsed]:
    """What a replay of each window would give, in order. Publishes nothing; its directories are deleted at the end.

    Raises SpecError, StorageAhead, LedgerError, SourceUnavailable."""
    guard(ctx)
    preflight.check_publications(ctx)
    keys, found = list(windows), list[Rehearsed]()
    for at in range(0, len(keys), MOST_WINDOWS):
        for one in _group(ctx, keys[at : at + MOST_WINDOWS], wanted):
            told(one)
            found.append(one)
    return found


def _group(ctx: Context, keys: Sequence[WindowKey], wanted: str) -> list[Rehearsed]:
    current = {key: in_force(ctx, key) for key in keys}
    run = ctx.nonce()
    works = [_work(ctx, g, run) for g in current.values() if g is not None]
    for work in works:
        ctx.ledger.replays.rehearsed(ctx.name, work.window, work.attempt)
    try:
        results = rebuild.read_again(ctx, works, wanted) if works else {}
    finally:
        # a job may have taken further directories of the same window, where it was tried in halves
        clear(ctx, {w.attempt.removesuffix(w.nonce) for w in works})
    return [_told(ctx, key, current[key], results) for key in keys]


def _work(ctx: Context, current: PublishedGeneration, run: str) -> Work:
    nonce = ctx.nonce()
    name = ctx.layout.rehearsal_name(current.window.start_ms, run, nonce)
    return Work(window=current.window, batches=current.batches, late=current.late, attempt=name, nonce=nonce)


def clear(ctx: Context, ours: Collection[str]) -> None:
    """Delete attempts and plans of a dry run, by what their names begin with; the cleaner finds what stays."""
    for folder in (ctx.layout.attempts(), ctx.layout.plans()):
        try:
            for name in ctx.storage.list_names(folder) or []:
                if any(name.startswith(prefix) for prefix in ours):
                    ctx.storage.delete(join(folder, name))
        except StorageError as e:
            ctx.say(f"what the dry run wrote is left to the cleaner: {e}")


def _told(
    ctx: Context,
    key: WindowKey,
    current: PublishedGeneration | None,
    results: dict[int, Rebuilt | TidegateError],
) -> Rehearsed:
    if current is None:
        why = f"{ctx.name} {iso(key.start_ms)} was never published: there is nothing to replay"
        return Rehearsed(window=key, what=REFUSED, why=why, advice=f"publish it first: {backfill(ctx.name, key, key)}")
    result = results[key.start_ms]
    base = Rehearsed(
        window=key, what=SAME, generation=current.number, now=_content(current.files), columns=_columns(ctx, current)
    )
    if isinstance(result, TidegateError):
        what = FAILED if result.retry else REFUSED
        return replace(base, what=what, why=str(result.args[0]).splitlines()[0], advice=result.advice)
    what = SAME if content_digest(result.files) == current.digest else DIFFERS
    return replace(base, what=what, then=_content(result.files), copied=result.copied)


def _content(files: Sequence[FileEntry]) -> Content:
    checksum = sum(f.checksum for f in files) % CHECKSUM_MODULUS
    return Content(sum(f.rows for f in files), len(files), f"{checksum:016x}")


def _columns(ctx: Context, current: PublishedGeneration) -> tuple[str, ...]:
    """Against the columns that the generation in force was made with, as far as that is known."""
    current = _made(ctx, current)
    version = current.spec_version
    if version == FORGOTTEN:
        return ()
    if version is None and current.batches:
        batches = (ctx.ledger.batches.get(ctx.name, i) for i in current.batches)
        version = max(b.plan.spec_version for b in batches)
    if version is None or version == ctx.spec_version:
        return ()
    before = ctx.ledger.pipelines.spec(ctx.name, version)
    found = changes(table_columns(before), table_columns(ctx.pipeline), ctx.pipeline.sink.format).words()
    return (*found, *_decoded_otherwise(before, ctx.pipeline))


def _made(ctx: Context, generation: PublishedGeneration) -> PublishedGeneration:
    """The one that a rollback's rows were made for."""
    told = ctx.ledger.rollbacks.of(ctx.name, generation.window, generation.number)
    if told is None:
        return generation
    earlier = ctx.ledger.windows.generation(ctx.name, generation.window, told.number)
    return _made(ctx, earlier) if isinstance(earlier, PublishedGeneration) else generation


def _decoded_otherwise(before: Pipeline, now: Pipeline) -> list[str]:
    old = {c.name: c for c in before.columns}
    both = [(old[c.name], c) for c in now.columns if c.name in old]
    return [f"column {b.name} comes from somewhere else now" for a, b in both if (a.path, a.expr) != (b.path, b.expr)]
