"""Specs of pipelines as consumers find them: in the ledger, without anybody's YAML."""

from __future__ import annotations

import json

from sqlalchemy import func, insert, select
from sqlalchemy.engine import Connection

from tidegate.core.base.plain import dumps, loads
from tidegate.core.spec.pipeline import Pipeline
from tidegate.ledger import schema, schema_changes
from tidegate.ledger.store import Part, Store, matched, row_of, scalar

b, s = schema.batches, schema.spec_versions


class SqlSpecs(Part):
    """workflow.awaiting.SpecsInForce."""

    def spec(self, name: str) -> Pipeline | None:
        with self._store.begin() as c:
            newest = select(b.c.spec_version).where(b.c.pipeline == name).order_by(b.c.batch_id.desc()).limit(1)
            version = c.scalar(newest) or _newest(c, name)
            row = row_of(c, s, pipeline=name, version=version)
        return row and loads(Pipeline, row.compiled)

    def pipelines(self) -> list[str]:
        with self._store.begin() as c:
            return list(c.scalars(select(schema.pipelines.c.name).order_by(schema.pipelines.c.name)))

    def of_table(self, table: str) -> list[str]:
        newest = select(s.c.pipeline, func.max(s.c.version).label("version")).group_by(s.c.pipeline).subquery()
        statement = select(s.c.pipeline, s.c.compiled).select_from(s.join(newest, matched(s, newest, "version")))
        likely = statement.where(s.c.compiled.contains(json.dumps(table), autoescape=True))
        with self._store.begin() as c:
            found = c.execute(likely.order_by(s.c.pipeline)).all()
        return [row.pipeline for row in found if json.loads(row.compiled)["sink"]["table"] == table]


def registered(store: Store, c: Connection, pipeline: Pipeline, fingerprint: str) -> int:
    """The version of the spec, in this transaction: a new one if the ledger has none of this fingerprint. Columns that
    were accepted are remembered too: a spec that storage gives back to a restored ledger may be all that tells them.

    Raises LostComparison if another task has registered one meanwhile."""
    name, now = pipeline.name, store.now_ms()
    schema_changes.remember(store, c, pipeline)
    known = row_of(c, s, pipeline=name, fingerprint=fingerprint)
    if known is not None:
        return int(known.version)
    if row_of(c, schema.pipelines, name=name) is None:
        c.execute(insert(schema.pipelines).values(name=name, version=1, next_batch_id=1, created_ms=now))
    version = (_newest(c, name) or 0) + 1
    values = {"pipeline": name, "version": version, "fingerprint": fingerprint, "compiled": dumps(pipeline)}
    c.execute(insert(s).values(**values, created_ms=now))
    store.note(c, name, "spec registered", f"spec {version}", {"fingerprint": fingerprint})
    return version


def _newest(c: Connection, name: str) -> int | None:
    return scalar(c, select(func.max(s.c.version)).where(s.c.pipeline == name), int)
