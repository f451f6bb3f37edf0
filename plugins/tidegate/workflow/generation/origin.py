"""Which records and files a window is rebuilt from: gathered here, decided in core.replay.origin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tidegate.core.base.errors import ReplayRefused, SourceError, SourceUnavailable
from tidegate.core.base.instants import iso
from tidegate.core.base.offsets import Interval, OffsetRange
from tidegate.core.batch.jobs import Copy
from tidegate.core.batch.states import LandedBatch, Plan
from tidegate.core.failover.own_records import sites_read
from tidegate.core.files.landed import LandedFile, OwedSpan
from tidegate.core.files.merge import Source
from tidegate.core.files.receipt import DATA, FileEntry
from tidegate.core.files.second_reading import listed
from tidegate.core.replay.origin import FILES, KAFKA, Away, Refusal, Span, decide, gone, lost, needing_decoding
from tidegate.core.source.port import LogState
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.paths import join
from tidegate.core.target.tables import told_columns
from tidegate.core.window.kinds import of_kind
from tidegate.core.window.states import FORGOTTEN, PublishedGeneration, WindowKey
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.in_force import in_force
from tidegate.workflow.base.listing import present
from tidegate.workflow.base.places import landed_path
from tidegate.workflow.base.renames import MovedOn
from tidegate.workflow.generation import reread
from tidegate.workflow.source import log_cut

Key = tuple[int, int]
"""(batch, Kafka partition)"""


@dataclass(frozen=True, kw_only=True)
class Work:
    """One window that is read again, for a generation or for a dry run. `attempt` names its directory in `tmp/`.

    `removed`: intervals of offsets at which Kafka gave nothing any more, by (batch, partition): found by a reading.
    `unpublished`: it has no generation in force, only landed files, some of which are lost."""

    window: WindowKey
    batches: tuple[int, ...]
    late: tuple[int, ...]
    attempt: str
    nonce: str
    epoch: int = 0
    removed: Mapping[Key, tuple[Interval, ...]] = field(default_factory=dict)
    unpublished: bool = False


@dataclass(frozen=True)
class Choice:
    """`origins`: KAFKA or FILES for each span that is owed. `copies`: the files, for the latter."""

    work: Work
    owed: tuple[OwedSpan, ...]
    origins: Mapping[Key, str]
    copies: tuple[Copy, ...] = ()

    @property
    def spans(self) -> list[OwedSpan]:
        """Spans that are read again."""
        return [s for s in self.owed if self.origins[s.batch_id, s.partition] == KAFKA]

    @property
    def copied(self) -> list[OwedSpan]:
        return [s for s in self.owed if self.origins[s.batch_id, s.partition] == FILES]


class Chooser:
    """Choices for windows that are read together: what several of them need is asked once."""

    def __init__(self, ctx: Context, wanted: str) -> None:
        self._ctx, self._wanted = ctx, wanted
        self.batches: dict[int, LandedBatch] = {}
        self._specs: dict[int, Pipeline] = {}
        self._missing: dict[int | None, tuple[str, ...]] = {}
        self._topic: tuple[LogState | None, str] | None = None
        self._cut: dict[int, dict[int, int]] = {}
        self._known_cuts: list[tuple[str, int, int, int]] | None = None
        self._sites: dict[str, str] | None = None

    def choose(self, work: Work) -> Choice:
        """Raises ReplayRefused for a window that cannot be rebuilt, SourceUnavailable."""
        owed = self._owed(work)
        for s in owed:
            self._batch(s.batch_id)
        known = _Landed(self._ctx, work) if work.unpublished else _Files(self._ctx, work)
        spans = self._with_files([self._span(work, s) for s in owed], known)
        found = decide(spans, self._wanted, self._ctx.pipeline.kafka_columns)
        if isinstance(found, Refusal):
            raise ReplayRefused(f"{iso(work.window.start_ms)}: {found.reason}", advice=found.advice)
        taken = [s for s in owed if found[s.batch_id, s.partition] == FILES]
        return Choice(work, owed, found, known.copies(taken))

    def _owed(self, work: Work) -> tuple[OwedSpan, ...]:
        """By the ledger's totals; where the rows in force are of a second reading, by their manifest."""
        again = None if work.unpublished else reread.owed(self._ctx, work.window)
        if again is not None:
            return again
        return tuple(self._ctx.ledger.windows.owed(self._ctx.name, work.window, work.batches, work.late))

    def topic(self) -> LogState | None:
        """The topic as it is now, asked once; None if it is missing. Raises SourceUnavailable."""
        if self._topic is None:
            name = self._ctx.pipeline.source.topic
            try:
                self._topic = self._ctx.log(name), ""
            except SourceUnavailable:
                raise
            except SourceError as e:
                self._topic = None, str(e.args[0])
        return self._topic[0]

    def spec(self, version: int) -> Pipeline:
        if version not in self._specs:
            self._specs[version] = self._ctx.ledger.pipelines.spec(self._ctx.name, version)
        return self._specs[version]

    def _batch(self, batch_id: int) -> LandedBatch:
        if batch_id not in self.batches:
            batch = self._ctx.ledger.batches.get(self._ctx.name, batch_id)
            assert isinstance(batch, LandedBatch)
            self.batches[batch_id] = batch
        return self.batches[batch_id]

    def _span(self, work: Work, owed: OwedSpan) -> Span:
        plan = self._batch(owed.batch_id).plan
        why: str | None = None
        kept_from, away = None, None
        if not plan.is_redrive and self._wanted != FILES:
            now = self.topic()
            wanted = OffsetRange(plan.topic, owed.partition, owed.min_offset, owed.max_offset + 1)
            cut = self._cuts(plan, now).get(owed.partition)
            silence = self._topic[1] if self._topic else ""
            away = self._away(plan)
            why = gone(wanted, owed.batch_id, plan.topic_id, now, silence, cut, away)
            if now is not None and not now.is_another(plan.topic_id) and owed.partition in now.partitions:
                kept_from = now.partitions[owed.partition].log_start
            removed = work.removed.get((owed.batch_id, owed.partition))
            if why is None and removed:
                why = f"batch {owed.batch_id}: partition {owed.partition} has nothing any more at {listed(removed)}"
        redriven = plan.is_redrive
        return Span(owed=owed, gone=why, missing=(), lost=None, kept_from=kept_from, redriven=redriven, away=away)

    def _away(self, plan: Plan) -> Away | None:
        source = self._ctx.pipeline.source
        if self._sites is None:
            self._sites = sites_read(self._ctx.ledger.failovers.history(self._ctx.name)) if source.sites else {}
        site = self._sites.get(plan.topic_id, source.site)
        return None if site == source.site else Away(site, source.site, self._ctx.name)

    def _cuts(self, plan: Plan, now: LogState | None) -> dict[int, int]:
        """First offsets by partition at which the log has another record than the batch read: cuts that are
        remembered, and those that were not noticed yet."""
        if now is None or now.is_another(plan.topic_id):
            return {}
        if plan.batch_id not in self._cut:
            found = log_cut.under(self._ctx, plan, now)
            if self._known_cuts is None:
                self._known_cuts = log_cut.known(self._ctx)
            for topic_id, partition, after_batch, offset in self._known_cuts:
                if topic_id == plan.topic_id and after_batch >= plan.batch_id:
                    found[partition] = min(offset, found.get(partition, offset))
            self._cut[plan.batch_id] = found
        return self._cut[plan.batch_id]

    def _with_files(self, spans: list[Span], files: _Files | _Landed) -> list[Span]:
        """Each that may come from files is compared with them: with those that have to, all that cannot be told apart
        from them."""
        if self._wanted == KAFKA:
            return spans
        every = self._wanted == FILES or (not self._ctx.pipeline.kafka_columns and any(s.gone for s in spans))
        return [self._with_file(s, files) if every or s.gone else s for s in spans]

    def _with_file(self, span: Span, files: _Files | _Landed) -> Span:
        if files.unnamed is not None:
            return replace(span, unnamed=files.unnamed)
        plan = self._batch(span.owed.batch_id).plan
        missing = self._missing_columns(files.decoder(plan.spec_version))
        return replace(span, missing=missing, lost=files.lost(span.owed))

    def _missing_columns(self, version: int | None) -> tuple[str, ...]:
        """Columns that rows of files lack which a spec of this version has decoded. Where it is not known which, all of
        the ledger's have to agree."""
        if version not in self._missing:
            specs = [self.spec(version)] if version is not None else self._ctx.ledger.pipelines.specs(self._ctx.name)
            self._missing[version] = needing_decoding(self._ctx.pipeline, specs)
        return self._missing[version]


class _Files:
    """The files in force of a window, looked at only if rows are to come from them."""

    def __init__(self, ctx: Context, work: Work) -> None:
        self._ctx, self._work = ctx, work
        self._current: PublishedGeneration | None = None
        self._lost: list[FileEntry] | None = None

    @property
    def current(self) -> PublishedGeneration:
        if self._current is None:
            self._current = in_force(self._ctx, self._work.window)
            if self._current is None:
                raise MovedOn
        return self._current

    @property
    def unnamed(self) -> int | None:
        """The generation in force, if it is unknown which specs decoded its rows."""
        return self.current.number if self.current.spec_version == FORGOTTEN else None

    def decoder(self, batch_version: int) -> int | None:
        """Version of the spec that decoded the rows of a batch with this one; None if that is not known."""
        return batch_version if of_kind(self.current.kind).landed else self.current.spec_version

    def lost(self, owed: OwedSpan) -> str | None:
        path = lost(owed, self._lost_files())
        return None if path is None else f"{join(self.current.location, path)} of the generation in force"

    def _lost_files(self) -> list[FileEntry]:
        if self._lost is None:
            named = [f.path for f in self.current.files]
            there = present(self._ctx.storage, self.current.location, named)
            self._lost = [f for f in self.current.files if there.get(f.path) != f.bytes]
        return self._lost

    def copies(self, spans: Iterable[OwedSpan]) -> tuple[Copy, ...]:
        spans = tuple(spans)
        if not spans:
            return ()
        pipeline, start = self._ctx.pipeline, self._work.window.start_ms
        wanted = tuple(sorted((s.batch_id, s.partition) for s in spans)) if pipeline.kafka_columns else None
        columns = told_columns(pipeline, DATA)
        return tuple(
            Copy(start, Source(0, f, (join(self.current.location, f.path),)), wanted, columns)
            for f in self.current.files
            if wanted is None or any(lost(s, [f]) for s in spans)
        )


class _Landed:
    """The landed files of a window that was never published: those that are whole may give what Kafka has not."""

    unnamed = None

    def __init__(self, ctx: Context, work: Work) -> None:
        self._ctx, self._work = ctx, work
        self._found: list[tuple[LandedFile, tuple[str, ...]]] | None = None

    def decoder(self, batch_version: int) -> int | None:
        return batch_version

    def lost(self, owed: OwedSpan) -> str | None:
        files = {f.entry.path: f for f, places in self._files() if f.batch_id == owed.batch_id and not places}
        path = lost(owed, (f.entry for f in files.values()))
        return None if path is None else join(self._ctx.landed(owed.batch_id), path)

    def _files(self) -> list[tuple[LandedFile, tuple[str, ...]]]:
        """Each with the places where it is whole: none for one that is lost."""
        if self._found is None:
            ctx, work, start = self._ctx, self._work, self._work.window.start_ms
            landed = ctx.ledger.windows.landed_files(ctx.name, work.window, work.batches)
            lower = [] if ctx.layout.in_place else [ctx.layout.assembly(start, 1, e) for e in range(1, work.epoch)]
            homes = [*(ctx.landed(i) for i in sorted({f.batch_id for f in landed})), *lower]
            size = {join(d, f.path): f.bytes for d in homes for f in ctx.storage.list_files(d) or []}
            self._found = []
            for item in landed:
                named = join(ctx.landed(item.batch_id), item.entry.path)
                places = (named, *(join(d, landed_path(ctx, item)) for d in lower))
                self._found.append((item, tuple(p for p in places if size.get(p) == item.entry.bytes)))
        return self._found

    def copies(self, spans: Iterable[OwedSpan]) -> tuple[Copy, ...]:
        found, pipeline = [], self._ctx.pipeline
        wanted: dict[int, list[Key]] = {}
        for s in spans:
            wanted.setdefault(s.batch_id, []).append((s.batch_id, s.partition))
        for item, places in self._files():
            if item.batch_id not in wanted or not places:
                continue  # a lost file has no rows of these spans, else they would be refused
            batch = self._ctx.ledger.batches.get(self._ctx.name, item.batch_id)
            columns = told_columns(self._ctx.ledger.pipelines.spec(self._ctx.name, batch.plan.spec_version), DATA)
            rows = tuple(sorted(wanted[item.batch_id])) if pipeline.kafka_columns else None
            found.append(Copy(self._work.window.start_ms, Source(0, item.entry, places), rows, columns))
        return tuple(found)


def renewed(ctx: Context, work: Work, **changes: object) -> Work:
    """The same window in a directory that no task has written to."""
    nonce = ctx.nonce()
    name = work.attempt.removesuffix(work.nonce) + nonce
    return replace(work, attempt=name, nonce=nonce, **changes)  # type: ignore[arg-type]
