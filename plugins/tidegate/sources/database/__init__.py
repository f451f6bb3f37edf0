"""Tables of databases as a source, from the YAML section to the worker's reader: no log is needed."""

from __future__ import annotations

from tidegate.core.source.port import Traits
from tidegate.core.source.trouble import Trouble
from tidegate.kinds import SourceKind, found_at, late

TRAITS = Traits(
    identity=False, transactions=False, dense=True, rereadable=False, expires=False, remembers=False, windowed=True
)


def remedy(trouble: Trouble) -> str:
    """Nothing expires here, and there are no transactions to see."""
    raise NotImplementedError(f"a table does not have this trouble: {trouble.what}")


KIND = SourceKind(
    name="database",
    title="the database",
    traits=TRAITS,
    connection_types=("mysql", "mariadb", "postgres", "postgresql", "jdbc"),
    remedy=remedy,
    section=found_at("tidegate.sources.database.section:DatabaseSection"),
    opened=late("tidegate.sources.database.control:opened"),
    examined=late("tidegate.sources.database.doctor:examined"),
    reader=late("tidegate.sources.database.worker:TableReader"),
    problems=late("tidegate.sources.database.rules:problems"),
)
