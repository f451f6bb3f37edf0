"""Kinds of sources, tables and further systems by name: those of this release, then those that other packages bring.

A package brings one by an entry point of the group `tidegate.sources`, `tidegate.targets` or `tidegate.deliveries`,
whose name is the kind and whose object is a `SourceKind`, a `TargetKind` or a `DeliveryKind`. Nothing of a kind is
imported before someone asks for it; what a kind imports itself waits until its functions are called, since executors
and the scheduler ask for kinds too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import CatalogueError, DeliveryRefused, SourceError, TidegateError
from tidegate.core.spec import pipeline
from tidegate.core.target.port import Unit

if TYPE_CHECKING:  # every DAG file and every executor imports this module: what only types name is not loaded for them
    from importlib.metadata import EntryPoints

    from tidegate.core.batch.jobs import ReadPlan
    from tidegate.core.deliver.port import Checksum, FurtherSystem, Table
    from tidegate.core.doctor.findings import Finding
    from tidegate.core.failover.states import Standby
    from tidegate.core.source.port import Source, Traits
    from tidegate.core.source.records import Reader
    from tidegate.core.source.trouble import Remedy
    from tidegate.core.target.port import Targets
    from tidegate.core.target.stored import StoredForm

    Opened = Callable[[Connection, pipeline.Source, str, float], Source]
    """`opened(connection, source, client_id, timeout_s)`: connects at the first question. Raises SourceError."""
    StandbyOpened = Callable[[Connection, pipeline.Source, str, float], Standby]
    Examined = Callable[[pipeline.Pipeline, Connection, float, Callable[[Callable[[], Any]], Any]], list[Finding]]
    """`examined(pipeline, connection, seconds, ask)`: what `tidegate doctor` finds; the first question goes by `ask`,
    which knows whether the server has left another one unanswered."""
    SystemOpened = Callable[[Mapping[str, Any], Table, Checksum, float], FurtherSystem]
    """`opened(settings, table, checksum, timeout_s)`: connects at the first question."""

_K = TypeVar("_K")


# ---------------------------------------------------------------- sources


@dataclass(frozen=True, kw_only=True)
class SourceKind:
    """Kind of source, as the rest of Tidegate knows it. `title` is its name for people.

    `connection_types`: of Airflow connections that fit. `section`: the pydantic model of its YAML section, a subclass
    of `tidegate.spec.source.SourceSection`. `reader(plan, settings)`: the worker's side, secrets included.
    `numbering`: keys of its own by which lanes have their numbers: lists that are appended to and never reordered.
    `problems`: (path in the YAML, what is wrong) of a pipeline that such a source cannot feed. `standby`: its log at
    another site, as `opened`; None: it has no further sites."""

    name: str
    title: str
    traits: Traits
    connection_types: tuple[str, ...]
    remedy: Remedy
    section: Callable[[], type[Any]]
    opened: Opened
    examined: Examined
    reader: Callable[[ReadPlan, dict[str, Any]], Reader]
    numbering: tuple[str, ...] = ()
    problems: Callable[[pipeline.Pipeline], list[tuple[tuple[str | int, ...], str]]] = lambda pipeline: []
    standby: StandbyOpened | None = None


def found_at(place: str) -> Callable[[], Any]:
    """Gives what stands at `module:name`; the module is imported by the first call."""
    module, _, name = place.partition(":")
    return lambda: getattr(import_module(module), name)


def late(place: str) -> Callable[..., Any]:
    """What stands at `module:name`, to be called; the module is imported by the first call."""

    def called(*given: Any, **named: Any) -> Any:
        return found_at(place)()(*given, **named)

    return called


# ---------------------------------------------------------------- tables

Connect = Callable[[str], Connection]
"""An Airflow connection by its id. Raises ConnectionMissing."""


@dataclass(frozen=True)
class Need:
    """A connection that a pipeline's tables are reached by. `types`: those that fit; empty: any.

    `port`: of a server that is tried by its address alone, where the connection has none; None: `examined` asks it."""

    conn_id: str
    types: tuple[str, ...] = ()
    port: int | None = None


DAGS = ("ingest", "archive", "replay", "maintain")


@dataclass(frozen=True, kw_only=True)
class TargetKind:
    """All that the rest knows of a kind of table. `title` is how people call it; what a person does about a table's
    troubles is said by the table itself (`core.target.port`).

    `section`: the pydantic model of its YAML section, a subclass of `tidegate.spec.sink.SinkSection`.
    `opened(pipeline, connect, looking)`: `looking` asks for no connection before the first question, and changes
    nothing. `examined(pipeline, connection, seconds)`: what `tidegate doctor` finds, by the connection that
    `sink.conn_id` names; it is asked once for all tables of a database, or, with `each_table`, for each.
    `dags`: those that its pipelines have.
    `names_files`: its readers are told of each file, wherever it lies: two generations can have the same files.
    `stored`: what its files hold, if that is more than the logical columns, or other; workers ask for it too.
    `unit`: what is published at once. A pipeline whose unit is no window is asked for none in its YAML.
    `follows`: a window is built on the one before, and waits until that is published.
    `promotes`: its readers take an `int` of an old file for the `bigint` that the column has become.
    `fixed`: keys of its own section that stay as they were when the first batch was planned.
    `problems`: (path in the YAML, what is wrong) of a pipeline that such a table cannot take."""

    name: str
    title: str
    needs: Callable[[pipeline.Pipeline], list[Need]]
    section: Callable[[], type[Any]]
    opened: Callable[[pipeline.Pipeline, Connect, bool], Targets]
    examined: Callable[[pipeline.Pipeline, Connection, float], list[Finding]]
    each_table: bool = False
    dags: tuple[str, ...] = DAGS
    names_files: bool = False
    stored: Callable[[], StoredForm] | None = None
    unit: Unit = Unit.WINDOW
    follows: bool = False
    promotes: bool = False
    fixed: tuple[str, ...] = ()
    problems: Callable[[pipeline.Pipeline], list[tuple[tuple[str | int, ...], str]]] = lambda pipeline: []


def dags_of(spec: pipeline.Pipeline) -> tuple[str, ...]:
    """Kinds of DAGs that a pipeline has."""
    *own, maintain = target_kind(spec.sink.kind).dags
    if spec.copy is not None:
        own += ["copy"] if spec.copy.compare is None else ["copy", "compare"]
    return (*own, *(("deliver",) if spec.deliver else ()), maintain)


# ---------------------------------------------------------------- further systems


@dataclass(frozen=True, kw_only=True)
class DeliveryKind:
    """Kind of further system. `title` is its name for people.

    `connection_types`: of Airflow connections that fit; `port`: of a server whose connection has none.
    `section`: the pydantic model of its keys in the YAML, a subclass of `tidegate.spec.deliver.DeliverySection`.
    `needs(delivery)`: connections beside that of `conn_id`. `settings(connection, *those)`: what its process needs,
    secrets included; it travels by a pipe. Raises ConnectionMissing, DeliveryRefused. `opened` is called in that
    process, which has the worker's libraries.
    `examined(pipeline, delivery, connection, seconds)`: what `tidegate doctor` finds.
    `problems(pipeline, delivery)`: (key of the section, what is wrong) of a pipeline that it cannot take."""

    name: str
    title: str
    connection_types: tuple[str, ...]
    port: int
    section: Callable[[], type[Any]]
    settings: Callable[..., dict[str, Any]]
    opened: SystemOpened
    examined: Callable[[pipeline.Pipeline, pipeline.Delivery, Connection, float], list[Finding]]
    problems: Callable[[pipeline.Pipeline, pipeline.Delivery], list[tuple[str, str]]] = lambda pipeline, delivery: []
    needs: Callable[[pipeline.Delivery], list[Need]] = lambda delivery: []


# ---------------------------------------------------------------- how they are found


class Kinds(Generic[_K]):
    """Those of one port, whose packages use the entry points of `group`. `own`: where those of this release are, by
    name. `stores`: those that the YAML names by the keys `kind` and `store` together."""

    def __init__(
        self,
        port: str,
        own: Mapping[str, str],
        made: type[_K],
        error: type[TidegateError],
        stores: Mapping[tuple[str, str], str] = MappingProxyType({}),
    ) -> None:
        self.port, self.own, self.stores, self._made, self._error = port, own, stores, made, error
        self._found: dict[str, _K] = {}
        self.group = "tidegate.deliveries" if port == "delivery" else f"tidegate.{port}s"

    def get(self, name: str) -> _K:
        """Raises SourceError or CatalogueError for a kind that is not installed here."""
        if name not in self._found:
            self._found[name] = self._load(name)
        return self._found[name]

    def _load(self, name: str) -> _K:
        if name in self.own:
            module, _, attribute = self.own[name].partition(":")
            found = getattr(import_module(module), attribute)
        else:
            brought = next(iter(_brought(self.group).select(name=name)), None)
            if brought is None:
                key = {"target": "sink.kind", "delivery": "deliver.kind"}.get(self.port, f"{self.port}.kind")
                raise self._error(
                    f"there is no kind of {self.port} {name}; there are: {', '.join(self.names())}",
                    advice=f"install the package that brings it here too, or fix {key}",
                    retry=False,
                )
            found = brought.load()
        assert isinstance(found, self._made)
        return found

    def __contains__(self, name: object) -> bool:
        """Whether such a kind is installed here."""
        return name in self.own or (isinstance(name, str) and name in _brought(self.group).names)

    def names(self) -> list[str]:
        """Values that the key `kind` has here."""
        own = self.own.keys() - self.stores.values()
        return sorted({*own, *(point.name for point in _brought(self.group))})

    def in_yaml(self, name: str) -> str:
        """The value of the key `kind` that means it."""
        return next((kind for (kind, _), of in self.stores.items() if of == name), name)

    def forget(self) -> None:
        """For tests, which install kinds as they go."""
        self._found.clear()


@functools.cache
def _brought(group: str) -> EntryPoints:
    """What other packages bring. The module costs more to import than all of this one: most processes never need it."""
    from importlib.metadata import entry_points

    return entry_points(group=group)


_SOURCES = {
    "kafka": "tidegate.sources.kafka:KIND",
    "rocketmq": "tidegate.sources.rocketmq:KIND",
    "database": "tidegate.sources.database:KIND",
}
SOURCES = Kinds("source", _SOURCES, SourceKind, SourceError)
_TARGETS = {
    "hive": "tidegate.targets.hive.kind:KIND",
    "iceberg": "tidegate.targets.iceberg.kind:KIND",
    "mirror": "tidegate.targets.mirror.kind:KIND",
    "hive_daily": "tidegate.targets.daily.kind:KIND",
}
_STORES = {("mirror", "hive_daily"): "hive_daily"}
TARGETS = Kinds("target", _TARGETS, TargetKind, CatalogueError, _STORES)
_DELIVERIES = {
    "clickhouse": "tidegate.targets.clickhouse.kind:KIND",
    "cluster": "tidegate.targets.cluster.kind:KIND",
    "postgresql": "tidegate.targets.relational.kind:POSTGRESQL",
    "mariadb": "tidegate.targets.relational.kind:MARIADB",
    "mysql": "tidegate.targets.relational.kind:MYSQL",
}
DELIVERIES = Kinds("delivery", _DELIVERIES, DeliveryKind, DeliveryRefused)
source_kind = SOURCES.get
delivery_kind = DELIVERIES.get
target_kind = TARGETS.get
