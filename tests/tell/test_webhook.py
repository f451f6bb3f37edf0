"""Messages reach a receiver on loopback, or it is said why not; secrets stay where they are."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.tls import self_signed
from tidegate.adapters.webhook import Function, Webhook
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import TidegateError
from tidegate.core.tell.notices import NotTold

SECRET = "T00/B00/hush"
BODY = {"text": 'é " \\ \n <b>', "id": "a"}


class Receiver:
    """`answers` are statuses, or `hang`, `drip`, `drip headers` and `drop` (takes the message, gives no answer); the
    last one stays."""

    def __init__(self, *answers: Any, context: Any = None) -> None:
        self.got: list[tuple[str, dict[str, str], Any]] = []
        self.answers, self.free = list(answers), threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append((self.path, dict(self.headers), json.loads(body)))
                answer = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                if answer == "hang":
                    outer.free.wait(20)
                elif answer == "drip":
                    self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
                    while not outer.free.wait(0.02):
                        self.wfile.write(b"x" * 5000)
                elif answer == "drip headers":
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                    while not outer.free.wait(0.02):
                        self.wfile.write(b"x")
                elif answer != "drop":
                    self.send_response(answer)
                    if 300 <= answer < 400:
                        self.send_header("Location", f"{outer.url}/elsewhere")
                    self.send_header("Content-Length", "2")
                    self.end_headers()
                    self.wfile.write(b"ok")

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.free.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def receiver() -> Iterator[Any]:
    made: list[Receiver] = []

    def make(*answers: Any, **options: Any) -> Receiver:
        made.append(Receiver(*answers, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def hook(receiver: Receiver, timeout_s: float = 60.0, **fields: Any) -> Webhook:
    return Webhook(Connection(conn_id="alerts", conn_type="http", host=receiver.url, **fields), timeout_s)


def test_a_message_arrives_whole(receiver) -> None:
    one = receiver(204)
    extra = {"path": f"/services/{SECRET}", "X-Team": "data", "timeout": "3", "headers": {"X-More": "1"}}
    hook(one, login="ann", password="pw", extra=extra).send(BODY)
    ((path, headers, body),) = one.got
    assert (path, body) == (f"/services/{SECRET}", BODY)
    assert headers["Authorization"] == "Basic YW5uOnB3"
    assert (headers["X-Team"], headers["X-More"], headers["Content-Type"]) == ("data", "1", "application/json")
    assert "timeout" not in {name.lower() for name in headers}
    hook(one, password="token").send(BODY)
    assert one.got[1][1]["Authorization"] == "Bearer token"


@pytest.mark.parametrize(
    ("answer", "words", "this_one"),
    [
        (500, "HTTP 500", False),
        (429, "HTTP 429", False),
        (401, "check the connection's login", False),
        (404, "does not know this address", False),
        (400, "HTTP 400", True),
        (413, "HTTP 413", True),
        (302, "redirects, which is not followed", False),
        (307, "redirects, which is not followed", False),
        ("drop", "has not answered", False),
    ],
)
def test_what_is_no_success_is_said_without_the_secret(receiver, answer: Any, words: str, this_one: bool) -> None:
    one = receiver(answer)
    with pytest.raises(NotTold, match=words) as e:
        hook(one, login="ann", password="pw-hush", extra={"path": SECRET}).send(BODY)
    assert e.value.this_one is this_one
    assert "hush" not in str(e.value)
    assert len(one.got) == 1, "nothing was sent a second time, nor to another address"


@pytest.mark.parametrize("answer", ["hang", "drip headers", "drip"])
def test_a_receiver_that_hangs_costs_no_more_than_the_time_out(receiver, answer: str) -> None:
    one, began = receiver(answer), time.monotonic()
    if answer != "drip":
        with pytest.raises(NotTold, match="no answer in time"):
            hook(one, timeout_s=0.2).send(BODY)
    else:
        hook(one, timeout_s=1.0).send(BODY)  # 200 has been said
    assert time.monotonic() - began < 15


def test_nobody_there(receiver) -> None:
    one = receiver(200)
    gone = one.url
    one.close()
    with pytest.raises(NotTold, match="127.0.0.1"):
        Webhook(Connection(conn_id="alerts", conn_type="http", host=gone)).send(BODY)


@pytest.mark.parametrize("host", [None, "http://[broken", "http://h:port"])
def test_an_address_that_is_none(host: str | None) -> None:
    with pytest.raises(TidegateError) as e:
        Webhook(Connection(conn_id="alerts", conn_type="http", host=host, extra={"path": SECRET})).send(BODY)
    assert "hush" not in str(e.value)


def test_tls_is_verified(receiver, tmp_path: Path) -> None:
    context, authority = self_signed(tmp_path)
    one = receiver(200, context=context)
    with pytest.raises(NotTold, match="SSLCertVerificationError"):
        hook(one).send(BODY)
    assert one.got == []
    hook(one, extra={"verify": str(authority)}).send(BODY)
    hook(one, extra={"verify": False}).send(BODY)
    assert len(one.got) == 2
    with pytest.raises(TidegateError, match="verify"):
        hook(one, extra={"verify": str(tmp_path / "none.pem")})


# ---------------------------------------------------------------- a function of the user's

CALLED: list[dict[str, Any]] = []
GATE = threading.Event()


def channel(message: dict[str, Any]) -> None:
    CALLED.append(message)
    message["text"] = "changed"


def broken(message: dict[str, Any]) -> None:
    raise SystemExit("no more")


def stuck(message: dict[str, Any]) -> None:
    GATE.wait(20)


def test_a_function_gets_a_copy() -> None:
    body = dict(BODY)
    Function(f"{__name__}:channel").send(body)
    assert CALLED[-1]["id"] == "a"
    assert body == BODY


@pytest.mark.parametrize(
    ("function", "words"),
    [("broken", "SystemExit: no more"), ("stuck", "has not come back"), ("absent", "AttributeError")],
)
def test_a_function_that_does_not_work_is_said(function: str, words: str) -> None:
    GATE.clear()
    with pytest.raises(NotTold, match=words):
        Function(f"{__name__}:{function}", timeout_s=0.2 if function == "stuck" else 60.0).send(BODY)
    GATE.set()
    with pytest.raises(NotTold, match="ModuleNotFoundError"):
        Function("no.such.module:f").send(BODY)
