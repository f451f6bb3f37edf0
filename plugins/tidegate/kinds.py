"""Kinds of sources by name: those of this release, then those that other packages bring.

A package brings one by an entry point of the group `tidegate.sources`, whose name is the kind and whose object is a
`SourceKind`. Nothing of a kind is imported before someone asks for it; what a kind imports itself waits until its
functions are called, since executors and the scheduler ask for kinds too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.core.base.errors import SourceError
from tidegate.core.batch.jobs import ReadPlan
from tidegate.core.doctor.findings import Finding
from tidegate.core.source.port import Source, Traits
from tidegate.core.source.records import Reader
from tidegate.core.source.trouble import Remedy
from tidegate.core.spec import pipeline

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

GROUP = "tidegate.sources"
SOURCES = {"kafka": "tidegate.sources.kafka:KIND", "rocketmq": "tidegate.sources.rocketmq:KIND"}


class Fields(Protocol):
    """An Airflow connection."""

    @property
    def host(self) -> str | None: ...
    @property
    def port(self) -> int | None: ...
    @property
    def login(self) -> str | None: ...
    @property
    def password(self) -> str | None: ...
    @property
    def extra(self) -> Mapping[str, Any]: ...


Opened = Callable[[Fields, pipeline.Source, str, float], Source]
"""`opened(connection, source, client_id, timeout_s)`: connects at the first question. Raises SourceError."""
Examined = Callable[[pipeline.Pipeline, Fields, float, Callable[[Callable[[], Any]], Any]], list[Finding]]
"""`examined(pipeline, connection, seconds, ask)`: what `tidegate doctor` finds; the first question goes by `ask`, which
knows whether the server has left another one unanswered."""


@dataclass(frozen=True, kw_only=True)
class SourceKind:
    """All that the rest knows of a kind of source. `title` is how people call it.

    `connection_types`: of Airflow connections that fit. `section`: the pydantic model of its YAML section, a subclass
    of `tidegate.spec.source.SourceSection`. `reader(plan, settings)`: the worker's side, secrets included.
    `numbering`: keys of its own by which lanes have their numbers: lists that are appended to and never reordered."""

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


def late(place: str) -> Callable[..., Any]:
    """What stands at `module:name`, to be called; the module is imported by the first call."""

    def called(*given: Any, **named: Any) -> Any:
        module, _, name = place.partition(":")
        return getattr(import_module(module), name)(*given, **named)

    return called


@functools.cache
def _brought() -> EntryPoints:
    """What other packages bring. The module costs more to import than all of this one: most processes never need it."""
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


@functools.cache
def source_kind(name: str) -> SourceKind:
    """Raises SourceError for a kind that is not installed here."""
    if name in SOURCES:
        module, _, attribute = SOURCES[name].partition(":")
        found = getattr(import_module(module), attribute)
    else:
        brought = next(iter(_brought().select(name=name)), None)
        if brought is None:
            raise SourceError(
                f"there is no kind of source {name}; there are: {', '.join(source_kinds())}",
                advice="install the package that brings it here too, or fix source.kind",
            )
        found = brought.load()
    assert isinstance(found, SourceKind)
    return found


def is_source_kind(name: object) -> bool:
    """Whether such a kind is installed here."""
    return name in SOURCES or (isinstance(name, str) and name in _brought().names)


def source_kinds() -> list[str]:
    """Names of the kinds that are installed here."""
    return sorted({*SOURCES, *(point.name for point in _brought())})
