"""Requests of RocketMQ's remoting protocol: a JSON header and a body, there and back. None of them changes anything."""

from __future__ import annotations

import itertools
import json
import socket
import struct
import threading
from typing import Any

from tidegate.core.base.errors import SourceError, SourceUnavailable

PULL, BROKER_CONFIG, AT_TIME, MAX_OFFSET, MIN_OFFSET, ROUTE = 11, 26, 29, 30, 31, 105
OK, MOVED = 0, 21
_BUSY = (1, 2, 215)  # a broker that starts, ends or has too much to do
_VERSION = 401  # so that routes come as proper JSON
_LARGEST = 256 * 1024 * 1024


class Denied(SourceError):
    """The server's answer is `code`, not OK."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Client:
    """Requests to any number of servers; each thread keeps a connection of its own to each."""

    def __init__(self) -> None:
        self._mine = threading.local()
        self._numbers = itertools.count(1)

    def ask(self, address: str, code: int, seconds: float, **fields: Any) -> tuple[dict[str, str], bytes]:
        """Fields and body of the answer. Raises SourceUnavailable, also after so many seconds of silence, and Denied. A
        connection that the server has closed meanwhile is opened again."""
        kept: dict[str, socket.socket] = vars(self._mine)
        while True:
            used = kept.pop(address, None)
            try:
                host, _, port = address.rpartition(":")
                connection = used or socket.create_connection((host.strip("[]"), int(port)), seconds)
                try:
                    header, body = self._exchange(connection, code, fields)
                except BaseException:
                    connection.close()
                    raise
                break
            except TimeoutError:
                raise SourceUnavailable(f"RocketMQ at {address} has no answer within {seconds:g} s") from None
            except (OSError, ValueError, KeyError, struct.error) as e:
                if used is None:
                    raise SourceUnavailable(f"RocketMQ at {address} has no answer: {e}") from None
        kept[address] = connection
        if header["code"] == OK:
            return header.get("extFields") or {}, body
        remark = f"(code {header['code']}) {header.get('remark') or ''}".partition("\n")[0]
        if header["code"] in _BUSY:
            raise SourceUnavailable(f"RocketMQ at {address} can't answer now: {remark}")
        raise Denied(f"RocketMQ at {address} refused: {remark}", header["code"])

    def close(self) -> None:
        """Close this thread's connections."""
        while vars(self._mine):
            vars(self._mine).popitem()[1].close()

    def _exchange(self, connection: socket.socket, code: int, fields: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        number, told = next(self._numbers), {name: str(value) for name, value in fields.items()}
        asked = {"code": code, "language": "PYTHON", "version": _VERSION, "opaque": number, "flag": 0}
        header = json.dumps(asked | {"extFields": told, "serializeTypeCurrentRPC": "JSON"}).encode()
        connection.sendall(struct.pack(">ii", 4 + len(header), len(header)) + header)
        with connection.makefile("rb") as answers:
            while True:
                length, size = struct.unpack(">iI", answers.read(8))
                size &= 0xFFFFFF  # the other bits say that it is JSON, as ours is
                if not size + 4 <= length <= _LARGEST:
                    raise ValueError(f"an answer of {length} bytes, {size} of them its header")
                answer, body = json.loads(answers.read(size)), answers.read(length - 4 - size)
                if len(body) != length - 4 - size:
                    raise ConnectionError("the answer ends too early")
                if answer["flag"] & 1 and answer["opaque"] == number:  # else a question of the server's to its clients
                    return answer, body
