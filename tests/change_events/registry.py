"""What Apicurio's converter for Kafka Connect asks of Apicurio's registry (REST, version 2) while it writes: each text
of a schema gets an id, and the same one again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Registry:
    """`schemas`: texts by their ids, from 1 on."""

    schemas: dict[int, str] = field(default_factory=dict)
    url: str = ""

    def add(self, text: str) -> int:
        """The id of a schema."""
        found = next((n for n, known in self.schemas.items() if known == text), len(self.schemas) + 1)
        self.schemas[found] = text
        return found


@contextmanager
def serving(registry: Registry) -> Iterator[Registry]:
    """`registry.url` answers until the end of the block."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            with lock:
                number = registry.add(text)
            name = self.headers.get("X-Registry-ArtifactId", "")
            found = {"id": name, "version": "1", "type": "AVRO", "state": "ENABLED", "references": []}
            body = json.dumps({**found, "groupId": "default", "globalId": number, "contentId": number}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_address[1]}/apis/registry/v2"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
