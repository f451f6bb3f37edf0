"""The section `completeness`: another system that counts the rows of each window too."""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from tidegate.core.completeness.rules import NAMED_PARAMETER
from tidegate.core.spec.pipeline import COUNT_PARAMETERS, Completeness
from tidegate.spec.document import Problem
from tidegate.spec.section import Section, key
from tidegate.spec.values import ConnectionId, Duration, MessagePath, OneOf, Period, Ratio, Text, Topic, nearest

if TYPE_CHECKING:
    from tidegate.spec.model import PipelineSpec

CountSource = Annotated[Literal["sql", "http", "topic"], OneOf()]
Counts = Annotated[Literal["data", "all"], OneOf()]
Policy = Annotated[Literal["wait", "warn"], OneOf()]

_OWN = {
    "sql": {"query": True},
    "http": {"path": True, "count": False},
    "topic": {"topic": True, "window": False, "count": False, "source": False},
}
"""Keys that have a meaning for one kind of source, and whether it needs them."""


class CompletenessSpec(Section):
    """Another system that counts windows too; see [event time](event-time.md#completeness-against-another-system)."""

    from_: CountSource = key("What is asked: a database, a service, or an audit topic.", alias="from")
    conn_id: ConnectionId | None = key(
        "Airflow connection: of type `postgres`, `sqlite` or `hiveserver2` for `sql`, `http`, or `kafka`. Logins and "
        "tokens are in it and nowhere else.",
        None,
        shown="required; for `topic` that of `source`",
    )
    query: Text | None = key(
        "`sql`: a query that gives one row with one column, or no row while the window is not known yet. Its "
        "parameters are `:start` and `:end` (UTC instants, the end exclusive), `:start_ms` and `:end_ms` (epoch ms).",
        None,
        shown="required for `sql`",
    )
    path: Text | None = key(
        "`http`: what follows the connection's address; `{start}`, `{end}` (ISO 8601, UTC), `{start_ms}` and "
        "`{end_ms}` are filled in. The answer is JSON; null or HTTP 204 while the window is not known yet.",
        None,
        shown="required for `http`",
    )
    topic: Topic | None = key(
        "`topic`: JSON messages with counts. They are looked for from the window's start on, by Kafka's timestamps.",
        None,
        shown="required for `topic`",
    )
    window: MessagePath | None = key(
        "`topic`: where a message has its window's start, as epoch ms or ISO 8601 text (without an offset it is meant "
        "in `windows.timezone`). Messages without it are left out.",
        None,
        shown="`$.window`",
    )
    count: MessagePath | None = key(
        "`http`, `topic`: where the answer or message has its count.", None, shown="`$.count`"
    )
    source: MessagePath | None = key(
        "`topic`: where a message says who counted. The newest message of each counts, and they are added up; without "
        "this key all messages of a window are.",
        None,
    )
    counts: Counts = key(
        "Which of our rows are compared: those of the window, or its late rows as well. Records that are dirty, "
        "filtered or dropped belong to no window and count in neither.",
        "data",
    )
    tolerance: Ratio = key(
        "How far the counts may differ for the window to be complete, 0 to 1.", 0.0, unit="share of the count"
    )
    policy: Policy = key(
        "What becomes of a window that is not known to be complete: it waits, or it is published at once, with a "
        "warning in its certificate.",
        "wait",
    )
    patience: Duration | None = key(
        "`wait`: how long, from the first question on, until it is published with a warning; null: until `tidegate "
        "complete` accepts it. A window with more rows than expected waits for an hour at most.",
        None,
    )
    poll: Period = key("How often the other system is asked about one window.", "5m")


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
            yield Problem(where, f"{shown.format(name)} is none of {', '.join(known)}{hint}")
    if not names:
        yield Problem(where, f"must say which window it is about: {', '.join(known)}")


def compiled(spec: PipelineSpec) -> Completeness | None:
    """None if no other system is asked. `check` must have found nothing."""
    given = spec.completeness
    if given is None:
        return None
    topic = given.from_ == "topic"
    return Completeness(
        source=given.from_,
        conn_id=given.conn_id or spec.source.conn_id,
        query=given.query,
        path=given.path,
        topic=given.topic,
        window_path=(given.window or "$.window") if topic else None,
        count_path=None if given.from_ == "sql" else given.count or "$.count",
        source_path=given.source,
        late_too=given.counts == "all",
        tolerance=given.tolerance,
        policy=given.policy,
        patience_ms=given.patience,
        poll_ms=given.poll,
    )
