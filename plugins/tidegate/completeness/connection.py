"""The system that a pipeline's spec names for counts of windows, reached by Airflow's connections."""

from __future__ import annotations

from typing import cast

from tidegate.adapters.connections import Lookup, database_url, http_url, resolve
from tidegate.adapters.watchdog import Watched
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import TidegateError, TruthUnknown
from tidegate.core.completeness.port import Truth
from tidegate.core.spec.pipeline import Completeness, Pipeline
from tidegate.core.window.states import WindowKey

HANGS_S = 150.0
"""Seconds after which a question hangs: the adapters' own time-outs are all shorter."""


def truth_of(pipeline: Pipeline, lookup: Lookup | None) -> Truth | None:
    """The other system; None where the spec names none. It is looked up and contacted on first use."""
    settings = pipeline.completeness
    if settings is None:
        return None
    asked = TruthByConnection(settings, pipeline.windows.timezone, lookup)
    return cast(Truth, Watched(asked, HANGS_S, TruthUnknown, looking=("expected",)))


class TruthByConnection:
    """Other system (`core.completeness.port.Truth`) that looks its connection up for each question: it may change."""

    def __init__(self, settings: Completeness, timezone: str, lookup: Lookup | None) -> None:
        self._settings, self._timezone, self._lookup = settings, timezone, lookup

    def expected(self, window: WindowKey) -> int | None:
        """The window's count. Raises TruthUnknown."""
        try:
            return self._truth(resolve(self._settings.conn_id, self._lookup)).expected(window)
        except TruthUnknown:
            raise
        except TidegateError as e:
            raise TruthUnknown(str(e).splitlines()[0]) from None
        except Exception as e:  # whatever a driver thinks of; its words may hold a secret
            raise TruthUnknown(f"{self._settings.source_name}: {type(e).__name__} while asking") from e

    def _truth(self, connection: Connection) -> Truth:
        settings = self._settings
        if settings.source == "sql":
            from tidegate.completeness.query import SqlTruth

            return SqlTruth(connection, lambda: database_url(connection), str(settings.query))
        if settings.source == "http":
            from tidegate.completeness.service import HttpTruth

            return HttpTruth(http_url(connection), connection, str(settings.path), str(settings.count_path))
        from tidegate.completeness.audit_topic import TopicTruth

        return TopicTruth(connection.extra, settings, self._timezone)
