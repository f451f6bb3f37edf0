"""A ResourceManager's REST API: lists applications by tag, and ends them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


class FakeYarn:
    """`applications`: id -> (tags, state). `refuses`: an HTTP status that answers every request."""

    def __init__(self) -> None:
        self.applications: dict[str, tuple[str, str]] = {}
        self.users: list[str] = []
        self.refuses = 0
        self.port = 0

    def conf(self, folder: Path, **more: str) -> dict[str, str]:
        """An environment that names this ResourceManager by a yarn-site.xml in `folder`."""
        names = {"yarn.resourcemanager.webapp.address": f"127.0.0.1:{self.port}"} | more
        return site(folder, names)


def site(folder: Path, properties: dict[str, str]) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    rows = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in properties.items())
    (folder / "yarn-site.xml").write_text(f"<configuration>{rows}</configuration>")
    return {"HADOOP_CONF_DIR": str(folder), "PATH": "/nowhere"}


@contextmanager
def serving() -> Iterator[FakeYarn]:
    fake = FakeYarn()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = parse_qs(urlsplit(self.path).query)
            tag, states = asked["applicationTags"][0], asked["states"][0].split(",")
            found = [
                {"id": name}
                for name, (tags, state) in fake.applications.items()
                if tag in tags.split(",") and state in states
            ]
            self._answer({"apps": {"app": found} if found else None})

        def do_PUT(self) -> None:
            parts = urlsplit(self.path)
            name = parts.path.split("/")[-2]
            wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["state"]
            fake.applications[name] = (fake.applications[name][0], wanted)
            fake.users += parse_qs(parts.query)["user.name"]
            self._answer({"state": wanted}, 202)

        def _answer(self, content: object, status: int = 200) -> None:
            body = json.dumps(content).encode()
            self.send_response(fake.refuses or status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
