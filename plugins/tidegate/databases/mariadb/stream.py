"""The rows of a query of one text each, read from the driver's socket: a row costs two reads and nothing is decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pymysql.constants import COMMAND
from pymysql.protocol import EOFPacketWrapper, MysqlPacket

from tidegate.core.files.failure import refuse
from tidegate.databases.sql import BATCH_BYTES, BATCH_ROWS

_WHOLE = 0xFFFFFF  # of a packet that goes on in the next one
_HEADERS = {0xFC: 3, 0xFD: 4, 0xFE: 9}
_NULL, _EOF, _ERROR, _EOF_SIZE = 0xFB, 0xFE, 0xFF, 9


def lines(found: Any, query: str) -> Iterator[list[bytes]]:
    """Rows, in parts. Raises the driver's errors, and JobError for a row that is too long for the server."""
    found._execute_command(COMMAND.COM_QUERY, query)
    _skip_description(found)
    rows: list[bytes] = []
    size = 0
    for row in _rows(found):
        rows.append(row)
        size += len(row)
        if len(rows) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _skip_description(found: Any) -> None:
    columns = found._read_packet().read_length_encoded_integer()
    for _ in range(columns + 1):  # and an end
        found._read_packet()


def _rows(found: Any) -> Iterator[bytes]:
    read = found._rfile.read
    while True:
        packet = _packet(read)
        first = packet[0] if packet else _ERROR
        if first < _NULL:
            yield packet[1:]
        elif first == _EOF and len(packet) < _EOF_SIZE:
            return _end(found, packet)
        elif first == _NULL:
            raise refuse(
                "a row of the source is longer than the server puts into one text",
                advice="raise max_allowed_packet there, or leave the long column out",
            )
        elif first == _ERROR:
            MysqlPacket(packet, "utf8mb4").raise_for_error()
        else:
            yield packet[_HEADERS[first] :]


def _packet(read: Any) -> bytes:
    packet = b""
    while True:
        header = read(4)
        size = header[0] | header[1] << 8 | header[2] << 16 if len(header) == 4 else -1
        part = read(size) if size >= 0 else b""
        if len(part) != size:
            raise ConnectionError("the connection was lost while rows were read")
        packet = packet + part if packet else part
        if size < _WHOLE:
            return packet


def _end(found: Any, packet: bytes) -> None:
    found._result = None
    found.server_status = EOFPacketWrapper(MysqlPacket(packet, "utf8mb4")).server_status
