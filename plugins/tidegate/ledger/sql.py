"""The ledger as one object: pipelines and specs here, batches and windows in their own modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlalchemy import and_, func, select, update
from sqlalchemy.engine import Engine

from tidegate.core.base.errors import LedgerError, LostComparison
from tidegate.core.base.plain import dumps, loads
from tidegate.core.ledger import PipelineRow
from tidegate.core.look.survey import Block
from tidegate.core.spec.pipeline import Fields, Pipeline
from tidegate.ledger import schema
from tidegate.ledger.announcements import SqlAnnouncements
from tidegate.ledger.applies import SqlApplies
from tidegate.ledger.batches import SqlBatches
from tidegate.ledger.blocks import blocks
from tidegate.ledger.clean import SqlCleaning
from tidegate.ledger.completeness import SqlTruths
from tidegate.ledger.copies import SqlCopies
from tidegate.ledger.deliveries import SqlDeliveries
from tidegate.ledger.due import SqlDue
from tidegate.ledger.failovers import SqlFailovers
from tidegate.ledger.log_cut import SqlCuts
from tidegate.ledger.notices import SqlNotices
from tidegate.ledger.pauses import SqlPauses
from tidegate.ledger.reads import SqlReads
from tidegate.ledger.recovery import SqlRecovery
from tidegate.ledger.redrives import SqlRedrives
from tidegate.ledger.reopenings import SqlReopenings
from tidegate.ledger.repairs import SqlRepairs
from tidegate.ledger.replays import SqlReplays
from tidegate.ledger.rollbacks import SqlRollbacks
from tidegate.ledger.schema_changes import SqlSchemaChanges
from tidegate.ledger.specs import SqlSpecs, registered
from tidegate.ledger.store import Part, Store, make_engine, row_of
from tidegate.ledger.totals import SqlTotals
from tidegate.ledger.windows import SqlWindows


class SqlLedger:
    """core.ledger.Ledger on PostgreSQL or SQLite. Cheap to make: it connects at the first call.

    Times of rows and events and the deadlines of intents (UTC ms) are by the database's clock; `now_ms` is instead of
    it, in tests.
    """

    def __init__(self, url: str | Engine, actor: str = "unknown", now_ms: Callable[[], int] | None = None) -> None:
        self.actor = actor
        self.store = Store(make_engine(url) if isinstance(url, str) else url, now_ms, lambda: self.actor)
        self.pipelines = SqlPipelines(self.store)
        self.batches = SqlBatches(self.store)
        self.windows = SqlWindows(self.store)
        self.reads = SqlReads(self.store)
        self.recovery = SqlRecovery(self.store)
        self.cuts = SqlCuts(self.store)
        self.repairs = SqlRepairs(self.store)
        self.cleaning = SqlCleaning(self.store)
        self.redrives = SqlRedrives(self.store)
        self.reopenings = SqlReopenings(self.store)
        self.rollbacks = SqlRollbacks(self.store)
        self.replays = SqlReplays(self.store)
        self.truths = SqlTruths(self.store)
        self.due = SqlDue(self.store)
        self.totals = SqlTotals(self.store)
        self.notices = SqlNotices(self.store)
        self.pauses = SqlPauses(self.store)
        self.announcements = SqlAnnouncements(self.store)
        self.applies = SqlApplies(self.store)
        self.copies = SqlCopies(self.store)
        self.deliveries = SqlDeliveries(self.store)
        self.failovers = SqlFailovers(self.store)
        self.schema_changes = SqlSchemaChanges(self.store)
        self.specs = SqlSpecs(self.store)

    def now_ms(self) -> int:
        with self.store.begin() as c:
            return self.store.read_now(c)

    def close(self) -> None:
        self.store.engine.dispose()


class SqlPipelines(Part):
    def register(self, pipeline: Pipeline, fingerprint: str) -> int:
        for _ in range(3):  # two schedulers may meet a new spec at once: the second one finds it
            try:
                return self._register(pipeline, fingerprint)
            except LostComparison:
                continue
        raise LedgerError(f"could not register the spec of {pipeline.name}: others keep writing it")

    def _register(self, pipeline: Pipeline, fingerprint: str) -> int:
        with self._store.begin() as c:
            return registered(self._store, c, pipeline, fingerprint)

    def spec(self, name: str, version: int) -> Pipeline:
        return loads(Pipeline, self._compiled(name, version))

    def _compiled(self, name: str, version: int) -> str:
        with self._store.begin() as c:
            row = row_of(c, schema.spec_versions, pipeline=name, version=version)
        if row is None:
            raise LedgerError(f"the ledger has no spec version {version} of {name}")
        return str(row.compiled)

    def pin(self, name: str, version: int, fields: Fields) -> Pipeline:
        compiled, t = self._compiled(name, version), schema.spec_versions
        before = loads(Pipeline, compiled)
        if before.sink.fields:
            return before
        after = replace(before, sink=replace(before.sink, fields=fields))
        same = and_(t.c.pipeline == name, t.c.version == version, t.c.compiled == compiled)
        with self._store.begin() as c:
            if c.execute(update(t).where(same).values(compiled=dumps(after))).rowcount:
                self._store.note(c, name, "fields pinned", f"spec {version}", {"fields": len(fields)})
        return self.spec(name, version)  # of the task that was first

    def specs(self, name: str) -> list[Pipeline]:
        t = schema.spec_versions
        with self._store.begin() as c:
            found = list(c.scalars(select(t.c.compiled).where(t.c.pipeline == name).order_by(t.c.version)))
        return [loads(Pipeline, compiled) for compiled in found]

    def newest(self, name: str) -> int:
        t = schema.spec_versions
        with self._store.begin() as c:
            return c.scalar(select(func.max(t.c.version)).where(t.c.pipeline == name)) or 0

    def row(self, name: str) -> PipelineRow | None:
        with self._store.begin() as c:
            row = row_of(c, schema.pipelines, name=name)
        return row and PipelineRow(row.name, row.version, row.next_batch_id, row.topic_id)

    def accept_topic(self, name: str, old: str | None, new: str, why: str) -> None:
        p = schema.pipelines
        with self._store.begin() as c:
            statement = update(p).where(p.c.name == name, p.c.topic_id == old)
            self._store.compare_and_set(
                c, statement.values(topic_id=new, version=p.c.version + 1), f"accepted topic of {name}"
            )
            self._store.note(c, name, "topic accepted", new, {"before": old, "why": why})

    def blocks(self, name: str) -> list[Block]:
        with self._store.begin() as c:
            return list(blocks(c, [name])[name])
