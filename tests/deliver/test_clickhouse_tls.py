"""ClickHouse by HTTPS: whose certificate is trusted, and what is said where it is not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.tls import self_signed
from tidegate.core.base.connection import Connection
from tidegate.targets.clickhouse.client import Client, Unsent
from tidegate.targets.clickhouse.kind import clients, settings

ASKED: list[bytes] = []


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        ASKED.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"data": [["19.1"]]}')

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    context, _ = self_signed(tmp_path)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def client(port: int, **extra: object) -> Client:
    at = Connection(conn_id="ch", host=f"127.0.0.1:{port}", password="hush", extra={"secure": True, **extra})
    (found,) = clients(settings(at), 10.0)
    return found


def test_a_certificate_is_checked(port: int, tmp_path: Path) -> None:
    ASKED.clear()
    with pytest.raises(Unsent, match="certificate of 127.0.0.1.* is not trusted"):
        client(port).ask("SELECT version()")
    with pytest.raises(Unsent, match=r"none\.pem"):
        client(port, verify=str(tmp_path / "none.pem")).ask("SELECT version()")
    assert ASKED == []
    for verify in (str(tmp_path / "c.pem"), False):
        assert client(port, verify=verify).ask("SELECT version()") == [["19.1"]]
    assert len(ASKED) == 2
