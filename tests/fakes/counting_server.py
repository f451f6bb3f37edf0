"""A service on the loopback that is asked for counts, and answers as a test wants."""

from __future__ import annotations

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tidegate.core.base.connection import Connection


class CountingServer:
    """`answers`: bodies by path and query; `answer`: (status, body) for whatever is asked. `manner`: "drips", "hangs",
    "breaks off" or "is gone" instead of an answer."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.answers: dict[str, str] = {}
        self.answer: tuple[int, str | bytes] | None = None
        self.location = ""
        self.manner = ""
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self._ended = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._protocol = "http" if tls is None else "https"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.port = self._server.server_address[1]
        self.url = f"{self._protocol}://127.0.0.1:{self.port}"

    def connection(
        self, login: str | None = None, password: str | None = None, extra: dict[str, Any] | None = None
    ) -> Connection:
        return Connection(
            conn_id="counts",
            conn_type="http",
            host="127.0.0.1",
            port=self.port,
            login=login,
            password=password,
            schema=self._protocol,
            extra=extra or {},
        )

    def stop(self) -> None:
        if self._thread.is_alive():
            self._ended.set()
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                server.headers.append(dict(self.headers.items()))
                if server.manner:
                    self._misbehave(server.manner)
                    return
                found = server.answers.get(self.path)
                status, body = server.answer or ((404, "") if found is None else (200, found))
                raw = body if isinstance(body, bytes) else body.encode()
                self.send_response(status)
                if server.location:
                    self.send_header("Location", server.location)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def _misbehave(self, manner: str) -> None:
                if manner in ("drips", "breaks off"):
                    self.send_response(200)
                    self.send_header("Content-Length", "100")
                    self.end_headers()
                    self.wfile.write(b" ")
                while manner == "drips" and not server._ended.wait(0.05):
                    try:
                        self.wfile.write(b" ")
                    except OSError:
                        return
                if manner == "hangs":
                    server._ended.wait()
                self.connection.close()

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        return Handler
