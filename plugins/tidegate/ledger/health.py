"""Whether the ledger's database can be used by the user that its connection names; nothing is written."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import SQLAlchemyError

from tidegate.core.base.errors import LedgerError
from tidegate.core.base.wording import first_line
from tidegate.ledger import schema
from tidegate.ledger.store import HEAD, Store, make_engine

_RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")


@dataclass(frozen=True)
class LedgerHealth:
    """`forbidden`: rights that are missing, in words; "" for none. `ahead_s`: its clock; None for a file's."""

    revision: str
    forbidden: str
    ahead_s: float | None


def examine(url: str) -> LedgerHealth:
    """Raises WrongRevision, LedgerError."""
    server = make_url(url).get_backend_name() != "sqlite"
    if not server and not os.path.exists(make_url(url).database or ""):
        raise LedgerError(f"no file {make_url(url).database}", advice="tidegate db migrate")
    engine = make_engine(url)
    try:
        Store(engine, lambda: 0, lambda: "doctor").check_revision()
        with engine.connect() as connection:
            if not server:
                return LedgerHealth(HEAD, _file(str(make_url(url).database)), None)
            return LedgerHealth(HEAD, _rights(connection), _ahead(connection))
    except SQLAlchemyError as e:
        raise LedgerError(f"the ledger's database: {first_line(e)}") from e
    finally:
        engine.dispose()


def _rights(connection: Connection) -> str:
    asked = text("SELECT has_table_privilege(:table, :right)")
    for table in schema.metadata.sorted_tables:
        missing = [r for r in _RIGHTS if not connection.execute(asked, {"table": table.name, "right": r}).scalar()]
        if missing:
            return f"{', '.join(missing)} on {table.name}"
    return ""


def _file(path: str) -> str:
    return "" if os.access(path, os.W_OK) else f"write {path}"


def _ahead(connection: Connection) -> float:
    asked = time.time()
    found = connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar()
    return float(found) - (asked + time.time()) / 2
