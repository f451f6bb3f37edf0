"""The newest engine (chdb) behind a small HTTP interface, as far as `targets.clickhouse.client` uses that of a server.

    python -m tests.targets.clickhouse.newest <folder>      prints its port, serves until its standard input ends

One statement runs at a time: what needs two at once is tested on the real server.
"""

from __future__ import annotations

import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

_CODE = re.compile(r"Code: (\d+)")
_LAST = " FORMAT JSONCompact"
_APPENDED = ("allow_replace_partition_from_empty_source",)


class Engine:
    """`database` lies in `folder`."""

    def __init__(self, folder: Path) -> None:
        from chdb import session

        self._folder, self._session, self._lock = folder, session.Session(str(folder / "database")), threading.Lock()

    def answer(self, body: bytes, settings: dict[str, str]) -> bytes:
        """Raises RuntimeError with the engine's words."""
        statement, found, data = body.partition(b" FORMAT Native\n")
        sql = statement.decode()
        with self._lock:
            if found:
                path = self._folder / "body.native"
                path.write_bytes(data)
                sql += f" SELECT * FROM file('{path}', Native)"
            for name, value in settings.items():
                if name not in ("database", "wait_end_of_query", *_APPENDED):
                    self._session.query(f"SET {name} = {value}")
            sql += "".join(f" SETTINGS {name} = {settings[name]}" for name in _APPENDED if name in settings)
            asked = sql.endswith(_LAST)
            found_bytes = self._session.query(sql.removesuffix(_LAST), "JSONCompact" if asked else "TabSeparated").bytes()
            return found_bytes or b""


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
