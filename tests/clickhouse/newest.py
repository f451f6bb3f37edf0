"""The newest engine (chdb) behind a small HTTP interface, as far as `targets.clickhouse.client` uses that of a server.

python -m tests.targets.clickhouse.newest <folder>      prints its port, serves until its standard input ends
"""

from __future__ import annotations

import re
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

_CODE = re.compile(r"Code: (\d+)")
_LAST, _BINARY = " FORMAT JSONCompact", " FORMAT RowBinary"


class Engine:
    """Its data lie in `folder`. Each statement has a connection of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._first = self._connected()  # the engine ends with its last connection

    def _connected(self) -> Any:
        import chdb

        return chdb.connect(str(self._folder / "data"))

    def answer(self, body: bytes, settings: dict[str, str]) -> bytes:
        """Raises RuntimeError with the engine's words."""
        statement, found, data = body.partition(b" FORMAT Native\n")
        sql, place = statement.decode(), self._folder / f"{uuid.uuid4().hex}.native"
        if found:
            place.write_bytes(data)
            sql += f" SELECT * FROM file('{place}', Native)"
        connection = self._connected()
        try:
            for name, value in settings.items():
                if name not in ("database", "wait_end_of_query"):
                    connection.query(f"SET {name} = {value}")
            kind = "JSONCompact" if sql.endswith(_LAST) else "RowBinary" if sql.endswith(_BINARY) else "TabSeparated"
            return bytes(connection.query(sql.removesuffix(_LAST).removesuffix(_BINARY), kind).bytes() or b"")
        finally:
            connection.close()
            place.unlink(missing_ok=True)


def handler(engine: Engine) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                status, code, words = 200, "", engine.answer(body, dict(parse_qsl(urlsplit(self.path).query)))
            except Exception as error:
                words = str(error).encode()
                status, code = 500, (m[1] if (m := _CODE.search(str(error))) else "1000")
            self.send_response(status)
            if code:
                self.send_header("X-ClickHouse-Exception-Code", code)
            self.send_header("Content-Length", str(len(words)))
            self.end_headers()
            self.wfile.write(words)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    return Handler


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(Engine(Path(sys.argv[1]))))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
