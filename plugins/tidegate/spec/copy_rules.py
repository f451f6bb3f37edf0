"""The section `copy`: what it goes together with, and what it is compiled to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidegate.core.base.fields import read_as
from tidegate.core.spec.change_events import SHARD_PATHS
from tidegate.core.spec.paths import parse
from tidegate.core.spec.pipeline import CopiedServer, Copy
from tidegate.core.target.port import Unit
from tidegate.kinds import target_kind
from tidegate.spec.copy import CopiedServerSpec, CopySpec
from tidegate.spec.model import PipelineSpec
from tidegate.spec.problems import Problem


def check(spec: PipelineSpec) -> Iterator[Problem]:
    """What is wrong with the section, together with others."""
    if spec.copy_ is None:
        return
    kind = target_kind(spec.sink.kind)
    if kind.unit is not Unit.PREFIX and not kind.follows:
        yield Problem(("copy",), "rows of a table are copied into a mirror only; leave it out")
    if kind.follows and spec.copy_.compare is not None:
        yield Problem(("copy", "compare"), "a mirror by days is not compared with its source; leave it out")
    if spec.format.unknown_fields == "capture":
        yield Problem(("format", "unknown_fields"), "a copy captures no fields; set another one, or leave copy out")
    told = spec.copy_
    yield from _which(told)
    yield from _told(told, ())
    yield from _servers(told, kind.follows)
    if told.compare_rows is not None:
        yield from _by_laps(told)
    for i, column in enumerate(spec.columns):
        if column.expr is None and not is_plain(column.from_) and column.from_ not in SHARD_PATHS:
            yield Problem(("columns", i, "from"), "a copy reads columns of the source's table, and this is not one")


def _told(told: CopySpec | CopiedServerSpec, where: tuple[str | int, ...]) -> Iterator[Problem]:
    """Of who says how far a connector is."""
    if (told.connector is None) != (told.connect_conn_id is None):
        lacking = "connect_conn_id" if told.connect_conn_id is None else "connector"
        yield Problem(
            ("copy", *where, lacking), "connector and connect_conn_id go together: give both, or leave both out"
        )
    if told.slot is not None and told.connector is not None:
        yield Problem(
            ("copy", *where, "slot"), "one of both says how far the connector is: leave slot or connector out"
        )


def _servers(told: CopySpec, by_days: bool) -> Iterator[Problem]:
    if not told.servers:
        if told.conn_id is None:
            yield Problem(("copy", "conn_id"), "is required, or copy.servers for tables that lie on several servers")
        return
    for name in ("conn_id", "connect_conn_id", "connector", "slot"):
        if getattr(told, name) is not None:
            yield Problem(("copy", name), "each of copy.servers says its own: leave it out")
    if by_days:
        yield Problem(
            ("copy", "servers"),
            (
                "a mirror by days is of one server: a day says up to which position of one log it is. Make one for "
                "each server, of a topic of its own, or leave sink.store out (docs/mirrors.md)"
            ),
        )
    seen = set[str]()
    for i, one in enumerate(told.servers):
        yield from _told(one, ("servers", i))
        if one.name in seen:
            yield Problem(("copy", "servers", i, "name"), f"{one.name} is there already")
        seen.add(one.name)


def _by_laps(told: CopySpec) -> Iterator[Problem]:
    where = ("copy", "compare_rows")
    if told.compare is None:
        yield Problem(where, "says how much a run of .compare does: give copy.compare, its schedule, too")
    if told.tables is not None:
        yield Problem(where, "shards are compared as a whole: leave it out")


def _which(told: CopySpec) -> Iterator[Problem]:
    """Of tables."""
    if told.tables is None:
        if told.table is None:
            yield Problem(("copy", "table"), "is required, or copy.tables for shards")
        return
    if told.table is not None:
        yield Problem(("copy", "tables"), "one of both says which tables are read: leave table or tables out")
    try:
        re.compile(told.tables)
    except re.error as e:
        yield Problem(("copy", "tables"), f"is no regular expression: {e}")


def is_plain(path: str | None) -> bool:
    """Whether a column's path names a column of the source's table; None: it has the column's own name."""
    return path is None or (len(parse(path)) == 1 and not path.startswith("$._"))


def compiled(spec: CopySpec | None) -> Copy | None:
    """None without the section."""
    if spec is None:
        return None
    servers = tuple(read_as(CopiedServer, one) for one in spec.servers)
    given = {name: getattr(spec, name) or "" for name in ("conn_id", "table", "tables")}
    return read_as(Copy, spec, **given, servers=servers)
