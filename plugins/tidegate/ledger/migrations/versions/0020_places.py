"""Looks at a mirror's connector know which it is, and which copies may lack what it has left out (S12)."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0018"


def upgrade() -> None:
    """Of looks of before nothing of that is known."""
    op.add_column("source_looks", sa.Column("reader", sa.String(250), nullable=False, server_default=""))
    op.add_column("source_looks", sa.Column("gap", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("copies", sa.Column("confirmed", sa.Integer(), nullable=False, server_default="0"))
