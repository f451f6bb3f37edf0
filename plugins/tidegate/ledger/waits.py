"""What waiting windows ask, for all of them at once: two statements, whatever the number of windows and pipelines.

Both are written as SQL: a list of pairs becomes rows to join with, which no construct of SQLAlchemy 1.4 says to both
databases, and which PostgreSQL answers by one index probe for each pair, where a long OR costs it more to plan.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import create_engine
from sqlalchemy.engine import Connection, Engine, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from tidegate.core.batch.states import INGEST, LANDED, OPEN_STATES
from tidegate.core.copy.rounds import RoundState
from tidegate.core.window.states import CLOSING, CURRENT, WindowState
from tidegate.core.window.waits import Look, Standing, WindowRef
from tidegate.core.window.watermark import TopicFacts
from tidegate.ledger.facts import partition_facts
from tidegate.ledger.store import LIMITS, asked, in_our_words, sql_list

# Partitions of a batch that is known already are not sent again: what has landed is final. The nonce tells it from
# another batch of the same number, in a ledger that lost commits.
_FACTS = f"""
WITH asked(pipeline, known_batch, known_nonce) AS (VALUES {{rows}})
SELECT b.pipeline, b.batch_id, b.nonce, b.clock_ms, p.partition, p.max_event_ms, p.drained, p.advanced_ms,
       p.open_transaction_since_ms, p.last_stable_offset, p.timed_ms, (
           SELECT 1 FROM copies AS r WHERE r.pipeline = a.pipeline AND r.state = '{RoundState.WHOLE}' AND r.part IS NULL
           ORDER BY r.round DESC LIMIT 1) AS copied
FROM asked AS a
JOIN batches AS b ON b.pipeline = a.pipeline AND b.batch_id = (
    SELECT n.batch_id FROM batches AS n
    WHERE n.pipeline = a.pipeline AND n.state = '{LANDED}' AND n.kind = '{INGEST}'
    ORDER BY n.batch_id DESC LIMIT 1)
LEFT JOIN batch_partitions AS p ON p.pipeline = b.pipeline AND p.batch_id = b.batch_id
    AND (b.batch_id <> a.known_batch OR b.nonce <> a.known_nonce)
ORDER BY b.pipeline, p.partition
"""
_STANDINGS = f"""
WITH asked(pipeline, start_ms) AS (VALUES {{rows}})
SELECT w.pipeline, w.start_ms, w.state, g.number, CASE WHEN w.state = '{CLOSING}' THEN (
    SELECT MIN(b.batch_id) FROM batches AS b
    WHERE b.pipeline = w.pipeline AND b.state IN {sql_list(OPEN_STATES)} AND b.batch_id < w.closing_batch
    ) END AS owes
FROM asked AS a
JOIN windows AS w ON w.pipeline = a.pipeline AND w.start_ms = a.start_ms
LEFT JOIN generations AS g ON g.pipeline = w.pipeline AND g.window_ms = w.start_ms AND g.state = '{CURRENT}'
"""


def waits_engine(url: str) -> Engine:
    """One connection that is kept, and no statements around those that are asked for: no transaction, no ping."""
    if make_url(url).get_backend_name() == "sqlite":
        return create_engine(url, connect_args={"timeout": 30, "check_same_thread": False})
    limits = {key: value for key, value in LIMITS.items() if key not in make_url(url).query}
    return create_engine(url, connect_args=limits, pool_size=1, max_overflow=0, isolation_level="AUTOCOMMIT")


@dataclass(frozen=True)
class _Known:
    batch_id: int
    nonce: str
    facts: TopicFacts


_UNKNOWN = _Known(-1, "", TopicFacts(None, None, ()))


class SqlWaits:
    """core.waiting.WaitLedger on PostgreSQL or SQLite; one thread at a time.

    The schema's revision is not compared: the sensor's first look has done so, and what is read here has been there
    since the first revision."""

    def __init__(self, url: str | Engine) -> None:
        self._engine = waits_engine(url) if isinstance(url, str) else url
        self._known: dict[str, _Known] = {}

    def look(self, pipelines: Collection[str], windows: Collection[WindowRef]) -> Look:
        """Raises LedgerError."""
        try:
            try:
                return self._look(pipelines, windows)
            except DBAPIError as e:
                if not e.connection_invalidated:
                    raise
                return self._look(pipelines, windows)  # the connection had died since it was last used
        except SQLAlchemyError as e:
            raise in_our_words(e) from e

    def _look(self, pipelines: Collection[str], windows: Collection[WindowRef]) -> Look:
        with self._engine.connect() as c:
            # the states first: a window that closes in between is judged by facts that are at least as new
            standings = self._standings(c, windows) if windows else {}
            return Look(self._facts(c, pipelines) if pipelines else {}, standings)

    def _facts(self, c: Connection, pipelines: Collection[str]) -> dict[str, TopicFacts]:
        known = {name: self._known.get(name, _UNKNOWN) for name in sorted(pipelines)}
        wanted = [(name, one.batch_id, one.nonce) for name, one in known.items()]
        found: dict[str, tuple[Any, list[Any]]] = {}
        for row in asked(c, _FACTS, wanted):
            found.setdefault(row.pipeline, (row, []))[1].append(row)
        self._known = {}  # of those that are asked for and no others: nothing grows
        for name, (batch, rows) in found.items():
            before = known[name]
            if (before.batch_id, before.nonce) != (batch.batch_id, batch.nonce):
                parts = tuple(partition_facts(row) for row in rows if row.partition is not None)
                before = _Known(batch.batch_id, batch.nonce, TopicFacts(batch.batch_id, batch.clock_ms, parts))
            if before.facts.copied != bool(batch.copied):
                before = replace(before, facts=replace(before.facts, copied=bool(batch.copied)))
            self._known[name] = before
        return {name: one.facts for name, one in self._known.items()}

    def _standings(self, c: Connection, windows: Collection[WindowRef]) -> dict[WindowRef, Standing]:
        rows = asked(c, _STANDINGS, sorted(windows))
        return {
            (row.pipeline, row.start_ms): Standing(WindowState.known(row.state), row.number, row.owes) for row in rows
        }

    def close(self) -> None:
        self._engine.dispose()
