"""The section `completeness`: which keys go together, and what it is compiled to."""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidegate.core.base.fields import read_as
from tidegate.core.completeness.rules import NAMED_PARAMETER
from tidegate.core.spec.pipeline import COUNT_PARAMETERS, KAFKA, Completeness
from tidegate.spec.problems import Problem
from tidegate.spec.values import nearest

if TYPE_CHECKING:
    from tidegate.spec.model import PipelineSpec


_OWN = {
    "sql": {"query": True},
    "http": {"path": True, "count": False},
    "topic": {"topic": True, "window": False, "count": False, "source": False},
}
"""Keys of one kind of source, and whether it needs them."""


def check(spec: PipelineSpec) -> Iterator[Problem]:
    """Every problem of the section's keys together."""
    given = spec.completeness
    if given is None:
        return
    own = _OWN[given.from_]
    for name in ("query", "path", "topic", "window", "count", "source"):
        value = getattr(given, name)
        if value is not None and name not in own:
            kinds = " and ".join(kind for kind, keys in _OWN.items() if name in keys)
            yield Problem(("completeness", name), f"has a meaning with from: {kinds} only, not with {given.from_}")
        elif value is None and own.get(name):
            yield Problem(("completeness", name), f"is required with from: {given.from_}")
    if given.conn_id is None and given.from_ != "topic":
        yield Problem(("completeness", "conn_id"), f"is required with from: {given.from_}")
    elif given.conn_id in (None, spec.source.conn_id) and given.from_ == "topic" and spec.source.kind != KAFKA:
        message = f"must name a kafka connection: counts come from Kafka, and the source is {spec.source.kind}"
        yield Problem(("completeness", "conn_id"), message)
    if given.query is not None and given.from_ == "sql":
        yield from _parameters(("completeness", "query"), NAMED_PARAMETER.findall(given.query), ":{}")
    if given.path is not None and given.from_ == "http":
        yield from _template(given.path)
    if given.from_ == "topic" and given.topic == spec.source.topic and given.conn_id in (None, spec.source.conn_id):
        yield Problem(("completeness", "topic"), "is the topic that the pipeline reads: counts come on another one")
    if given.policy == "warn" and given.patience is not None:
        yield Problem(("completeness", "patience"), "has a meaning with policy: wait only; leave it out")


def _template(path: str) -> Iterator[Problem]:
    where = ("completeness", "path")
    try:
        parts = list(string.Formatter().parse(path))
    except ValueError as e:
        yield Problem(where, f"is not a path with names in braces: {e}; a brace itself is written twice")
        return
    if not path.startswith("/") or any(c.isspace() or not c.isprintable() for c in path):
        yield Problem(where, "must begin with / and hold no spaces")
    elif any(spec or conversion for _, _, spec, conversion in parts):
        yield Problem(where, "names in braces take no format")
    else:
        yield from _parameters(where, [name for _, name, _, _ in parts if name is not None], "{{{}}}")


def _parameters(where: tuple[str, ...], names: list[str], shown: str) -> Iterator[Problem]:
    known = [shown.format(name) for name in COUNT_PARAMETERS]
    for name in names:
        if name not in COUNT_PARAMETERS:
            hint = nearest(name, COUNT_PARAMETERS)
            yield Problem(where, f"{shown.format(name)} is not one of {', '.join(known)}{hint}")
    if not names:
        yield Problem(where, f"must say which window it is about: {', '.join(known)}")


def compiled(spec: PipelineSpec) -> Completeness | None:
    """The compiled section, None without one. `check` must have found nothing."""
    given = spec.completeness
    if given is None:
        return None
    topic = given.from_ == "topic"
    return read_as(
        Completeness,
        given,
        source=given.from_,
        conn_id=given.conn_id or spec.source.conn_id,
        window_path=(given.window or "$.window") if topic else None,
        count_path=None if given.from_ == "sql" else given.count or "$.count",
        source_path=given.source,
        late_too=given.counts == "all",
        patience_ms=given.patience,
        poll_ms=given.poll,
    )
