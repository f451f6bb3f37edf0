"""`tidegate db migrate`: brings the ledger's database to this code's schema revision. Never run on import."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError

from tidegate.core.base.errors import LedgerError
from tidegate.ledger.store import make_engine, wrong_revision

LOCK_MS = 20_000
"""How long a table is waited for: while a change waits for its end, every task waits behind it."""
_LOCK_NOT_AVAILABLE = "55P03"


def migrate(url: str | Engine, revision: str = "head") -> str:
    """Upgrade to `revision`; the revision that the ledger is at then, which may be a later one. Safe to run again, and
    by two at once. Raises LedgerError where a transaction of somebody else holds a table for longer than LOCK_MS,
    WrongRevision where a newer release has migrated it, or it is older than 0.1.0; then nothing has changed."""
    engine = make_engine(url) if isinstance(url, str) else url
    config = _config()
    try:
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7106031)")
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = {LOCK_MS}")
            config.attributes["connection"] = connection
            found = MigrationContext.configure(connection).get_current_revision()
            if found is not None and found not in revisions():
                raise wrong_revision(found)
            command.upgrade(config, revision)
            reached = MigrationContext.configure(connection).get_current_revision()
    except OperationalError as e:
        if getattr(e.orig, "pgcode", None) != _LOCK_NOT_AVAILABLE:
            raise
        raise LedgerError(
            f"a transaction has held one of the ledger's tables for {LOCK_MS // 1000} s: nothing is migrated",
            advice="run it again; `SELECT pid, query FROM pg_stat_activity WHERE xact_start < now() - interval '10 s'` "
            "in the ledger's database says who",
        ) from e
    assert reached is not None
    return reached


def revisions() -> list[str]:
    """All schema revisions, oldest first."""
    scripts = ScriptDirectory.from_config(_config())
    return [s.revision for s in reversed(list(scripts.walk_revisions()))]


def _config() -> Config:
    made = Config()
    made.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return made
