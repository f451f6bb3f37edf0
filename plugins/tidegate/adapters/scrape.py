"""`GET /metrics` for Prometheus: one look at a time, kept for a while, with a deadline."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
KEEP_S = 15.0
DEADLINE_S = 8.0
"""Seconds for an answer, below Prometheus' own time-out of ten."""
IDLE_S = 10.0
"""Seconds after which a silent client is disconnected."""
MOST_CLIENTS = 16


class Unavailable(Exception):
    """No answer in time; the text is for the client."""


class Kept:
    """Keeps the last result of `look` for `keep_s`; then one caller at a time renews it."""

    def __init__(
        self,
        look: Callable[[], str],
        keep_s: float = KEEP_S,
        deadline_s: float = DEADLINE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look, self._keep_s, self._deadline_s, self._clock = look, keep_s, deadline_s, clock
        self._changed = threading.Condition()
        self._text, self._at, self._error = "", float("-inf"), ""
        self._looking = False

    def text(self) -> str:
        """The exposition. Raises Unavailable."""
        with self._changed:
            if self._fresh():
                return self._text
            if not self._looking:
                self._looking, self._error = True, ""
                threading.Thread(target=self._run, daemon=True, name="metrics").start()
            if not self._changed.wait_for(lambda: not self._looking, self._deadline_s):
                raise Unavailable(f"no look has ended within {self._deadline_s:g} s")
            if self._error:
                raise Unavailable(self._error)
            return self._text

    def _fresh(self) -> bool:
        return self._clock() - self._at < self._keep_s

    def _run(self) -> None:
        began, text, error = self._clock(), "", ""
        try:
            text = self._look()
        except Exception as e:  # whatever it is: the next scrape looks again
            error = " ".join(str(e).split()) or type(e).__name__
        with self._changed:
            if not error:
                self._text, self._at = text, began
            self._error, self._looking = error, False
            self._changed.notify_all()


class Server(ThreadingHTTPServer):
    """HTTP server of `/metrics`. Raises OSError where the address is taken."""

    daemon_threads = True

    def __init__(self, host: str, port: int, kept: Kept) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        self._free = threading.BoundedSemaphore(MOST_CLIENTS)

        class Handler(BaseHTTPRequestHandler):
            timeout = IDLE_S

            def do_GET(self) -> None:
                if self.path.partition("?")[0] != "/metrics":
                    self._answer(404, "GET /metrics\n")
                    return
                try:
                    self._answer(200, kept.text())
                except Unavailable as e:
                    self._answer(503, f"{e}\n")

            def _answer(self, status: int, text: str) -> None:
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", CONTENT_TYPE if status == 200 else "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def version_string(self) -> str:
                return "tidegate"

            def log_message(self, *_: Any) -> None:
                pass

        super().__init__((host, port), Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that went away."""


def address(text: str) -> tuple[str, int]:
    """Parse `host:port`, `[::1]:port` or a port of the loopback address. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    host = host.strip("[]") if colon else "127.0.0.1"
    number = int(port)
    if not host or not 0 <= number <= 65535:
        raise ValueError(text)
    return host, number


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
