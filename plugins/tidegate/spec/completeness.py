"""The section `completeness`: another system that counts the rows of each window too."""

from __future__ import annotations

from typing import Annotated, Literal

from tidegate.spec.section import Section, key
from tidegate.spec.values import ConnectionId, Duration, MessagePath, OneOf, Period, Ratio, Text, Topic

CountSource = Annotated[Literal["sql", "http", "topic"], OneOf()]
Counts = Annotated[Literal["data", "all"], OneOf()]
Policy = Annotated[Literal["wait", "warn"], OneOf()]


class CompletenessSpec(Section):
    """Another system that counts windows too; see [event time](event-time.md#completeness-against-another-system)."""

    from_: CountSource = key("The other system: a database, a service, or an audit topic.", alias="from")
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
        "`http`: the part after the connection's address; `{start}`, `{end}` (ISO 8601, UTC), `{start_ms}` and "
        "`{end_ms}` are filled in. The answer is JSON; null or HTTP 204 while the window is not known yet.",
        None,
        shown="required for `http`",
    )
    topic: Topic | None = key(
        "`topic`: JSON messages with counts. Tidegate reads them from the window's start on, by Kafka's timestamps.",
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
        "`topic`: where a message names its counter. Tidegate adds up the newest message of each counter; "
        "without this key it adds up all messages of a window.",
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
        "What happens to a window that is not known to be complete: it waits, or it is published at once, with a "
        "warning in its certificate.",
        "wait",
    )
    patience: Duration | None = key(
        "`wait`: how long, from the first question on, until it is published with a warning; null: until `tidegate "
        "complete` accepts it. A window with more rows than expected waits for an hour at most.",
        None,
    )
    poll: Period = key("How often the other system is asked about one window.", "5m")
