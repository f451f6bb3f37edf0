"""A TCP line between a pipeline and one of its servers that a test can hold or cut."""

from __future__ import annotations

import contextlib
import socket
import threading


class Line:
    """Forwards connections to a server on loopback. Held: what goes towards the server waits, as when it hangs, until
    `release`. Cut: connections are closed at once, as when it is down."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._free, self._cut, self._marker = threading.Event(), False, b""
        self._free.set()
        self.waiting = 0
        """Connections whose request waits now."""
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """On loopback, for clients."""
        return self._listener.getsockname()[1]

    def hold(self, marker: bytes = b"") -> None:
        """From now on requests that hold `marker` (any, if empty) wait, and what follows on their connection."""
        self._marker = marker
        self._free.clear()

    def release(self) -> None:
        """What waited goes on, also for clients that have died meanwhile, and nothing waits any more."""
        self._free.set()

    def cut(self) -> None:
        """End all connections, and each new one at once."""
        self._cut = True
        with self._lock:
            for each in list(self._open):
                _close(each)

    def mend(self) -> None:
        """New connections are served again."""
        self._cut = False

    def close(self) -> None:
        """End it."""
        self.cut()
        self._free.set()
        _close(self._listener)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._cut:
                    _close(client)
                    continue
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._server, timeout=10)
        except OSError:
            _close(client)
            return
        server.settimeout(None)
        with self._lock:
            self._open |= {client, server}
        threading.Thread(target=self._pump, args=(server, client, False), daemon=True).start()
        self._pump(client, server, True)

    def _pump(self, source: socket.socket, sink: socket.socket, held: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if held and not self._free.is_set() and self._marker in data:
                    self._wait()
                sink.sendall(data)
        with self._lock:
            self._open -= {source, sink}
        _close(source), _close(sink)

    def _wait(self) -> None:
        with self._lock:
            self.waiting += 1
        self._free.wait()
        with self._lock:
            self.waiting -= 1


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits in recv
    connection.close()
