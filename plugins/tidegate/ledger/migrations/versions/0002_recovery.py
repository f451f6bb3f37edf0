"""What has been cleaned away, and which generation an intent is for."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("batches", sa.Column("cleaned_ms", sa.BigInteger(), nullable=True))
    op.add_column("intents", sa.Column("number", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("generations", sa.Column("cleaned_ms", sa.BigInteger(), nullable=True))
    op.create_index("ix_batches_topic", "batches", ["pipeline", "topic_id", "batch_id"])
    op.create_index("ix_events_subject", "events", ["pipeline", "subject", "id"])
