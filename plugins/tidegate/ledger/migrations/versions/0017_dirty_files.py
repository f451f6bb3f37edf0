"""Which batches left dirty rows is asked at each look of a delivery: an index of their files. Columns of copies."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """A pipeline has few such files, and may have a million of others. Of copies of before no columns are known."""
    op.add_column("copies", sa.Column("columns", sa.Text()))
    dirty = sa.text("kind = 'dirty'")
    op.create_index(
        "ix_batch_files_dirty", "batch_files", ["pipeline", "batch_id"], postgresql_where=dirty, sqlite_where=dirty
    )
