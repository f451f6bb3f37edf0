"""`tidegate db migrate`: brings the ledger's database to this code's schema revision. Never run on import."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Engine

from tidegate.adapters.ledger.store import HEAD, make_engine


def migrate(url: str | Engine, revision: str = "head") -> str:
    """Upgrade to `revision`; the revision reached. Safe to run again, and by two at once."""
    engine = make_engine(url) if isinstance(url, str) else url
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7106031)")
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    return HEAD if revision == "head" else revision


def revisions() -> list[str]:
    """All schema revisions, oldest first."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    scripts = ScriptDirectory.from_config(config)
    return [s.revision for s in reversed(list(scripts.walk_revisions()))]
