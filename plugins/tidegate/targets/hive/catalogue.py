"""The catalogue port on HiveServer2 or Spark's Thrift server, through PyHive.

A call that changes something returns (done), raises CatalogueError (the server refused, and will not do it later) or
CatalogueUnsure (no answer: it may have been executed, or still be). Of a call that needs several statements those
before the refused one have been executed; every call can simply be made again. The last statement of a call is sent
within `request_timeout_s` of the first and waited for as long, so that a call's life is bounded by twice that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, TypeVar

from tidegate.core.base.errors import CatalogueError, CatalogueMismatch, CatalogueUnsure
from tidegate.core.base.partition_values import PartitionValues, partition_path
from tidegate.targets.hive import sql as sql
from tidegate.targets.hive.link import AnswerLost, Endpoint, Link
from tidegate.targets.hive.otherwise import otherwise
from tidegate.targets.hive.ports import TableDef
from tidegate.targets.hive.sessions import Sessions

CHUNK = 100
"""Partitions per statement; a metastore adds them in one transaction of its own."""

_AUTH_ALIASES = {"PLAIN": "LDAP", "GSSAPI": "KERBEROS", "": "NONE"}
# Spark shortens a struct of more than 25 fields in DESCRIBE; Hive ignores the setting.
_DESCRIBE = {"spark.sql.debug.maxToStringFields": "100000"}
# Hive refuses its own default partition's name in ADD PARTITION: it compares with the first setting, and where the
# column isn't text the second makes it look whether the name is a number. Spark needs and minds neither.
_ADD_DEFAULT = {"hive.exec.default.partition.name": "__TIDEGATE_NO_PARTITION__"}
_ADD_UNTYPED = {"hive.typecheck.on.insert": "false"}
_ALLOW = "hive.security.authorization.sqlstd.confwhitelist.append"
_T = TypeVar("_T")
_Located = list[tuple[PartitionValues, str]]


class PyHiveCatalogue:
    """A session for each call, closed at its end unless `keeping_sessions`; safe to share between threads."""

    def __init__(
        self,
        host: str,
        port: int = 10000,
        *,
        username: str = "airflow",
        password: str | None = None,
        auth: str = "NONE",
        kerberos_service_name: str = "hive",
        database: str = "default",
        configuration: Mapping[str, str] | None = None,
        connect_timeout_s: float = 10.0,
        request_timeout_s: float = 240.0,
    ) -> None:
        """`auth`: NONE | NOSASL | LDAP | CUSTOM | KERBEROS. `database` is where `execute` starts.

        `configuration` are settings for each session. Raises CatalogueError for an unknown `auth`."""
        self._endpoint = Endpoint(
            host=host,
            port=port,
            username=username,
            password=password,
            auth=auth,
            kerberos_service_name=kerberos_service_name,
            connect_timeout_s=connect_timeout_s,
            request_timeout_s=request_timeout_s,
        )
        self._sessions = Sessions(self._endpoint)
        self._database = database
        self._settings = dict(configuration or {})
        self._tables: dict[str, sql.Description] = {}

    @classmethod
    def from_connection_fields(
        cls,
        host: str | None,
        port: int | None = None,
        login: str | None = None,
        password: str | None = None,
        schema: str | None = None,
        extra: Mapping[str, object] | None = None,
        *,
        connect_timeout_s: float = 10.0,
        request_timeout_s: float = 240.0,
    ) -> PyHiveCatalogue:
        """The fields of Airflow's `hiveserver2` connection.

        Of `extra` count auth_mechanism (or authMechanism), kerberos_service_name and configuration (session settings,
        an object); run_set_variable_statements concerns Airflow's own hook only. Raises CatalogueError."""
        extra = extra or {}
        if not host:
            raise sql.refused("the hiveserver2 connection has no host", "set it in Airflow's connection")
        auth = str(extra.get("auth_mechanism") or extra.get("authMechanism") or "").upper()
        configuration = extra.get("configuration") or {}
        if not isinstance(configuration, Mapping):
            raise sql.refused("the hiveserver2 connection's extra `configuration` is not an object of settings")
        return cls(
            host,
            port or 10000,
            username=login or "airflow",
            password=password or None,
            auth=_AUTH_ALIASES.get(auth, auth),
            kerberos_service_name=str(extra.get("kerberos_service_name") or "hive"),
            database=schema or "default",
            configuration={str(key): str(value) for key, value in configuration.items()},
            connect_timeout_s=connect_timeout_s,
            request_timeout_s=request_timeout_s,
        )

    def keeping_sessions(self) -> AbstractContextManager[None]:
        """Inside, a call leaves its session to the next one: to open one costs the server as much as a statement."""
        return self._sessions.keeping()

    def ensure_table(self, table: TableDef) -> None:
        """Create database and table if absent. Raises CatalogueMismatch when the table is another one."""
        self._change([sql.create_database(table.name), sql.create_table(table)])
        found = self._describe(table.name)
        sql.check_same(table, found)
        self._tables[table.name] = found

    def check_table(self, table: TableDef) -> None:
        """Looks only. Raises CatalogueMismatch for a table that no publication would take."""
        sql.check_publishable(table, self._describe(table.name))

    def evolve_table(self, table: TableDef) -> list[str]:
        """Give the table that is there the columns of `table`; what was changed, in words. Raises CatalogueMismatch."""
        wanted = sql.evolution(table, self._describe(table.name))
        if not wanted.alter_table:
            return []
        for statement in sql.alterations(table, wanted):
            self._alter(statement)
        sql.check_same(table, self._describe(table.name))
        return wanted.words()

    def partitions(self, table: str, prefix: PartitionValues = ()) -> dict[PartitionValues, str]:
        """Location (URI, `file:///x`) of every partition whose first values are `prefix`.

        One SHOW PARTITIONS, and a DESCRIBE for each partition: neither endpoint lists locations."""
        return self.examine(table, prefix)[0]

    def examine(
        self, table: str, prefix: PartitionValues = ()
    ) -> tuple[dict[PartitionValues, str], dict[PartitionValues, str]]:
        """Their locations; and of those that read files otherwise than the table, how. By the same statements."""
        prefix = sql.canonical(prefix)
        self._check_names(table, prefix, whole=False)

        def ask(link: Link) -> tuple[dict[PartitionValues, str], dict[PartitionValues, str]]:
            found = {v: one for v in _listed(link, table, prefix) if (one := _located(link, table, v)) is not None}
            return {v: one.location for v, one in found.items()}, self._otherwise(link, table, found)

        return self._read(ask)

    def add_partitions(self, table: str, locations: dict[PartitionValues, str]) -> None:
        """ADD IF NOT EXISTS, several in one statement; one that exists keeps its location."""
        wanted = [(sql.canonical(values), location) for values, location in locations.items()]
        for values, _ in wanted:
            self._check_names(table, values)
        named = [one for one in wanted if None not in dict(one[0]).values()]
        self._change(sql.add_partitions(table, chunk) for chunk in _chunks(named))
        self._add_with_null(table, [one for one in wanted if None in dict(one[0]).values()])

    def set_location(self, table: str, values: PartitionValues, location: str) -> None:
        """Raises CatalogueError when there is no such partition."""
        values = sql.canonical(values)
        self._check_names(table, values)
        try:
            self._change([sql.set_location(table, values, location)])
        except CatalogueError as error:
            if not (sql.is_uri(location) or isinstance(error, CatalogueUnsure)):
                error.advice = f"HiveServer2 takes only a URI here, without blanks and <>|{{}}`: {location!r}"
            raise

    def drop_partitions(self, table: str, values: list[PartitionValues]) -> None:
        """Metadata only; done if absent."""
        wanted = [sql.canonical(each) for each in values]
        for each in wanted:
            self._check_names(table, each)
        self._change(sql.drop_partitions(table, chunk) for chunk in _chunks(wanted))

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """An operator's own statement (`archive.on_publish`), in the connection's database; its rows, if any."""
        with self._sessions.link(self._database, self._settings) as link:
            try:
                return link.query(statement)
            except AnswerLost as error:
                raise sql.unsure(error) from error

    def first_rows(self, query: str, at_most: int) -> list[tuple[Any, ...]]:
        """The first rows of a query in the connection's database. Raises CatalogueError."""
        with self._sessions.link(self._database, self._settings) as link:
            try:
                return link.query(query, at_most)
            except AnswerLost as error:
                raise sql.unsure(error) from error

    def _alter(self, statement: str) -> None:
        try:
            self._change([sql.cascading(statement)])
        except CatalogueUnsure:
            raise
        except CatalogueError as error:
            if "PARSE_SYNTAX_ERROR" not in str(error):
                raise _unable(error) from error
            try:
                self._change([statement])
            except CatalogueUnsure:
                raise
            except CatalogueError as plain:
                raise _unable(plain) from plain

    def _add_with_null(self, table: str, wanted: _Located) -> None:
        types = self._tables[table].partitions
        typed = any(types[name] != "string" for values, _ in wanted for name, value in values if value is None)
        settings = _ADD_DEFAULT | (_ADD_UNTYPED if typed else {})
        try:
            self._change((sql.add_partitions(table, chunk) for chunk in _chunks(wanted)), settings)
        except CatalogueUnsure:
            raise
        except CatalogueError as error:
            if any(name in str(error) for name in settings):
                error.advice = (
                    f"a null partition value needs {', '.join(settings)}: allow them in the server's {_ALLOW}"
                )
            raise

    # ------------------------------------------------------------ asking

    def _change(self, statements: Iterable[str], settings: Mapping[str, str] | None = None) -> None:
        statements = list(statements)
        if not statements:
            return
        began = time.monotonic()
        with self._sessions.link(settings=self._settings | dict(settings or {})) as link:
            for number, statement in enumerate(statements):
                if time.monotonic() - began > self._endpoint.request_timeout_s:
                    raise CatalogueError(
                        f"Hive at {self._endpoint.address} is slow: {number} of {len(statements)} statements executed "
                        f"in {self._endpoint.request_timeout_s:g} s, the others not sent"
                    )
                try:
                    link.change(statement)
                except AnswerLost as error:
                    raise sql.unsure(error) from error

    def _read(self, ask: Callable[[Link], _T]) -> _T:
        """A dropped connection is worth a second one; a silent server has taken its time already."""
        for last in (False, True):
            try:
                with self._sessions.link(settings=self._settings | _DESCRIBE) as link:
                    return ask(link)
            except AnswerLost as error:
                if last or error.timed_out:
                    raise CatalogueError(str(error)) from error
        raise AssertionError("unreachable")

    def _describe(self, table: str) -> sql.Description:
        return self._read(lambda link: sql.read_description(link.query(sql.describe(table))))

    def _otherwise(
        self, link: Link, table: str, found: Mapping[PartitionValues, sql.Description]
    ) -> dict[PartitionValues, str]:
        suspects = [values for values, one in found.items() if otherwise(self._tables[table], one)]
        if not suspects:
            return {}
        # somebody may have altered the table, and its partitions with it, since it was described
        now = self._tables[table] = sql.read_description(link.query(sql.describe(table)))
        again = ((values, _located(link, table, values)) for values in suspects)
        told = {values: otherwise(now, one) for values, one in again if one is not None}
        return {values: words for values, words in told.items() if words}

    def _check_names(self, table: str, values: PartitionValues, *, whole: bool = True) -> None:
        """DROP PARTITION with a part of the columns drops every partition that matches: never let one through."""
        if table not in self._tables:
            self._tables[table] = self._describe(table)
        columns = tuple(self._tables[table].partitions)
        names = tuple(name.lower() for name, _ in values)
        if names != (columns if whole else columns[: len(names)]):
            raise sql.refused(f"{table} is partitioned by ({', '.join(columns)}), not by ({', '.join(names)})")


def _unable(error: CatalogueError) -> CatalogueError:
    """Spark's endpoint never changes the type of a column: a definite answer that no retry mends."""
    if "NOT_SUPPORTED_CHANGE_COLUMN" not in str(error):
        return error
    return CatalogueMismatch(
        "this endpoint cannot change the type of a column",
        advice="let sink.conn_id name a HiveServer2, or take the change of the column back",
    )


def _located(link: Link, table: str, values: PartitionValues) -> sql.Description | None:
    """The partition, with its location; None if somebody dropped it since it was listed."""
    try:
        found = sql.read_description(link.query(sql.describe(table, values)))
    except CatalogueError:
        if values in _listed(link, table, values):
            raise
        return None
    if not found.location:
        raise CatalogueError(f"Hive names no location for {table} {partition_path(values)}")
    return found


def _listed(link: Link, table: str, prefix: PartitionValues) -> list[PartitionValues]:
    rows = link.query(sql.show_partitions(table, prefix))
    return [values for values in sql.read_partitions(rows) if sql.starts_with(values, prefix)]


def _chunks(items: Iterable[_T]) -> Iterator[list[_T]]:
    rest = iter(items)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk
