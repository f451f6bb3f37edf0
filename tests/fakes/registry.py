"""A schema registry on the loopback that answers as Confluent's does, as far as readers ask it."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


@dataclass
class FakeRegistry:
    """`schemas`: by id; `subjects`: by (subject, version). Values are what the registry answers. `failures`: status
    codes of the next answers, 0 for a connection that ends without one. `login`: the only one that is let in."""

    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    failures: list[int] = field(default_factory=list)
    login: tuple[str, str] | None = None
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def answer(self, path: str) -> tuple[int, Any]:
        match path.strip("/").split("/"):
            case ["schemas", "ids", number]:
                found = self.schemas.get(int(number))
                return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})
            case ["subjects", subject, "versions", version]:
                found = self.subjects.get((unquote(subject), int(version)))
                return (200, found) if found else (404, {"error_code": 40401, "message": "Subject not found."})
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}


@contextmanager
def serving(registry: FakeRegistry) -> Iterator[FakeRegistry]:
    """`registry.url` answers until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append(self.path)
            status = registry.failures.pop(0) if registry.failures else 200
            if not status:
                self.connection.close()
                return
            body: Any = {"error_code": status, "message": "no"}
            if status == 200:
                status, body = (401, {"error_code": 401}) if not self._let_in() else registry.answer(self.path)
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def _let_in(self) -> bool:
            if registry.login is None:
                return True
            token = base64.b64encode(":".join(registry.login).encode()).decode()
            return self.headers.get("Authorization") == f"Basic {token}"

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
