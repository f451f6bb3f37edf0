"""How far a connector has come: the place in the source's log below which every event is in Kafka (S10)."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import GOES_ON, NoPlace, SourceError, SourceUnavailable
from tidegate.core.copy.port import LogPosition
from tidegate.core.doctor.connectors import ConnectorState
from tidegate.core.spec.copy import Copy
from tidegate.databases.kinds import POSTGRESQL, for_workers, kind_of

_NAMED = "name the connector (or the slot) that feeds the topic"
_WAIT = f"wait until it has noted its first place (offset.flush.interval.ms); {GOES_ON}"


def connect_position(url: str, name: str, timeout_s: float) -> LogPosition:
    """Of a connector for MariaDB or MySQL, as Kafka Connect (3.5 or later) has noted it: what began below is in Kafka.

    `url`: of its REST interface. Raises SourceUnavailable, NoPlace, or SourceError where it reads no binary log."""
    return offset_position(name, _asked(url, name, "offsets", timeout_s))


def connect_state(url: str, name: str, timeout_s: float) -> ConnectorState:
    """Whether a connector runs, and how it is set. Raises SourceUnavailable, or SourceError for an unknown one."""
    status, settings = (_asked(url, name, what, timeout_s) for what in ("status", "config"))
    parts = [("the connector", status.get("connector", {}))]
    parts += [(f"task {task.get('id')}", task) for task in status.get("tasks", ())]
    told = [(who, str(part.get("state", "")), str(part.get("trace", ""))) for who, part in parts]
    return ConnectorState(name=name, parts=told, settings={key: str(value) for key, value in settings.items()})


def _asked(url: str, name: str, what: str, timeout_s: float) -> Any:
    path = f"{url.rstrip('/')}/connectors/{urllib.parse.quote(name, safe='')}/{what}"
    try:
        with urllib.request.urlopen(path, timeout=timeout_s) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as e:
        if e.code in (400, 404, 405):
            raise _refused(f"Kafka Connect knows no {what} of a connector {name} (HTTP {e.code})") from None
        raise _silent(name, f"HTTP {e.code}") from None
    except (OSError, ValueError) as e:
        raise _silent(name, e) from None


def offset_position(name: str, answer: Any) -> LogPosition:
    """Of Connect's answer. Raises NoPlace where it has none yet, SourceError where it has several, or another log's."""
    from tidegate.databases.mariadb.places import place

    offsets = [each["offset"] for each in answer.get("offsets", ()) if each.get("offset")]
    if not offsets:
        raise NoPlace(f"the connector {name} has noted no place yet", advice=_WAIT)
    if len(offsets) != 1 or not {"file", "pos"} <= offsets[0].keys():
        raise _refused(f"the connector {name} has noted no place in a binary log, or several")
    (offset,) = offsets
    if offset.get("snapshot"):
        raise NoPlace(f"the connector {name} is reading a snapshot: its place says nothing yet", advice=_NAMED)
    try:
        return place(str(offset["file"]), int(offset["pos"]))
    except ValueError as e:
        raise _refused(f"the connector {name} has noted an invalid place: {e}") from None


def slot_position(connection: Connection, slot: str, timeout_s: float, copy: Copy | None = None) -> LogPosition:
    """Of a replication slot of PostgreSQL: its reader has confirmed everything that was committed below.

    Raises SourceUnavailable, NoPlace for a slot that is missing, has lost a part of the log, or reads by publications
    none of which has a table of `copy`: its changes are passed over."""
    if kind_of(connection) != POSTGRESQL:
        raise _refused(f"connection {connection.conn_id} is of type {connection.conn_type}: it has no slots")
    from tidegate.databases.postgresql.control import PostgreSQL

    database = PostgreSQL(for_workers(connection), timeout_s)
    try:
        found = database.confirmed(slot)
        wanted = () if copy is None or found is None else copy.names(database.tables)
        unpublished = database.unpublished(slot, wanted)
    finally:
        database.close()
    if found is None:
        what = f"there is no logical replication slot {slot} of this database that has the log from a place on"
        advice = f"name the connector's slot in copy.slot, if this is another one; {GOES_ON}"
        raise NoPlace(what, advice=advice)
    if unpublished:
        first, others = unpublished[0], f", nor are {len(unpublished) - 1:,} more" if len(unpublished) > 1 else ""
        what = f"{first} is in no publication with inserts, updates and deletes of all rows{others}: some are missing"
        advice = f"ALTER PUBLICATION ... ADD TABLE {first}, or SET TABLE where it has a row filter, then copy again"
        raise NoPlace(what, advice=f"{advice}; {GOES_ON}")
    return found, 0


def _silent(name: str, why: object) -> SourceUnavailable:
    advice = f"check the connection that copy.connect_conn_id names; {GOES_ON}"
    return SourceUnavailable(f"Kafka Connect did not say where the connector {name} is: {why}", advice=advice)


def _refused(what: str) -> SourceError:
    return SourceError(what, advice=_NAMED)
