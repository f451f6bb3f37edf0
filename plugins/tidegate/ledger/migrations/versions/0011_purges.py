"""What keyed tables say of their purges, and when events were last seen that one has kept out."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """A table that was not purged says what the defaults say."""
    op.add_column("prefixes", sa.Column("purged_below", sa.String(100), nullable=False, server_default="0,0,0"))
    op.add_column("prefixes", sa.Column("purged_upto", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("prefixes", sa.Column("below_purge", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("prefixes", sa.Column("kept_out_ms", sa.BigInteger()))
