"""A TCP proxy on loopback that loses requests or replies on purpose, when they hold given bytes."""

from __future__ import annotations

import contextlib
import enum
import re
import socket
import threading
from collections.abc import Iterator


class Fate(enum.Enum):
    """What happens to a request that matches."""

    LOSE_REQUEST = "the connection breaks before the server has seen it"
    LOSE_REPLY = "the server answers, and the connection breaks"
    REPEAT = "the server gets an HTTP request twice, and the second answer comes back"
    HANG = "nothing comes back, and the connection stays"
    EXPIRED = "the server is not asked: the answer that the credentials have expired"


S3_EXPIRED = 400, b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
"""Status and body of such an answer, of a store; of a catalogue."""
TOKEN_EXPIRED = 401, b'{"error": {"message": "Token expired", "type": "NotAuthorizedException", "code": 401}}'


class LossyProxy:
    """Forwards to a server; `once`: only the first matching request meets its fate."""

    def __init__(self, host: str, port: int, marker: bytes, fate: Fate, *, once: bool = False) -> None:
        self._server, self._marker, self._fate, self._once = (host, port), marker, fate, once
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listener]
        self._lock = threading.Lock()
        self.matched, self._spared, self._refusal = 0, 0, S3_EXPIRED
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return self._listener.getsockname()[1]

    def lose_next(self, marker: bytes, fate: Fate) -> None:
        """From now on the first request that matches meets this fate, and no other."""
        self._marker, self._fate, self._once, self.matched, self._spared = marker, fate, True, 0, 0

    def expire(self, marker: bytes, after: int, answer: tuple[int, bytes] = S3_EXPIRED) -> None:
        """So many requests that match are still served; from then on credentials have expired, until `renew`."""
        self._refusal = answer
        self._marker, self._fate, self._once, self.matched, self._spared = marker, Fate.EXPIRED, False, 0, after

    def renew(self) -> bool:
        """Serve all again. Whether any request was refused."""
        refused, self._spared = self.matched > self._spared, 1 << 30
        return refused

    def close(self) -> None:
        with self._lock:
            for each in self._open:
                _close(each)

    def __enter__(self) -> LossyProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                with self._lock:
                    self._open += [client, server]
                cut = threading.Event()
                threading.Thread(target=self._requests, args=(client, server, cut), daemon=True).start()
                threading.Thread(target=self._replies, args=(client, server, cut), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
        tail = b""
        for data in _received(client):
            matches = self._marker in tail + data
            tail = b"" if matches else (tail + data)[-len(self._marker) :]
            if matches and self._take():
                if self._fate is Fate.LOSE_REQUEST:
                    break
                if self._fate is Fate.HANG:
                    continue
                if self._fate is Fate.EXPIRED:
                    _refuse(client, data, *self._refusal)
                    break
                if self._fate is Fate.REPEAT:
                    data = _whole(client, data)
                    self._send_apart(data)
                else:
                    cut.set()
            with contextlib.suppress(OSError):
                server.sendall(data)
        _close(client), _close(server)

    def _replies(self, client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
        for data in _received(server):
            if cut.is_set():
                break
            with contextlib.suppress(OSError):
                client.sendall(data)
        _close(client), _close(server)

    def _send_apart(self, request: bytes) -> None:
        """Send a request on a connection of its own, and wait for its answer."""
        with socket.create_connection(self._server) as apart:
            line, _, rest = request.partition(b"\r\n")
            apart.sendall(line + b"\r\nConnection: close\r\n" + rest)
            for _ in _received(apart):
                pass

    def _take(self) -> bool:
        self.matched += 1
        return self.matched > self._spared and (self.matched == self._spared + 1 or not self._once)


def _received(connection: socket.socket) -> Iterator[bytes]:
    with contextlib.suppress(OSError):
        while data := connection.recv(65536):
            yield data


def _whole(client: socket.socket, data: bytes) -> bytes:
    """An HTTP request with its body, of which `data` has come."""
    pieces = _received(client)
    while b"\r\n\r\n" not in data:
        data += next(pieces)
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    missing = int(length[1]) - len(body) if length else 0
    while missing > 0:
        piece = next(pieces)
        data, missing = data + piece, missing - len(piece)
    return data


def _refuse(client: socket.socket, request: bytes, status: int, body: bytes) -> None:
    with contextlib.suppress(StopIteration):  # it has gone
        request = _whole(client, request)
    head = f"HTTP/1.1 {status} Refused\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
    with contextlib.suppress(OSError):
        client.sendall(head + (b"" if request.startswith(b"HEAD ") else body))


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits in recv
    connection.close()
