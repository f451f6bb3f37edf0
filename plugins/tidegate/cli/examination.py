"""What `tidegate doctor` looks at: this machine, Airflow, the ledger, and the surroundings of each pipeline."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.adapters import parse_times
from tidegate.adapters.connections import ConnectionMissing
from tidegate.cli import surroundings
from tidegate.cli.deadlines import Away, ask
from tidegate.core.base.errors import TidegateError, WrongRevision
from tidegate.core.base.wording import first_line, many
from tidegate.core.doctor import rules as rules
from tidegate.core.doctor.findings import WARNING, WRONG, Finding, ok, unknown
from tidegate.core.look.concerns import left_behind
from tidegate.databases.kinds import CONNECTION_TYPES
from tidegate.kinds import dags_of, delivery_kind, source_kind, target_kind
from tidegate.settings import Settings, airflow_home, airflow_setting
from tidegate.spark.connection import impossible_jobs, master_of

if TYPE_CHECKING:
    from tidegate.adapters.airflow_facts import AirflowFacts
    from tidegate.core.base.connection import Connection
    from tidegate.core.spec.copy import CopiedServer
    from tidegate.core.spec.pipeline import Delivery, Pipeline
    from tidegate.spec import Loaded

FIRST_RETRY_S, LONGEST_RETRY_S = 15.0, 600.0
"""As the factory's; a test holds that they are the same."""
SAY_EVERY_S = 5.0
Question = Callable[[], list[Finding]]


class Examination:
    """One look at everything; `seconds` for each question. `say` is told how far it is, where it takes long."""

    def __init__(
        self, loaded: Iterable[Loaded], seconds: float, say: Callable[[str], None] = lambda line: None
    ) -> None:
        self.loaded, self.seconds, self._say = list(loaded), seconds, say
        self.pipelines = [one.pipeline for one in self.loaded if one.pipeline is not None]
        self.settings: Settings = surroundings.settings()
        self._connections: dict[str, Connection] = {}
        self._away = Away()

    def findings(self) -> list[Finding]:
        """All of them. What does not answer is a finding too."""
        found = [f for one in self.loaded for f in self._yaml(one)]
        found += self._connections_of_specs()
        questions: dict[str, Question] = {
            "this machine": self._machine,
            "Airflow": self._airflow,
            "ledger": self._ledger,
        }
        servers: dict[str, str] = {}
        for pipeline in self.pipelines:
            for what, server in ((self._kafka, pipeline.source.conn_id), (self._storage, _filesystem(pipeline))):
                name = f"{pipeline.name}: {what.__name__.strip('_')}"
                questions[name], servers[name] = partial(what, pipeline), server
        for pipeline in _each_database(self.pipelines):
            name = f"{pipeline.name}: {pipeline.sink.kind}"
            questions[name], servers[name] = partial(self._table, pipeline), pipeline.sink.conn_id
        for pipeline, one in ((p, one) for p in self.pipelines for one in p.deliver if not one.side):
            name = f"{pipeline.name}.{one.name}: deliver"
            questions[name], servers[name] = partial(self._delivery, pipeline, one), one.conn_id
        for pipeline, server in ((p, one) for p in self.pipelines if p.copy for one in p.copy.each):
            name = f"{pipeline.name}{server.name and f'.{server.name}'}: copy"
            questions[name], servers[name] = partial(self._copied, pipeline, server), server.conn_id
        for conn_id, port in self._plain_servers().items():
            questions[f"{conn_id}: reach"] = partial(self._reach, conn_id, port)
        for name, answer in ask(questions, self.seconds, servers, self._progress(len(questions))).items():
            if answer.value is not None:
                found += answer.value
                continue
            about, _, check = name.rpartition(": ")
            if not answer.since_s:
                what = f"{check} was not looked at: {servers[name]} has left a question unanswered"
                found.append(unknown(check, what, "tidegate doctor <pipeline>, once it answers", about))
            elif answer.error is not None:
                said = f"{name}: {type(answer.error).__name__}: {first_line(answer.error)}"
                found.append(unknown("doctor", said, about=about))
            else:
                means = "tasks that need it wait, then fail and retry"
                said = f"{check}: no answer within {self.seconds:g} s"
                found.append(Finding(check, WRONG, said, means, "is it up? is there a firewall between?", about))
        return found

    def _progress(self, of: int) -> Callable[[int], None]:
        last = [time.monotonic()]

        def told(begun: int) -> None:
            if time.monotonic() - last[0] >= SAY_EVERY_S:
                last[0] = time.monotonic()
                self._say(f"looked at {begun:,} of {of:,} things")

        return told

    # ------------------------------------------------------------ specs

    def _yaml(self, one: Loaded) -> list[Finding]:
        if one.pipeline is None:
            message, _, advice = str(one.error).partition("\n  what to do: ")
            return [Finding("yaml", WRONG, message, "it has no DAGs", advice or "tidegate spec validate", one.name)]
        p, delays = one.pipeline, (FIRST_RETRY_S, LONGEST_RETRY_S)
        return [
            rules.retries(p.name, "ingest.retries", p.ingest.retries, *delays),
            rules.retries(p.name, "archive.retries", p.archive.retries, *delays),
        ]

    def _uses(self) -> dict[str, tuple[tuple[str, ...], set[str]]]:
        """By connection: types that fit, and who needs it."""
        found: dict[str, tuple[tuple[str, ...], set[str]]] = {}

        def use(conn_id: str | None, types: tuple[str, ...], who: str) -> None:
            if conn_id:
                found.setdefault(conn_id, (types, set()))[1].add(who)

        use(self.settings.ledger_conn_id, ("postgres", "sqlite"), "every task")
        for p in self.pipelines:
            use(p.source.conn_id, source_kind(p.source.kind).connection_types, p.name)
            for need in target_kind(p.sink.kind).needs(p):
                use(need.conn_id, need.types, p.name)
            use(p.ingest.spark_conn_id, (), p.name)
            use(p.webhook_conn_id, ("http",), p.name)
            if p.format.avro is not None:
                use(p.format.avro.registry_conn_id, ("http",), p.name)
            if p.completeness is not None:
                use(p.completeness.conn_id, (), p.name)
            for server in () if p.copy is None else p.copy.each:
                use(server.conn_id, tuple(CONNECTION_TYPES), p.name)
                use(server.connect_conn_id, ("http",), p.name)
            for one in p.deliver:
                use(one.conn_id, delivery_kind(one.kind).connection_types, p.name)
                for need in delivery_kind(one.kind).needs(one):
                    use(need.conn_id, need.types, p.name)
        return found

    def _connections_of_specs(self) -> list[Finding]:
        from tidegate.wiring import command_lookup

        def look(conn_id: str) -> list[Finding]:
            self._connections[conn_id] = command_lookup(conn_id)
            return []

        uses = self._uses()
        answers = ask({conn_id: partial(look, conn_id) for conn_id in uses}, 3 * self.seconds)  # may import Airflow
        found = []
        for conn_id, (types, users) in uses.items():
            error = answers[conn_id].error
            if isinstance(error, ConnectionMissing):
                message = str(error.args[0])
                found.append(rules.missing_connection(conn_id, message, error.advice, users))
            elif conn_id in self._connections:
                found.append(rules.connection(conn_id, types, self._connections[conn_id].conn_type, users))
            else:
                why = f"{type(error).__name__}: {first_line(error)}" if error else "Airflow gives no answer"
                found.append(unknown("connections", f"connection {conn_id}: {why}", "airflow db check", conn_id))
        return found

    def _plain_servers(self) -> dict[str, int]:
        """Connections of which only the address can be tried, and the port where they name none."""
        needs = [need for p in self.pipelines for need in target_kind(p.sink.kind).needs(p)]
        needs += [need for p in self.pipelines for one in p.deliver for need in delivery_kind(one.kind).needs(one)]
        ids = {need.conn_id: need.port for need in needs if need.port is not None}
        ids |= {p.webhook_conn_id: 0 for p in self.pipelines if p.webhook_conn_id is not None}
        registries = {p.format.avro.registry_conn_id for p in self.pipelines if p.format.avro is not None}
        ids |= {conn_id: 0 for conn_id in registries if conn_id is not None}
        return {conn_id: ids[conn_id] for conn_id in sorted(ids) if conn_id in self._connections}

    def _reach(self, conn_id: str, port: int) -> list[Finding]:
        from urllib.parse import urlsplit

        from tidegate.adapters.connections import http_url
        from tidegate.storage.probing import reach

        connection = self._connections[conn_id]
        if connection.conn_type == "http":
            url = urlsplit(http_url(connection))
            host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
        else:
            host, port = connection.host or "", connection.port or port
        said = reach(host, port, self.seconds / 2)
        if said:
            means = "what uses it fails and retries"
            return [rules.refused("connections", conn_id, f"{conn_id}: {said}", means, "is it up?")]
        return [ok("connections", f"{conn_id}: {host}:{port} answers", conn_id)]

    # ------------------------------------------------------------ this machine

    def _machine(self) -> list[Finding]:
        from tidegate.adapters import installed

        local = any(self._master(p).startswith("local") for p in self.pipelines)
        plugins = airflow_setting("core", "plugins_folder")
        found = [rules.python(installed.python_version())]
        found += rules.packages(installed.versions(rules.PACKAGES), local)
        found.append(rules.installations(installed.places(Path(plugins) if plugins else airflow_home() / "plugins")))
        archives = [*self.settings.spark_py_files.split(","), self.settings.spark_worker_archive]
        found += rules.archives(archives, installed.own_version(), installed.host_platform())
        if any(self._master(p) for p in self.pipelines):
            found += impossible_jobs(self.pipelines, self._connections) + self._spark(local)
        folder = self.settings.pipelines_folder
        return [
            *found,
            ok("folder", f"{many(len(self.loaded), 'pipeline')} in {surroundings.pipelines_folder() or folder}"),
        ]

    def _master(self, pipeline: Pipeline) -> str:
        connection = self._connections.get(pipeline.ingest.spark_conn_id)
        return master_of(connection) if connection is not None else ""

    def _spark(self, local: bool) -> list[Finding]:
        binary, archive = self.settings.spark_binary, self.settings.spark_class_archive
        if shutil.which(binary) is None:
            mend = "AIRFLOW__TIDEGATE__SPARK_BINARY=<absolute path of spark-submit>"
            return [Finding("spark", WRONG, f"no executable {binary} here", "no batch can be written", mend)]
        found = [ok("spark", f"{shutil.which(binary)}")]
        if not local:
            return found
        if archive is not None and not archive.is_file():
            means = "each job starts some seconds slower"
            found.append(Finding("class archive", WARNING, f"{archive} is not there", means, "tidegate spark prepare"))
        found += _native_library()
        return found

    # ------------------------------------------------------------ Airflow

    def _airflow(self) -> list[Finding]:
        from sqlalchemy.exc import SQLAlchemyError

        from tidegate.adapters.airflow_facts import airflow_facts, database_address

        url = database_address()
        found = rules.executor(airflow_setting("core", "executor"))
        if url is None:
            return [*found, *self._no_airflow()]
        try:
            facts = airflow_facts(url, self.seconds)
        except (SQLAlchemyError, ModuleNotFoundError) as e:
            said = f"Airflow's database: {first_line(e)}"
            return [*found, rules.refused("airflow", "", said, "nothing runs without it", "airflow db check")]
        return found + self._of_airflow(facts)

    def _no_airflow(self) -> list[Finding]:
        if airflow_setting("database", "sql_alchemy_conn_cmd") or airflow_setting(
            "database", "sql_alchemy_conn_secret"
        ):
            said = "the address of Airflow's database comes from a command or a secrets backend"
            return [unknown("airflow", said, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=... tidegate doctor")]
        home = airflow_home()
        what = f"no Airflow here: {home / 'airflow.cfg'} does not say where its database is"
        mend = "run this where Airflow runs, with its environment (AIRFLOW_HOME, ...); for a trial: tidegate stack up"
        return [Finding("airflow", WRONG, what, "pools, DAGs and services could not be looked at", mend)]

    def _of_airflow(self, facts: AirflowFacts) -> list[Finding]:
        found = rules.services(facts.beats, facts.now_s)
        if facts.ahead_s is not None:
            found.append(rules.clock("Airflow's database", facts.ahead_s))
        wanted: dict[str, list[str]] = {}
        for p in self.pipelines:
            for pool in {p.ingest.pool, p.archive.pool, *((p.copy.pool,) if p.copy else ())}:
                wanted.setdefault(pool, []).append(p.name)
        found += rules.pools(wanted, facts.pools)
        pauses = surroundings.pauses(p.name for p in self.pipelines)
        for p in self.pipelines:
            found += rules.dags(p.name, dags_of(p), facts.dags, pauses.get(p.name))
        ours = [e for e in facts.import_errors if "tidegate" in e[0] or e[0].rpartition(":")[2].endswith(".yaml")]
        return found + rules.import_errors(ours) + parse_times.findings([p.name for p in self.pipelines], facts.dags)

    # ------------------------------------------------------------ the ledger

    def _ledger(self) -> list[Finding]:
        connection = self._connections.get(self.settings.ledger_conn_id)
        if connection is None:
            return []  # said with the connections
        from tidegate.ledger.health import examine
        from tidegate.wiring import ledger_url

        try:
            facts = examine(ledger_url(connection))
        except WrongRevision as e:
            means = "tasks refuse to run until it is"
            return [rules.refused("ledger", "ledger", str(e.args[0]), means, e.advice)]
        except TidegateError as e:
            mend = e.advice or f"is it up? airflow connections get {connection.conn_id}"
            return [rules.refused("ledger", "ledger", str(e.args[0]), "no task can run", mend)]
        found = [rules.clock("the ledger's database", facts.ahead_s)] if facts.ahead_s is not None else []
        if facts.forbidden:
            what = f"no right to {facts.forbidden}"
            mend = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO the connection's user"
            return [*found, rules.refused("ledger", "ledger", what, "tasks fail where they need it", mend)]
        found.append(ok("ledger", f"at revision {facts.revision}, may be read and written", "ledger"))
        return found + self._left_behind()

    def _left_behind(self) -> list[Finding]:
        """Specs that contradict what has landed; replays and rollbacks that stopped on their way."""
        from tidegate.workflow.base.context import contradiction

        found = []
        with surroundings.ledger() as ledger:
            specs = ledger.reads.newest_specs([p.name for p in self.pipelines])
            for p in self.pipelines:
                ctx = surroundings.context(p, ledger)
                error = contradiction(specs[p.name], ctx.pipeline) if p.name in specs else None
                if error is not None:
                    means = "each of its tasks stops before it does anything"
                    found.append(Finding("yaml", WRONG, str(error.args[0]), means, error.advice, p.name))
                for c in left_behind(p, ledger.replays.unfinished(p.name), ctx.clock.now_ms()):
                    means = "late rows of these windows wait, and what was written stays"
                    found.append(Finding("replays", WARNING, c.what, means, c.advice, p.name))
        return found

    # ------------------------------------------------------------ one pipeline

    def _kafka(self, pipeline: Pipeline) -> list[Finding]:
        """Of whatever kind the source is; the check is known by this name."""
        conn_id, kind = pipeline.source.conn_id, source_kind(pipeline.source.kind)
        ask = partial(self._away.ask, conn_id)
        return self._with(conn_id, lambda connection: kind.examined(pipeline, connection, self.seconds, ask))

    def _table(self, pipeline: Pipeline) -> list[Finding]:
        kind = target_kind(pipeline.sink.kind)
        return self._with(pipeline.sink.conn_id, lambda one: kind.examined(pipeline, one, self.seconds))

    def _delivery(self, pipeline: Pipeline, one: Delivery) -> list[Finding]:
        kind = delivery_kind(one.kind)
        return self._with(one.conn_id, lambda connection: kind.examined(pipeline, one, connection, self.seconds))

    def _with(self, conn_id: str, look: Callable[[Connection], list[Finding]]) -> list[Finding]:
        """Nothing without the connection: that it is missing is told elsewhere."""
        connection = self._connections.get(conn_id)
        return [] if connection is None else look(connection)

    def _copied(self, pipeline: Pipeline, server: CopiedServer) -> list[Finding]:
        from tidegate.cli import examined_copy

        if not {server.conn_id, server.connect_conn_id or server.conn_id} <= self._connections.keys():
            return []
        with surroundings.ledger() as ledger:
            ctx = surroundings.context(pipeline, ledger)
            return examined_copy.examined(ctx, server, self._connections.__getitem__, self.seconds / 2)

    def _storage(self, pipeline: Pipeline) -> list[Finding]:
        from tidegate.storage import probing
        from tidegate.storage.access import access_for

        sink, name = pipeline.sink, pipeline.name
        try:
            access = access_for(sink, self._connections.__getitem__)
        except KeyError:  # the connection is missing, as told elsewhere
            return []
        except TidegateError as e:
            return [rules.storage(name, sink.workdir, [], "be reached", str(e.args[0]))]
        probe = probing.probe_storage(sink.workdir, sink.user, access)
        found = [rules.storage(name, sink.workdir, probe.done, probe.failed, probe.said, probe.advice)]
        if probe.failed:
            return found
        same = probing.same_filesystem(sink.location, sink.workdir)
        found += rules.same_filesystem(name, sink.location, sink.workdir, same)
        space = probing.free_space(sink.location)
        return found if space is None else [*found, rules.space(name, sink.location, *space)]


def _each_database(pipelines: Iterable[Pipeline]) -> Iterable[Pipeline]:
    """One pipeline for each database of tables, or for each table where its kind is looked at so."""
    found = {}
    for p in pipelines:
        what = p.sink.table if target_kind(p.sink.kind).each_table else p.sink.table.partition(".")[0]
        found[p.sink.kind, p.sink.conn_id, what] = p
    return found.values()


def _filesystem(pipeline: Pipeline) -> str:
    """Whose server is asked for the pipeline's files."""
    scheme, _, rest = pipeline.sink.workdir.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _native_library() -> list[Finding]:
    try:
        from spark_jobs.engine import native
    except ImportError:
        return []  # the versions say what is missing
    why = native.why_not()
    if not why:
        return [ok("native library", f"messages are decoded by {native.named()}")]
    means = "rows are the same; jobs take about seven times the CPU"
    what = f"messages are decoded by the row rules in Python, because {why}"
    return [Finding("native library", WARNING, what, means, native.ADVICE)]
