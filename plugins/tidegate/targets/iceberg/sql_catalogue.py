"""The standard catalogue in a database: the tables that Spark's JdbcCatalog and pyiceberg's SqlCatalog use too.

pyiceberg's own needs SQLAlchemy 2, and Airflow 2.11 has 1.4; this one works with both. A commit is one UPDATE that
names the metadata file that was loaded (C1): a request that is executed late finds another one and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import Properties
from sqlalchemy import Column, MetaData, String, Table, create_engine, event, inspect, select, text, update
from sqlalchemy.engine import Connection, Engine, make_url
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from tidegate.core.base.errors import CatalogueError, CatalogueMismatch, CatalogueUnsure
from tidegate.core.base.storage import Storage
from tidegate.targets.iceberg import metadata as files
from tidegate.targets.iceberg.catalogue import Conflict, Loaded, as_loaded, split_name
from tidegate.targets.iceberg.file_io import StorageIO

T = TypeVar("T")

TYPE = "iceberg_type"
"""A column of the newer schema (v1), which also has views; without it (v0) all rows are tables."""
_NAMELESS = "another client has left its row in iceberg_tables unfinished: drop the table there, or fix sink.table"
_CHECK = "run `tidegate doctor`, or check the connection that sink.catalog_conn_id names"


class SqlCatalogue:
    """Implements `targets.iceberg.catalogue.Catalogue` on PostgreSQL or SQLite. Connects for each transaction.

    `catalog`: the name under which it stands in the tables; Spark's is that of its `spark.sql.catalog.<name>`."""

    def __init__(self, url: str, catalog: str, storage: Storage, seconds: float, *, schema: str | None = None) -> None:
        self._io, self._catalog, self._seconds = StorageIO(storage), catalog, seconds
        self._engine = _engine(url, seconds)
        parsed = make_url(url)
        self.address = f"{parsed.host}:{parsed.port or 5432}/{parsed.database}" if parsed.host else str(parsed.database)
        kept = MetaData(schema=schema)
        self._tables = Table(
            "iceberg_tables",
            kept,
            *(
                Column(name, String(255), primary_key=True)
                for name in ("catalog_name", "table_namespace", "table_name")
            ),
            Column("metadata_location", String(1000)),
            Column("previous_metadata_location", String(1000)),
            Column(TYPE, String(5)),
        )
        self._namespaces = Table(
            "iceberg_namespace_properties",
            kept,
            *(Column(name, String(255), primary_key=True) for name in ("catalog_name", "namespace", "property_key")),
            Column("property_value", String(1000)),
        )

    def load(self, name: str) -> Loaded | None:
        row = self._row(*split_name(name))
        if row is None:
            return None
        if row.get(TYPE) not in (None, "TABLE"):
            raise CatalogueMismatch(f"{name} is a view in the catalogue at {self.address}", advice="fix sink.table")
        if not row["metadata_location"]:
            raise CatalogueMismatch(f"{name} has no metadata file in the catalogue at {self.address}", advice=_NAMELESS)
        return files.read(name, self._io, str(row["metadata_location"]))

    def create(self, name: str, schema: Schema, spec: PartitionSpec, location: str, properties: Properties) -> Loaded:
        namespace, table = split_name(name)
        made = files.new(schema, spec, location, properties)
        self._prepare(namespace)
        place = self._written(made, None)
        row = {
            "catalog_name": self._catalog,
            "table_namespace": namespace,
            "table_name": table,
            "metadata_location": place,
            "previous_metadata_location": None,
        }

        def insert(connection: Connection) -> None:
            typed = TYPE in set(connection.execute(select(text("*")).select_from(self._tables).limit(0)).keys())
            connection.execute(self._tables.insert().values({**row, TYPE: "TABLE"} if typed else row))

        self._change(insert, f"{name}: somebody else has made the table")
        return Loaded(name, made, place, self._io)

    def commit(
        self, loaded: Loaded, requirements: Iterable[TableRequirement], updates: Iterable[TableUpdate]
    ) -> Loaded:
        after = files.changed(loaded, (*as_loaded(loaded), *requirements), updates)
        place = self._written(after, loaded.metadata_location)
        namespace, table = split_name(loaded.name)
        statement = (
            update(self._tables)
            .where(*self._is(namespace, table), self._tables.c.metadata_location == loaded.metadata_location)
            .values(metadata_location=place, previous_metadata_location=loaded.metadata_location)
        )

        def compare_and_set(connection: Connection) -> None:
            if connection.execute(statement).rowcount != 1:
                raise Conflict(f"{loaded.name}: somebody else has changed the table since it was loaded")

        self._change(compare_and_set, f"{loaded.name}: somebody else has changed the table")
        return Loaded(loaded.name, after, place, self._io)

    def answers(self) -> bool:
        try:
            self._look(lambda connection: connection.execute(text("SELECT 1")))
            return True
        except CatalogueError:
            return False

    def _written(self, metadata: TableMetadata, before: str | None) -> str:
        place = files.place(metadata, before)
        files.write(metadata, self._io, place)
        return place

    def _is(self, namespace: str, table: str) -> tuple[Any, ...]:
        c = self._tables.c
        return c.catalog_name == self._catalog, c.table_namespace == namespace, c.table_name == table

    def _row(self, namespace: str, table: str) -> dict[str, Any] | None:
        """The table's row, all its columns by name; None also where the catalogue has no tables of its own yet."""
        wanted = select(text("*")).select_from(self._tables).where(*self._is(namespace, table))
        try:
            found = self._look(lambda connection: connection.execute(wanted).mappings().first())
        except CatalogueError:
            if self._look(lambda c: inspect(c).has_table(self._tables.name, schema=self._tables.schema)):
                raise
            return None
        return None if found is None else dict(found)

    def _prepare(self, namespace: str) -> None:
        """Make the catalogue's own tables and the namespace, for which Java asks."""
        c = self._namespaces.c
        there = select(c.namespace).where(c.catalog_name == self._catalog, c.namespace == namespace)
        row = {
            "catalog_name": self._catalog,
            "namespace": namespace,
            "property_key": "exists",
            "property_value": "true",
        }

        def make(connection: Connection) -> None:
            if connection.execute(there).first() is None:
                connection.execute(self._namespaces.insert().values(row))

        for each in (self._tables.metadata.create_all, make):
            try:
                self._change(each, "")
            except CatalogueUnsure:
                raise
            except CatalogueError:  # another process has just made it? Both look first
                self._change(each, "")

    # ------------------------------------------------------------ transactions

    def _look(self, ask: Callable[[Connection], T]) -> T:
        with self._said(), self._engine.connect() as connection, connection.begin():
            self._limited(connection)
            return ask(connection)

    def _change(self, make: Callable[[Connection], None], taken: str) -> None:
        """One transaction. Without a COMMIT it cannot be executed: until then each error is an answer."""
        with self._said(), self._engine.connect() as connection:
            transaction = connection.begin()
            try:
                self._limited(connection)
                make(connection)
            except BaseException as error:
                try:
                    transaction.rollback()
                except SQLAlchemyError:
                    pass  # the connection is lost, and the transaction with it
                if isinstance(error, IntegrityError):
                    raise Conflict(taken) from error
                raise
            try:
                transaction.commit()
            except SQLAlchemyError as error:
                raise CatalogueUnsure(
                    f"the catalogue at {self.address} has not answered a commit: {_words(error)}; it may have been "
                    "executed, or still be"
                ) from error

    def _limited(self, connection: Connection) -> None:
        if connection.dialect.name == "postgresql":  # not as an option of the connection: poolers refuse those
            ms = int(self._seconds * 1000)
            connection.exec_driver_sql(  # the second one: a host that stops in the middle would keep its lock
                f"SET LOCAL statement_timeout = {ms}; SET LOCAL idle_in_transaction_session_timeout = {ms}"
            )

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise CatalogueError(f"the catalogue at {self.address}: {_words(error)}", advice=_CHECK) from error


def _engine(url: str, seconds: float) -> Engine:
    if make_url(url).get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": seconds}, poolclass=NullPool)
        event.listen(engine, "connect", _no_transactions_of_its_own)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        return engine
    limits = {"connect_timeout": max(2, int(seconds)), "tcp_user_timeout": int(seconds * 1000)}
    given = {name: value for name, value in limits.items() if name not in make_url(url).query}
    return create_engine(
        url, connect_args=given, poolclass=NullPool, isolation_level="READ COMMITTED", use_native_hstore=False
    )  # hstore's type would be asked for at each connection


def _no_transactions_of_its_own(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # pysqlite would begin late, after what was read


def _words(error: SQLAlchemyError) -> str:
    """The database's message, without the statement and its values."""
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
