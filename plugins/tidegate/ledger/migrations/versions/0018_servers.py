"""Looks at a mirror's connector know the server whose it is: a mirror can have several (S11)."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Looks of before are of the only one."""
    op.add_column("source_looks", sa.Column("server", sa.String(250), nullable=False, server_default=""))
