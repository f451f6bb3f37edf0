"""The ledger on SQLAlchemy Core: PostgreSQL in production, SQLite for unit tests and a first look."""

from tidegate.ledger.sql import SqlLedger

__all__ = ["SqlLedger"]
