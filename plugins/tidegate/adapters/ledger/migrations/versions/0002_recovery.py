"""What has been cleaned away."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("batches", sa.Column("cleaned_ms", sa.BigInteger(), nullable=True))
    op.add_column("generations", sa.Column("cleaned_ms", sa.BigInteger(), nullable=True))
