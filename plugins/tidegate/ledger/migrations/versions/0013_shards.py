"""Chunks of a mirror's copy know the table that they are of: a mirror can have several (S11)."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Chunks of before are of their round's only table."""
    op.add_column("chunks", sa.Column("table_name", sa.Text(), nullable=False, server_default=""))
    chunks = sa.table("chunks", *map(sa.column, ("pipeline", "round", "table_name")))
    copies = sa.table("copies", *map(sa.column, ("pipeline", "round", "table_name")))
    of_round = sa.and_(copies.c.pipeline == chunks.c.pipeline, copies.c.round == chunks.c.round)
    name = sa.select(copies.c.table_name).where(of_round).scalar_subquery()
    op.execute(sa.update(chunks).values(table_name=sa.func.coalesce(name, "")))
