"""The composition root: a pipeline's workflow context from adapters and Airflow's connections.

Without Airflow (commands, tests) connections come from the environment; Airflow's processes pass a lookup of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegate.adapters.connections import (
    Connection,
    ConnectionMissing,
    Lookup,
    database_url,
    http_url,
    resolve,
)
from tidegate.core.base.errors import LedgerError, SourceError, SourceUnavailable
from tidegate.core.batch.launcher import Launcher
from tidegate.core.copy.port import Database, Place
from tidegate.core.deliver.sender import Sender
from tidegate.core.failover.states import Standby
from tidegate.core.ledger import Ledger
from tidegate.core.source.port import Source
from tidegate.core.spec.pipeline import CopiedServer, Copy, Delivery, Pipeline
from tidegate.kinds import delivery_kind, source_kind, target_kind
from tidegate.settings import Settings, airflow_home, load
from tidegate.workflow.base.columns import in_force
from tidegate.workflow.base.context import Connector, Context

if TYPE_CHECKING:
    from tidegate.adapters.mirror_comparison import TableProcess
    from tidegate.core.window.waits import WaitLedger
    from tidegate.ledger.sql import SqlLedger
    from tidegate.spark.connection import SparkConnection
    from tidegate.spark.warm_session import WarmLauncher
    from tidegate.workflow.look.changes import ChangesLedger
    from tidegate.workflow.look.files import FilesLedger
    from tidegate.workflow.window.waits import SpecsInForce

Say = Callable[[str], None]
SOURCE_ANSWERS_S = 10.0
"""A request to a source is given up after so long."""
DATABASE_ANSWERS_S = 300.0
"""A statement of a database that is copied: the bounds of chunks are found by reading its key's index."""


def context_for(
    pipeline: Pipeline,
    say: Say,
    launcher: Launcher | None = None,
    actor: str = "tidegate",
    lookup: Lookup | None = None,
) -> Context:
    """Everything that a workflow on `pipeline` needs; registers its spec with the ledger.

    No server but the ledger is contacted before it is needed. Without `launcher`, jobs run by a plain spark-submit.
    `actor` says who acts, for the event log. Close `ledger` of the result when done. Raises TidegateError.
    """
    from tidegate.adapters.clock import SystemClock
    from tidegate.adapters.watchdog import HANGS_S, Watched
    from tidegate.completeness.connection import truth_of
    from tidegate.spark.local_job import LocalLauncher
    from tidegate.spec.compiled import fingerprint
    from tidegate.storage import for_uri
    from tidegate.storage.access import access_for, as_secrets

    access = access_for(pipeline.sink, partial(resolve, lookup=lookup))
    ledger = open_ledger(actor, lookup)

    def register(found: Pipeline) -> int:
        return ledger.pipelines.register(found, fingerprint(found))

    try:
        pipeline = in_force(pipeline, ledger)
        return Context(
            pipeline=pipeline,
            spec_version=register(pipeline),
            ledger=ledger,
            source=Watched(_source(pipeline, lookup), HANGS_S, SourceUnavailable),  # type: ignore[arg-type]
            storage=for_uri(pipeline.sink.location, pipeline.sink.user, access),
            tables=target_kind(pipeline.sink.kind).opened(pipeline, partial(resolve, lookup=lookup), False),
            launcher=launcher or SparkByConnection(pipeline, say, lookup),
            clock=SystemClock(),
            say=say,
            local_launcher=LocalLauncher(say, user=pipeline.sink.user, secrets=as_secrets(access)),
            truth=truth_of(pipeline, lookup),
            connectors=connectors_of(pipeline, lookup),
            register=register,
            sender=partial(sender_of, pipeline, lookup=lookup),
            standby=partial(standby_of, pipeline, lookup=lookup),
        )
    except BaseException:
        ledger.close()
        raise


def open_ledger(actor: str, lookup: Lookup | None = None) -> Ledger:
    """The ledger that the setting `ledger_conn_id` names; it connects at the first call. Raises TidegateError."""
    from tidegate.ledger.sql import SqlLedger

    return SqlLedger(ledger_address(lookup), actor)


def ledger_address(lookup: Lookup | None = None) -> str:
    """SQLAlchemy's address of the ledger; it holds the password. Raises TidegateError."""
    return ledger_url(resolve(load().ledger_conn_id, lookup))


def open_waits(url: str) -> WaitLedger:
    """The ledger of waiting windows; it connects at the first look."""
    from tidegate.ledger.waits import SqlWaits

    return SqlWaits(url)


@contextmanager
def open_specs(url: str) -> Iterator[SpecsInForce]:
    """Registered specs, for consumers; it connects at the first question. Raises TidegateError."""
    with open_files(url) as ledger:
        yield ledger.specs


def open_files(url: str) -> AbstractContextManager[FilesLedger]:
    """The ledger of readers by path; it connects at the first question. Raises TidegateError."""
    return _consumers(url)


def open_changes(url: str) -> AbstractContextManager[ChangesLedger]:
    """The ledger of readers of changes; it connects at the first question. Raises TidegateError."""
    return _consumers(url)


@contextmanager
def _consumers(url: str) -> Iterator[SqlLedger]:
    from tidegate.ledger.sql import SqlLedger

    ledger = SqlLedger(url, "consumer")
    try:
        yield ledger
    finally:
        ledger.close()


def ledger_url(connection: Connection) -> str:
    """SQLAlchemy's address for a connection of type postgres, or sqlite (for trials; `host` is the file's path).

    Holds the password. Raises LedgerError for another type.
    """
    if connection.conn_type == "sqlite":
        path = connection.host or f"/{connection.schema or ''}"
        return f"sqlite:///{path}"
    if connection.conn_type != "postgres":
        raise LedgerError(
            f"connection {connection.conn_id} is of type {connection.conn_type}: the ledger needs postgres",
            advice="give the ledger a database of its own on PostgreSQL",
            retry=False,
        )
    return database_url(connection).render_as_string(hide_password=False)


def job_secrets(pipeline: Pipeline, lookup: Lookup | None = None) -> Mapping[str, str]:
    """What must reach a job in a private file: secrets of the source's connection, the schema registry's address and
    login, and the access to an object store. Raises TidegateError."""
    from tidegate.storage.access import access_for, as_secrets

    secrets = dict(_source(pipeline, lookup).for_workers().secrets)
    settings = pipeline.format.avro
    if settings is not None and settings.registry_conn_id is not None:
        secrets |= registry_secrets(resolve(settings.registry_conn_id, lookup))
    secrets |= as_secrets(access_for(pipeline.sink, partial(resolve, lookup=lookup)))
    return secrets if pipeline.copy is None else secrets | _copy_secrets(pipeline.copy, lookup)


def _copy_secrets(copy: Copy, lookup: Lookup | None) -> dict[str, str]:
    """Keys as `spark_jobs.engine.secrets` reads them. Without those of a connection that is missing or invalid: ingest,
    merges and other servers' copies need it not, and the copy that does has asked the database before its job."""
    from tidegate.databases.kinds import for_workers

    found = {}
    for one in copy.each:
        with suppress(ConnectionMissing, SourceError):
            settings = for_workers(resolve(one.conn_id, lookup))
            found |= {f"tidegate.copy.{one.name and f'{one.name}/'}{key}": value for key, value in settings.items()}
    return found


def connectors_of(pipeline: Pipeline, lookup: Lookup | None) -> dict[str, Connector]:
    """Who says how far the connector of each of a mirror's servers is, by its name; without those of which the spec
    names nobody. Asks when it is called."""
    each = () if pipeline.copy is None else pipeline.copy.each
    return {one.name: partial(_how_far, pipeline, one, lookup) for one in each if one.is_told}


def _how_far(pipeline: Pipeline, server: CopiedServer, lookup: Lookup | None) -> Place:
    """S12: the log's begin is asked once the place is known."""
    from tidegate.databases import connector

    if server.slot is not None:
        connection = resolve(server.conn_id, lookup)
        position = connector.slot_position(connection, server.slot, SOURCE_ANSWERS_S, pipeline.copy)
    else:
        assert server.connect_conn_id is not None
        assert server.connector is not None
        url = http_url(resolve(server.connect_conn_id, lookup))
        position = connector.connect_position(url, server.connector, SOURCE_ANSWERS_S)
    with open_database(pipeline, lookup, SOURCE_ANSWERS_S, server.name) as database:
        return Place(position, database.position(), database.log_begin())


@contextmanager
def open_database(
    pipeline: Pipeline, lookup: Lookup | None = None, timeout_s: float = DATABASE_ANSWERS_S, server: str = ""
) -> Iterator[Database]:
    """The database that a mirror is copied from, of several servers this one's; it connects at the first question.
    Raises TidegateError."""
    from tidegate.databases.kinds import opened

    assert pipeline.copy is not None
    database = opened(resolve(pipeline.copy.server(server).conn_id, lookup), timeout_s)
    try:
        yield database
    finally:
        database.close()


@contextmanager
def open_copy(
    pipeline: Pipeline, lookup: Lookup | None = None, server: str = ""
) -> Iterator[tuple[Database, TableProcess]]:
    """The database that a mirror is copied from, as `open_database`, and a process that reads the mirror. Raises
    TidegateError."""
    from tidegate.adapters.mirror_comparison import TableProcess
    from tidegate.inspection import storage_secrets

    secrets = storage_secrets(pipeline, partial(resolve, lookup=lookup))
    reader = TableProcess(user=pipeline.sink.user, secrets=secrets)
    with closing(reader), open_database(pipeline, lookup, server=server) as database:
        yield database, reader


def sender_of(pipeline: Pipeline, delivery: Delivery, lookup: Lookup | None = None) -> Sender:
    """A further system, by a process of its own; it connects at the first question. Raises TidegateError then."""
    from tidegate.adapters.delivery import SenderProcess
    from tidegate.core.deliver.columns import table_of
    from tidegate.storage.access import access_for, as_secrets

    access = access_for(pipeline.sink, partial(resolve, lookup=lookup))
    kind, table = delivery_kind(delivery.kind), table_of(pipeline, delivery)

    def settings() -> Mapping[str, Any]:
        further = (need.conn_id for need in kind.needs(delivery))
        return kind.settings(*(resolve(conn_id, lookup) for conn_id in (delivery.conn_id, *further)))

    return SenderProcess(delivery.kind, settings, table, pipeline.sink.user, as_secrets(access))


def standby_of(pipeline: Pipeline, site: str, lookup: Lookup | None = None) -> Standby:
    """The source at another site; it connects at the first question. Raises TidegateError."""
    kind, source = source_kind(pipeline.source.kind), pipeline.source.at(site)
    assert kind.standby is not None
    return kind.standby(resolve(source.conn_id, lookup), source, f"tidegate-{pipeline.name}", SOURCE_ANSWERS_S)


def registry_secrets(connection: Connection) -> dict[str, str]:
    """Keys as `spark_jobs.engine.secrets` reads them, from an HTTP connection as Airflow reads it: the protocol is in
    the host or in `schema`. Raises TidegateError."""
    found = {"url": http_url(connection)}
    if connection.login:
        found |= {"user": connection.login, "password": connection.password or ""}
    return {f"tidegate.registry.{key}": value for key, value in found.items()}


def command_lookup(conn_id: str) -> Connection:
    """Look a command's connection up, in the environment, then in Airflow. Raises ConnectionMissing."""
    try:
        return resolve(conn_id)
    except ConnectionMissing:
        if not (airflow_home() / "airflow.cfg").exists():  # importing Airflow would make a new home
            raise
    import logging

    from tidegate.adapters.airflow_connections import airflow_connection

    logging.getLogger("airflow").setLevel(logging.WARNING)  # it tells standard output of each look-up
    logging.getLogger("thrift").setLevel(logging.CRITICAL)  # what it says there comes back as an error
    return airflow_connection(conn_id)


class SparkByConnection:
    """Launcher by the pipeline's Spark connection, looked up late (`core.batch.launcher.Launcher`)."""

    def __init__(self, pipeline: Pipeline, say: Say, lookup: Lookup | None = None) -> None:
        self._pipeline, self._say, self._lookup = pipeline, say, lookup

    def run(self, plan_path: str) -> None:
        """Raises JobFailed, ConnectionMissing."""
        from tidegate.spark.connection import SparkConnection
        from tidegate.spark.launcher import SubprocessLauncher, local_environment, submit_command

        settings, run = load(), self._pipeline.ingest
        connection = SparkConnection.of(resolve(run.spark_conn_id, self._lookup), run.spark_conf)
        secrets, user = job_secrets(self._pipeline, self._lookup), self._pipeline.sink.user
        connection.check(run.spark_conf, bool(secrets))
        binary, py_files = settings.spark_binary, settings.spark_py_files
        conf, options = (
            spark_conf(self._pipeline, connection, settings),
            connection.options(settings.spark_session_folder),
        )
        carried = secrets if connection.carries_files() else {}
        launcher: Launcher = SubprocessLauncher(
            self._say, binary, connection.master, conf, secrets=carried, py_files=py_files, user=user, options=options
        )
        if run.spark_session == "warm":
            submit = submit_command(binary, connection.master, conf, py_files, options)
            launcher = warm_launcher(self._say, submit, launcher, connection, local_environment(), secrets, user)
        launcher.run(plan_path)


def spark_conf(pipeline: Pipeline, connection: SparkConnection, settings: Settings) -> dict[str, str]:
    """All settings of a pipeline's jobs at a Spark connection."""
    from tidegate.spark.conf import driver_conf, with_worker_archive

    conf = driver_conf(
        pipeline.ingest.spark_conf, settings.spark_driver_java_options, connection.master,
        settings.spark_class_archive, connection.here,
    )  # fmt: skip
    return with_worker_archive(conf, settings.spark_worker_archive, connection.master)


def warm_launcher(
    say: Say,
    submit: Sequence[str],
    cold: Launcher,
    connection: SparkConnection,
    env: Mapping[str, str],
    secrets: Mapping[str, str],
    user: str | None,
) -> WarmLauncher:
    """A warm launcher by the settings now in force. Raises JobFailed for an unsuitable connection."""
    from tidegate.spark.warm_session import WarmLauncher, refuse_cluster_mode

    refuse_cluster_mode(connection)
    settings = load()
    return WarmLauncher(
        say,
        submit,
        cold,
        settings.spark_session_folder,
        env,
        secrets,
        user,
        settings.spark_session_idle_s,
        settings.spark_session_batches,
    )


def _source(pipeline: Pipeline, lookup: Lookup | None) -> Source:
    connection = resolve(pipeline.source.conn_id, lookup)
    client_id = f"tidegate-{pipeline.name}"
    return source_kind(pipeline.source.kind).opened(connection, pipeline.source, client_id, SOURCE_ANSWERS_S)
