"""One dialect and one cache of compiled statements for all SQLite databases of a process: each test has databases of
its own, and each of them would compile every statement again."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import create_engine
from sqlalchemy.engine import Engine

from tidegate.ledger import store
from tidegate.targets.iceberg import sql_catalogue

STATEMENTS = 5_000


@cache
def _first() -> Engine:
    engine = create_engine("sqlite://", query_cache_size=STATEMENTS)
    engine.connect().close()  # the first connection completes the dialect
    return engine


def alike(url: Any, **options: Any) -> Engine:
    """`sqlalchemy.create_engine`, with what all SQLite databases share."""
    engine = create_engine(url, **options)
    if engine.dialect.name == "sqlite":
        engine.dialect, engine._compiled_cache = _first().dialect, _first()._compiled_cache
    return engine


def share() -> None:
    """For the ledgers and catalogues of this process."""
    store.create_engine = sql_catalogue.create_engine = alike  # type: ignore[attr-defined]
