"""Everything a page can reach: the ledger, the pipelines folder, Kafka; one of each for a process."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from typing import Any

from sqlalchemy import event

from tidegate import inspection
from tidegate.adapters.airflow_connections import airflow_connection
from tidegate.board.specs import Folder, Specs
from tidegate.board.topics import Topics
from tidegate.core.base.errors import SpecError
from tidegate.core.spec.pipeline import Pipeline
from tidegate.ledger import SqlLedger
from tidegate.ledger.store import make_engine
from tidegate.settings import load
from tidegate.wiring import ledger_address
from tidegate.workflow.base.columns import at_active_site
from tidegate.workflow.base.context import Context

ADDRESS_S = 30.0
"""Seconds to keep the ledger's address, which costs a statement of Airflow's database."""
STATEMENT_MS = 20_000
"""Time limit of a page's statement in PostgreSQL: Airflow ends a request only after two minutes."""


class UnknownPipeline(Exception):
    """Neither the pipelines folder nor the ledger knows the name."""


class NotRegistered(Exception):
    """There is a YAML, but no run has registered it, and it is broken or not parsed yet."""

    def __init__(self, name: str, error: SpecError | None) -> None:
        super().__init__(name)
        self.error = error


class Reach:
    """Opens each of them at the first use; cheap to make."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._specs = Specs()
        self.topics = Topics(_kafka, active=self._active)
        self._ledger: SqlLedger | None = None
        self._registered: tuple[SqlLedger | None, dict[tuple[str, int], Pipeline]] = (None, {})
        self._address, self._asked = "", 0.0

    def _active(self, pipeline: Pipeline) -> Pipeline:
        return at_active_site(pipeline, self.ledger())

    def folder(self) -> Folder:
        return self._specs.folder(load().pipelines_folder)

    def pipeline(self, name: str) -> Pipeline:
        """The pipeline by its YAML; by the ledger where that is invalid, gone, or not parsed yet.

        Raises UnknownPipeline, NotRegistered, LedgerError."""
        found = self.pipelines([name]).get(name)
        if found is not None:
            return found
        folder = self.folder()
        if name in folder.names:
            raise NotRegistered(name, folder.specs[name].error if name in folder.specs else None)
        raise UnknownPipeline(name)

    def pipelines(self, names: Collection[str]) -> dict[str, Pipeline]:
        """Those of `names` that a YAML or the ledger has. Raises LedgerError."""
        specs = self.folder().specs
        found = {n: p for n in names if (spec := specs.get(n)) is not None and (p := spec.pipeline) is not None}
        ledger = self.ledger()
        missing = [n for n in names if n not in found]
        versions = ledger.reads.spec_versions(missing) if missing else {}
        of, known = self._registered
        if of is not ledger:  # another ledger has specs of its own under the same names and numbers
            known = {}
            self._registered = (ledger, known)
        known |= ledger.reads.specs([pair for pair in versions.items() if pair not in known])
        return found | {name: known[name, version] for name, version in versions.items()}

    def broken(self, name: str) -> SpecError | None:
        """The error of the pipeline's YAML; None for a valid one."""
        spec = self.folder().specs.get(name)
        return None if spec is None else spec.error

    def ledger(self) -> SqlLedger:
        """The ledger, to read from. Raises ConnectionMissing; LedgerError at the first call without an answer."""
        with self._lock:
            if self._ledger is not None and time.monotonic() - self._asked < ADDRESS_S:
                return self._ledger
            address = ledger_address(airflow_connection)
            if self._ledger is None or address != self._address:
                old, self._ledger = self._ledger, SqlLedger(_engine(address), "board")
                if old is not None:
                    old.close()  # pages that are under way keep their connections to their end
            self._address, self._asked = address, time.monotonic()
            return self._ledger

    def acting(self, actor: str) -> SqlLedger:
        """The ledger, to write to: `actor` is the name in the event log. Raises as `ledger` does."""
        return SqlLedger(self.ledger().store.engine, actor)

    def context(self, pipeline: Pipeline, actor: str | None = None) -> Context:
        """A workflow's context: it registers nothing, and connects to others than the ledger on first use."""
        ledger = self.ledger() if actor is None else self.acting(actor)
        return inspection.context(pipeline, ledger, airflow_connection, _kafka)

    def storage_secrets(self, pipeline: Pipeline) -> dict[str, str]:
        """What a child process needs to reach the pipeline's files in an object store. Raises TidegateError."""
        return inspection.storage_secrets(pipeline, airflow_connection)


def _engine(address: str) -> Any:
    engine = make_engine(address)
    if engine.dialect.name == "postgresql":

        @event.listens_for(engine, "connect")
        def _limit(connection: Any, _record: Any) -> None:
            with connection.cursor() as cursor:
                cursor.execute(f"SET statement_timeout = {STATEMENT_MS}")
            connection.commit()

    return engine


def _kafka(pipeline: Pipeline) -> Any:
    return inspection.source(pipeline, airflow_connection, "tidegate-board", timeout_s=2.0)
