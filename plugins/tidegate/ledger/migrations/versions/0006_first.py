"""The ledger's schema of 0.1.0, the first release. Revisions before this one were of no release."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = None

NAME, TEXT, BOOLEAN = sa.String(200), sa.Text(), sa.Boolean()
INTEGER, BIG = sa.Integer(), sa.BigInteger()
ROWID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "archive_notes",
        *_required(NAME, "pipeline"),
        *_required(TEXT, "content"),
        sa.PrimaryKeyConstraint("pipeline"),
    )
    op.create_table(
        "batch_files",
        *_required(NAME, "pipeline"),
        *_required(BIG, "batch_id"),
        *_optional(BIG, "window_ms"),
        *_required(TEXT, "path"),
        *_required(sa.String(8), "kind"),
        *_required(TEXT, "partition_values"),
        *_required(BIG, "rows", "bytes"),
        *_optional(BIG, "min_event_ms", "max_event_ms"),
        *_required(sa.String(20), "checksum"),
        *_required(TEXT, "partitions"),
        sa.PrimaryKeyConstraint("pipeline", "batch_id", "path"),
    )
    op.create_index("ix_batch_files_window", "batch_files", ["pipeline", "window_ms", "batch_id"])
    op.create_table(
        "batch_partitions",
        *_required(NAME, "pipeline"),
        *_required(BIG, "batch_id"),
        *_required(INTEGER, "partition"),
        *_required(BIG, "planned_end", "log_start", "last_stable_offset", "high_watermark"),
        *_required(BOOLEAN, "drained"),
        *_optional(BIG, "max_event_ms", "advanced_ms", "open_transaction_since_ms", "timed_ms"),
        *_optional(INTEGER, "leader_epoch"),
        sa.PrimaryKeyConstraint("pipeline", "batch_id", "partition"),
    )
    op.create_table(
        "batch_ranges",
        *_required(NAME, "pipeline"),
        *_required(BIG, "batch_id"),
        *_required(INTEGER, "partition"),
        *_required(BIG, "start", "end"),
        *_optional(BIG, "read", "data", "late", "dirty", "filtered", "dropped"),
        *_optional(TEXT, "gaps"),
        *_optional(BIG, "rerouted", "bytes", "max_kafka_ms"),
        sa.PrimaryKeyConstraint("pipeline", "batch_id", "partition"),
    )
    op.create_index("ix_batch_ranges_offsets", "batch_ranges", ["pipeline", "partition", "start"])
    op.create_table(
        "batch_sources",
        *_required(NAME, "pipeline"),
        *_required(BIG, "batch_id", "source"),
        *_required(INTEGER, "partition"),
        *_required(BIG, "rows", "min_offset", "max_offset"),
        sa.PrimaryKeyConstraint("pipeline", "batch_id", "source", "partition"),
    )
    op.create_table(
        "batch_window_totals",
        *_required(NAME, "pipeline"),
        *_required(BIG, "window_ms", "batch_id"),
        *_required(sa.String(8), "kind"),
        *_required(INTEGER, "partition"),
        *_required(BIG, "rows", "min_offset", "max_offset"),
        sa.Column("rerouted", BIG, nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("pipeline", "window_ms", "batch_id", "kind", "partition"),
    )
    _partial_index("ix_totals_late", "batch_window_totals", "kind = 'late'", "pipeline", "window_ms")
    op.create_table(
        "batches",
        *_required(NAME, "pipeline"),
        *_required(BIG, "batch_id"),
        *_required(sa.String(16), "state"),
        *_required(INTEGER, "epoch"),
        *_required(sa.String(32), "nonce"),
        *_required(INTEGER, "revision", "spec_version", "rules_version"),
        *_required(sa.String(249), "topic"),
        *_required(sa.String(100), "topic_id"),
        *_required(BIG, "clock_ms"),
        *_required(TEXT, "floor"),
        *_required(BIG, "records"),
        *_optional(sa.String(64), "manifest_digest"),
        *_optional(TEXT, "receipt"),
        *_required(BOOLEAN, "side_moved", "side_registered"),
        *_optional(TEXT, "refused", "blocked"),
        *_required(BIG, "planned_ms"),
        *_optional(BIG, "sealed_ms", "landed_ms", "cleaned_ms"),
        sa.Column("kind", sa.String(16), nullable=False, server_default="ingest"),
        *_optional(BIG, "began_ms", "job_ms"),
        *_optional(TEXT, "released", "zone"),
        sa.PrimaryKeyConstraint("pipeline", "batch_id"),
    )
    op.create_index("ix_batches_state", "batches", ["pipeline", "state"])
    op.create_index("ix_batches_topic", "batches", ["pipeline", "topic_id", "batch_id"])
    op.create_table(
        "certificates",
        *_required(NAME, "pipeline"),
        *_required(BIG, "window_ms"),
        *_required(BOOLEAN, "ready"),
        *_required(TEXT, "content"),
        *_required(BIG, "decided_ms"),
        sa.PrimaryKeyConstraint("pipeline", "window_ms"),
    )
    op.create_table(
        "events",
        *_required(ROWID, "id"),
        *_required(BIG, "at_ms"),
        *_required(NAME, "pipeline"),
        *_required(sa.String(500), "actor"),
        *_required(sa.String(100), "what"),
        *_required(NAME, "subject"),
        *_required(TEXT, "detail"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_events_pipeline", "events", ["pipeline", "id"])
    op.create_index("ix_events_subject", "events", ["pipeline", "subject", "id"])
    op.create_table(
        "generation_batches",
        *_required(NAME, "pipeline"),
        *_required(BIG, "window_ms"),
        *_required(INTEGER, "number"),
        *_required(BIG, "batch_id"),
        sa.Column("kind", sa.String(8), nullable=False, server_default="data"),
        sa.Column("cleared", BOOLEAN, nullable=False, server_default=sa.false()),
        sa.PrimaryKeyConstraint("pipeline", "window_ms", "number", "batch_id"),
    )
    op.create_table(
        "generation_files",
        *_required(NAME, "pipeline"),
        *_required(BIG, "window_ms"),
        *_required(INTEGER, "number"),
        *_required(TEXT, "path"),
        *_required(sa.String(8), "kind"),
        *_required(TEXT, "partition_values"),
        *_required(BIG, "rows", "bytes"),
        *_optional(BIG, "min_event_ms", "max_event_ms"),
        *_required(sa.String(20), "checksum"),
        *_required(TEXT, "partitions"),
        sa.PrimaryKeyConstraint("pipeline", "window_ms", "number", "path"),
    )
    op.create_table(
        "generations",
        *_required(NAME, "pipeline"),
        *_required(BIG, "window_ms"),
        *_required(INTEGER, "number"),
        *_required(sa.String(16), "state"),
        *_required(INTEGER, "epoch"),
        *_required(sa.String(32), "nonce"),
        *_required(sa.String(16), "kind"),
        *_optional(sa.String(2000), "directory", "location"),
        *_optional(BIG, "rows"),
        *_optional(sa.String(64), "digest"),
        *_optional(BIG, "built_ms", "published_ms", "announced_ms", "retired_ms", "cleaned_ms", "began_ms"),
        *_optional(INTEGER, "origin"),
        *_optional(TEXT, "why"),
        *_optional(INTEGER, "spec_version"),
        sa.PrimaryKeyConstraint("pipeline", "window_ms", "number"),
    )
    op.create_index("ix_generations_state", "generations", ["pipeline", "state"])
    op.create_table(
        "intents",
        *_required(sa.String(40), "call_id"),
        *_required(NAME, "pipeline"),
        *_required(BIG, "window_ms"),
        *_required(sa.String(2000), "location"),
        *_required(BIG, "deadline_ms"),
        sa.Column("number", INTEGER, nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("call_id"),
    )
    op.create_index("ix_intents_window", "intents", ["pipeline", "window_ms"])
    op.create_table(
        "log_cuts",
        *_required(NAME, "pipeline"),
        *_required(INTEGER, "partition"),
        *_required(sa.String(100), "topic_id"),
        *_required(BIG, "after_batch", "start", "end"),
        *_optional(INTEGER, "leader_epoch"),
        *_required(BIG, "found_ms"),
        sa.PrimaryKeyConstraint("pipeline", "partition"),
    )
    op.create_table(
        "losses",
        *_required(NAME, "pipeline"),
        *_required(INTEGER, "partition"),
        *_required(BIG, "start", "batch_id", "end"),
        *_required(TEXT, "reason"),
        sa.PrimaryKeyConstraint("pipeline", "partition", "start", "batch_id"),
    )
    op.create_table(
        "notices",
        *_required(NAME, "pipeline"),
        *_required(sa.String(300), "key"),
        *_required(TEXT, "content"),
        *_required(BIG, "first_ms"),
        *_optional(BIG, "told_ms", "ended_ms", "closed_ms"),
        sa.PrimaryKeyConstraint("pipeline", "key"),
    )
    op.create_table(
        "pipelines",
        *_required(NAME, "name"),
        *_required(BIG, "version", "next_batch_id"),
        *_optional(sa.String(100), "topic_id"),
        *_required(BIG, "created_ms"),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "resumptions",
        *_required(NAME, "pipeline"),
        *_required(BIG, "after_batch"),
        *_required(INTEGER, "partition"),
        *_required(sa.String(100), "topic_id"),
        *_required(BIG, "offset"),
        *_optional(BIG, "lost_start"),
        *_optional(INTEGER, "leader_epoch"),
        *_optional(BIG, "batch_id"),
        *_required(TEXT, "why"),
        sa.PrimaryKeyConstraint("pipeline", "after_batch", "partition"),
    )
    op.create_table(
        "row_owners",
        *_required(NAME, "pipeline"),
        *_required(BIG, "batch_id"),
        *_required(sa.String(8), "kind"),
        *_required(BIG, "owner"),
        *_required(BOOLEAN, "cleared"),
        sa.PrimaryKeyConstraint("pipeline", "batch_id", "kind"),
    )
    op.create_index("ix_row_owners_owner", "row_owners", ["pipeline", "owner"])
    op.create_table(
        "run_bindings",
        *_required(NAME, "pipeline"),
        *_required(sa.String(500), "run"),
        *_required(BIG, "batch_id"),
        sa.PrimaryKeyConstraint("pipeline", "run"),
    )
    op.create_table(
        "spec_versions",
        *_required(NAME, "pipeline"),
        *_required(INTEGER, "version"),
        *_required(sa.String(64), "fingerprint"),
        *_required(TEXT, "compiled"),
        *_required(BIG, "created_ms"),
        sa.PrimaryKeyConstraint("pipeline", "version"),
        sa.UniqueConstraint("pipeline", "fingerprint", name="uq_spec_fingerprint"),
    )
    op.create_table(
        "totals",
        *_required(NAME, "pipeline"),
        *_required(BIG, "through_batch"),
        *_required(TEXT, "content"),
        sa.PrimaryKeyConstraint("pipeline"),
    )
    op.create_table(
        "truths",
        *_required(NAME, "pipeline"),
        *_required(BIG, "window_ms"),
        *_required(TEXT, "source"),
        *_required(BIG, "rows"),
        *_optional(BIG, "expected"),
        *_optional(TEXT, "problem"),
        *_required(BIG, "asked_ms", "since_ms"),
        *_optional(TEXT, "accepted"),
        sa.PrimaryKeyConstraint("pipeline", "window_ms"),
    )
    op.create_table(
        "windows",
        *_required(NAME, "pipeline"),
        *_required(BIG, "start_ms", "end_ms"),
        *_required(sa.String(16), "state"),
        *_required(BIG, "closing_batch"),
        *_optional(BIG, "closed_ms"),
        *_optional(TEXT, "blocked"),
        sa.PrimaryKeyConstraint("pipeline", "start_ms"),
    )
    _partial_index("ix_windows_at_work", "windows", "state <> 'CLOSED' OR blocked IS NOT NULL", "pipeline")


def _required(kind: Any, *names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=False) for name in names]


def _optional(kind: Any, *names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind) for name in names]


def _partial_index(name: str, table: str, where: str, *columns: str) -> None:
    op.create_index(name, table, columns, postgresql_where=sa.text(where), sqlite_where=sa.text(where))
