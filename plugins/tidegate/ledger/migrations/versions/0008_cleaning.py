"""Since when the files of a generation may be deleted: a rollback that would share them asks."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """What was cleaned before says so by `cleaned_ms`; nothing that is there has to be filled in."""
    op.add_column("generations", sa.Column("cleaning_ms", sa.BigInteger()))
