"""Debezium's change events: what each says of one row of a source table, and where its log says so."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeGuard

from spark_jobs.engine.formats import Bad
from spark_jobs.engine.formats.json_rows import Object, parse_message
from spark_jobs.engine.formats.undecodable import Malformed
from spark_jobs.engine.strict import JsonFloat, JsonInt, Unfit, refuse_duplicates
from tidegate.core.spec.change_events import (
    BEFORE,
    KEY,
    OPERATION,
    OPERATIONS,
    POSITION,
    RESERVED,
    SERVER,
    SOURCE,
    TS_MS,
)

TOMBSTONE = Bad("null value (tombstone)")
UNAVAILABLE = ("__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")
"""What stands for a value that the log does not repeat, as text and as bytes in Base64."""
_UNAVAILABLE_UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
"""Its place in arrays of uuids: the name-based one of these bytes. Arrays of numbers have the bytes one by one, and an
hstore is a map of the text to itself (Debezium's UnchangedToastedPlaceholder)."""
_UNAVAILABLE_BYTES = [JsonInt(str(byte)) for byte in UNAVAILABLE[0].encode()]
UNUSED = ("transaction", "ts_us", "ts_ns")
"""Parts of an envelope that nothing is made of."""
FILE_UNIT = 1 << 40
"""A binary log's file number counts this much in a position, its byte offset one."""
_BINLOG = ("mysql", "mariadb")
_POSTGRESQL = "postgresql"
_DELETED = "__deleted"
_WITH_SCHEMA = {"schema", "payload"}
_ADDED = "__"
_LARGEST = (1 << 63) - 1
_FILE = re.compile(r".+\.([0-9]{1,10})")
_SEQUENCE = re.compile(r'\s*\[\s*(?:null|"([0-9]{1,19})")\s*,\s*(?:null|"[0-9]{1,19}")\s*\]\s*')
Content = dict[str, Any]
Read = Callable[[bytes, str], Content]
"""What makes an object of a message, a `value` or a `key` as the second argument says; its values are as the row rules
of JSON take them. Raises Malformed and Unfit."""


class NoEvent(Exception):
    """The message is no change event of one row that has a key and a position."""

    def __init__(self, bad: Bad) -> None:
        super().__init__(bad.reason)
        self.bad = bad


@dataclass(frozen=True)
class Expected:
    """What events of a table have to be. `key`: the columns of a message's key; None: any. `sharded`: what a router has
    added to it, by names that begin with two underscores, says of which table it is, as the event does. `tables`: a
    regular expression of their `schema.name` (S11); empty: any. `servers`: names of those that they may be of; empty:
    any."""

    key: Collection[str] | None = None
    sharded: bool = False
    tables: str = ""
    servers: Collection[str] = ()

    def of_key(self, keys: Content) -> Content:
        """The key's columns. Raises Unfit for others than the mirror's."""
        if self.sharded:
            keys = Object({name: each for name, each in keys.items() if not name.startswith(_ADDED)})
        if self.key is not None and keys.keys() != self.key:
            raise Unfit(
                f"the message's key has the columns {', '.join(sorted(keys))}, the mirror's key is "
                f"{', '.join(sorted(self.key))}: rows of the source would be taken for one another"
            )
        return keys

    def refuse_other_table(self, source: Content) -> None:
        """Raises Unfit: the end of a copy would take rows of a table that it has not read for rows that are gone; of a
        server that no copy reads nothing would be told."""
        if self.servers and source.get(SERVER) not in self.servers:
            raise Unfit(f"an event of server {source.get(SERVER)}, which copy.servers does not name")
        if not self.tables:
            return
        name = f"{source.get('schema') or source.get('db')}.{source.get('table')}"
        if re.fullmatch(self.tables, name) is None:
            raise Unfit(f"an event of table {name}, which copy.tables does not name")


def view(
    key: bytes | None,
    value: bytes,
    read: Read,
    flat: bool,
    taken: Collection[str],
    expected: Expected,
) -> Content:
    """The event as columns see it: the row's columns, and beside them what `RESERVED` names.

    The row is the one after the change; of a delete it has the key's columns only: what else a delete repeats depends
    on the table's settings, and stands in `_before`. `taken`: columns of the row that must have a value.
    Raises NoEvent."""
    try:
        message = read(value, "value")
        found, row = _flat(message) if flat else _full(message)
        keys = expected.of_key(_key(key, read))
        expected.refuse_other_table(found[SOURCE])
        return _joined(keys if row is None else row, {**found, KEY: keys}, taken)
    except Malformed as e:
        raise NoEvent(Bad(str(e))) from None
    except Unfit as e:
        raise NoEvent(Bad(e.reason, e.field)) from None


def _joined(row: Content, beside: Content, taken: Collection[str]) -> Content:
    for name in RESERVED:
        if name in row:
            raise Unfit(f"the source's table has a column {name}, a name that Tidegate needs", name)
    for name in taken:
        if _unavailable(row.get(name)):
            raise Unfit("the value is unavailable: the log does not repeat what an UPDATE left as it was", name)
    return {**row, **beside}


class JsonMessages:
    """Makes an object of a JSON message: the payload, if it comes with its schema. `schema`: that of the last value;
    None where it had none."""

    schema: Any = None

    def __call__(self, message: bytes, what: str) -> Content:
        """Raises Malformed and Unfit."""
        if what == "value":
            self.schema = None
        found = parse_message(message)
        refuse_duplicates(found)
        if found.keys() != _WITH_SCHEMA:
            return found
        if what == "value":
            self.schema = found["schema"]
        return _object(found["payload"], f"the payload of the {what}")


def schema_part(message: bytes) -> Any:
    """The schema that a JSON message comes with; None where it has none."""
    found = parse_message(message)
    return found["schema"] if found.keys() == _WITH_SCHEMA else None


def _object(value: Any, what: str) -> Content:
    if not isinstance(value, dict):
        raise Unfit(f"no change event: {what} is no object")
    refuse_duplicates(value)
    return value


def _key(key: bytes | None, read: Read) -> Content:
    if key is None:
        raise Unfit("no key: the source's table has no primary key")
    try:
        found = read(key, "key")
    except Malformed as e:
        raise Unfit(f"the key is unusable: {e}") from None
    if not found:
        raise Unfit("no key: it has no columns")
    return found


# ---------------------------------------------------------------- envelopes


def _full(message: Content) -> tuple[Content, Content | None]:
    """What stands beside the row, and the row after the change."""
    if "op" not in message or "source" not in message:
        raise Unfit("no change event: op and source are missing")
    operation = _operation(message["op"])
    source = _object(message["source"], "source")
    found: Content = {
        OPERATION: operation,
        POSITION: position(source, operation),
        SOURCE: source,
        BEFORE: message.get("before"),
        TS_MS: message.get("ts_ms"),
    }
    return found, None if operation == "d" else _object(message.get("after"), "after")


def _flat(message: Content) -> tuple[Content, Content | None]:
    """What ExtractNewRecordState makes of an envelope; `add.fields` has named what else we need."""
    if f"{_ADDED}op" not in message:
        raise Unfit("no flattened change event: __op is missing; add.fields has to name it")
    operation = _operation(message[f"{_ADDED}op"])
    added = f"{_ADDED}source_"
    source = Object({name.removeprefix(added): each for name, each in message.items() if name.startswith(added)})
    if (message.get(_DELETED) == "true") != (operation == "d"):
        raise Unfit("__op and __deleted disagree; delete.tombstone.handling.mode has to be rewrite")
    row = Object({name: each for name, each in message.items() if not name.startswith(_ADDED)})
    found: Content = {OPERATION: operation, POSITION: position(source, operation), SOURCE: source}
    found |= {BEFORE: row if operation == "d" else None, TS_MS: message.get(f"{_ADDED}ts_ms")}
    return found, None if operation == "d" else row


def _operation(found: Any) -> str:
    if found == "t":
        raise Unfit("TRUNCATE (op t): it is no event of one row")
    if found not in OPERATIONS:
        raise Unfit(f"no event of a row: op is {str(found)[:20]!r}")
    return str(found)


def _unavailable(value: Any) -> bool:
    """Whether it stands there for a value, or inside of one."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            if item == _UNAVAILABLE_BYTES:
                return True
            waiting += item
        elif isinstance(item, str) and (item in UNAVAILABLE or item == _UNAVAILABLE_UUID or _is_hstore(item)):
            return True
    return False


def _is_hstore(text: str) -> bool:
    return text.startswith(f'{{"{UNAVAILABLE[0]}"')


# ---------------------------------------------------------------- positions


def position(source: Content, operation: str) -> Content:
    """(commit, row) of an event, comparable within one log. Raises Unfit where the source does not say."""
    connector = source.get("connector")
    if source.get("snapshot") == "incremental":
        raise Unfit("a row of an incremental snapshot has no position among the changes")
    if connector in _BINLOG:
        return _binlog(source)
    if connector == _POSTGRESQL:
        return _wal(source, operation)
    raise Unfit(
        "no position: source.connector is missing"
        if connector is None
        else f"no position: there is no rule for the connector {str(connector)[:40]!r}"
    )


def _binlog(source: Content) -> Content:
    """MySQL and MariaDB write whole transactions, in the order of their commits."""
    name = source.get("file")
    match = _FILE.fullmatch(name) if _is_text(name) else None
    if match is None:
        raise Unfit("no position: source.file does not name a file of a binary log")
    offset = _number(source, "pos")
    commit = int(match[1]) * FILE_UNIT + offset
    if offset >= FILE_UNIT or commit > _LARGEST:
        raise Unfit("no position: the binary log's number or offset is too large")
    return _position(commit, _number(source, "row"))


def _wal(source: Content, operation: str) -> Content:
    """PostgreSQL: an event's LSN is where its row was written, and transactions interleave there. They come in the
    order of their commits: `sequence` begins with the last commit before. A snapshot's row comes before all events
    behind that commit: one of them may have been written before the snapshot, and committed after it."""
    text = source.get("sequence")
    if not _is_text(text):
        raise Unfit("no position: source.sequence is missing")
    match = _SEQUENCE.fullmatch(text)
    commit = int(match[1] or 0) if match else -1  # none: the connector knows of no commit before
    if not 0 <= commit <= _LARGEST:
        raise Unfit("no position: source.sequence is no pair of positions")
    lsn = _number(source, "lsn")
    return _position(commit, 0 if operation == "r" else lsn)


def _is_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and not isinstance(value, JsonInt | JsonFloat)


def _number(source: Content, name: str) -> int:
    value = source.get(name)
    if not isinstance(value, JsonInt) or len(value) > 19 or not 0 <= int(value) <= _LARGEST:
        raise Unfit(f"no position: source.{name} is no number")
    return int(value)


def _position(commit: int, row: int) -> Content:
    return Object({"commit": JsonInt(str(commit)), "row": JsonInt(str(row))})
