"""The first schema of the ledger."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "batch_files",
        sa.Column("pipeline", sa.String(length=200), nullable=False),
        sa.Column("batch_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("window_ms", sa.BigInteger(), nullable=True),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("partition_values", sa.Text(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("min_event_ms", sa.BigInteger(), nullable=True),
        sa.Column("max_event_ms", sa.BigInteger(), nullable=True),
        sa.Column("checksum", sa.String(length=20), nullable=False),
        sa.Column("partitions", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "batch_id", "path"),
    )
    op.create_index("ix_batch_files_window", "batch_files", ["pipeline", "window_ms", "batch_id"], unique=False)
    op.create_table(
        "batch_partitions",
        sa.Column("pipeline", sa.String(length=200), nullable=False),
        sa.Column("batch_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("planned_end", sa.BigInteger(), nullable=False),
        sa.Column("log_start", sa.BigInteger(), nullable=False),
        sa.Column("last_stable_offset", sa.BigInteger(), nullable=False),
        sa.Column("high_watermark", sa.BigInteger(), nullable=False),
        sa.Column("drained", sa.Boolean(), nullable=False),
        sa.Column("max_event_ms", sa.BigInteger(), nullable=True),
        sa.Column("advanced_ms", sa.BigInteger(), nullable=True),
        sa.Column("open_transaction_since_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("pipeline", "batch_id", "partition"),
    )
    op.create_table(
        "batch_ranges",
        sa.Column("pipeline", sa.String(length=200), nullable=False),
        sa.Column("batch_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("read", sa.BigInteger(), nullable=True),
        sa.Column("data", sa.BigInteger(), nullable=True),
        sa.Column("late", sa.BigInteger(), nullable=True),
        sa.Column("dirty", sa.BigInteger(), nullable=True),
        sa.Column("filtered", sa.BigInteger(), nullable=True),
        sa.Column("dropped", sa.BigInteger(), nullable=True),
        sa.Column("gaps", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("pipeline", "batch_id", "partition"),
    )
    op.create_index("ix_batch_ranges_offsets", "batch_ranges", ["pipeline", "partition", "start"], unique=False)
    op.create_table(
        "batch_window_totals",
        sa.Column("pipeline", sa.String(length=200), nullable=False),
        sa.Column("window_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("batch_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("min_offset", sa.BigInteger(), nullable=False),
        sa.Column("max_offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "window_ms", "batch_id", "kind", "partition"),
    )
    op.create_table(
        "batches",
        sa.Column("pipeline", sa.String(length=200), nullable=False),
        sa.Column("batch_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("nonce", sa.String(length=32), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("spec_version", sa.Integer(), nullable=False),
        sa.Column("rules_version", sa.Integer(), nullable=False),
        sa.Column("topic", sa.String(length=249), nullable=False),
        sa.Column("topic_id", sa.String(length=100), nullable=False),
        sa.Column("clock_ms", sa.BigInteger(), nullable=False),
        sa.Column("floor", sa.Text(), nullable=False),
        sa.Column("records", sa.BigInteger(), nullable=False),
        sa.Column("manifest_digest", sa.String(length=64), nullable=True),
        sa.Column("receipt", sa.Text(), nullable=True),
        sa.Column("side_moved", sa.Boolean(), nullable=False),
        sa.Column("side_registered", sa.Boolean(), nullable=False),
        sa.Column("refused", sa.Text(), nullable=True),
        sa.Column("blocked", sa.Text(), nullable=True),
        sa.Column("planned_ms", sa.BigInteger(), nullable=False),
        sa.Column("sealed_ms", sa.BigInteger(), nullable=True),
        sa.Column("landed_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("pipeline", "batch_id"),
    )
    op.create_index("ix_batches_state", "batches", ["pipeline", "state"], unique=False)
    op.create_table(
        "certificates",
        sa.Column("pipeline", sa.String(length=200), nullable=False),
        sa.Column("window_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ready", sa.Boolean(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("decided_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "window_ms"),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("pipeline", sa.String(length=200), nullable=False),
        sa.Column("actor", sa.String(length=500), nullable=False),
        sa.Column("what", sa.String(length=100), nullable=False),
        sa.Column("subject", sa.String(length=200), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_events_pipeline", "events", ["pipeline", "id"], unique=False)
    op.create_table(
        "generation_batches",
        sa.Column("pipeline", sa.String(length=200), nullable=False),
        sa.Column("window_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("batch_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "window_ms", "number", "batch_id"),
    )
    op.create_table(
        "generation_files",
        sa.Column("pipeline", sa.String(length=200), nullable=False),
        sa.Column("window_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("partition_values", sa.Text(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("min_event_ms", sa.BigInteger(), nullable=True),
        sa.Column("max_event_ms", sa.BigInteger(), nullable=True),
        sa.Column("checksum", sa.String(length=20), nullable=False),
        sa.Column("partitions", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "window_ms", "number", "path"),
    )
    op.create_table(
        "generations",
        sa.Column("pipeline", sa.String(length=200), nullable=False),
        sa.Column("window_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("nonce", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("directory", sa.String(length=2000), nullable=True),
        sa.Column("location", sa.String(length=2000), nullable=True),
        sa.Column("rows", sa.BigInteger(), nullable=True),
        sa.Column("digest", sa.String(length=64), nullable=True),
        sa.Column("built_ms", sa.BigInteger(), nullable=True),
        sa.Column("published_ms", sa.BigInteger(), nullable=True),
        sa.Column("announced_ms", sa.BigInteger(), nullable=True),
        sa.Column("retired_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("pipeline", "window_ms", "number"),
    )
    op.create_index("ix_generations_state", "generations", ["pipeline", "state"], unique=False)
    op.create_table(
        "intents",
        sa.Column("call_id", sa.String(length=40), nullable=False),
        sa.Column("pipeline", sa.String(length=200), nullable=False),
        sa.Column("window_ms", sa.BigInteger(), nullable=False),
        sa.Column("location", sa.String(length=2000), nullable=False),
        sa.Column("deadline_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("call_id"),
    )
    op.create_index("ix_intents_window", "intents", ["pipeline", "window_ms"], unique=False)
    op.create_table(
        "losses",
        sa.Column("pipeline", sa.String(length=200), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("start", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("batch_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "partition", "start", "batch_id"),
    )
    op.create_table(
        "pipelines",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("next_batch_id", sa.BigInteger(), nullable=False),
        sa.Column("topic_id", sa.String(length=100), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "run_bindings",
        sa.Column("pipeline", sa.String(length=200), nullable=False),
        sa.Column("run", sa.String(length=500), nullable=False),
        sa.Column("batch_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "run"),
    )
    op.create_table(
        "spec_versions",
        sa.Column("pipeline", sa.String(length=200), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("compiled", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "version"),
        sa.UniqueConstraint("pipeline", "fingerprint", name="uq_spec_fingerprint"),
    )
    op.create_table(
        "windows",
        sa.Column("pipeline", sa.String(length=200), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("end_ms", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("closing_batch", sa.BigInteger(), nullable=False),
        sa.Column("closed_ms", sa.BigInteger(), nullable=True),
        sa.Column("blocked", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("pipeline", "start_ms"),
    )
