"""`tidegate metrics --listen`: Prometheus is answered in time, and the ledger is asked as seldom as it may be."""

from __future__ import annotations

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from tidegate.adapters.scrape import CONTENT_TYPE, MOST_CLIENTS, Kept, Server, Unavailable, address, is_loopback


@pytest.fixture
def serving() -> Iterator[Callable[[Kept], str]]:
    made: list[tuple[Server, threading.Thread]] = []

    def serve(kept: Kept) -> str:
        server = Server("127.0.0.1", 0, kept)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        made.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}"

    yield serve
    for server, thread in made:
        server.shutdown()
        server.server_close()
        thread.join()


def get(url: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as e:
        with e:
            return e.code, e.headers["Content-Type"], e.read().decode()


def test_one_look_serves_many_for_a_while() -> None:
    now, looks = [0.0], []
    kept = Kept(lambda: looks.append(1) or f"look {len(looks)}", 15, clock=lambda: now[0])
    assert [kept.text(), kept.text()] == ["look 1", "look 1"]
    now[0] = 14.9
    assert kept.text() == "look 1"
    now[0] = 15.0
    assert kept.text() == "look 2"


def test_many_at_once_share_a_look() -> None:
    go, looks, got = threading.Event(), [], []

    def look() -> str:
        looks.append(1)
        go.wait(10)
        return "text"

    kept = Kept(look)
    threads = [threading.Thread(target=lambda: got.append(kept.text())) for _ in range(9)]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()
    assert (got, len(looks)) == (["text"] * 9, 1)


def test_a_look_that_hangs_is_said_in_time_and_waited_for_by_nobody_twice() -> None:
    go, looks = threading.Event(), []

    def look() -> str:
        looks.append(1)
        go.wait(10)
        return "text"

    kept = Kept(look, deadline_s=0.05)
    for _ in range(3):
        with pytest.raises(Unavailable, match=r"0\.05 s"):
            kept.text()
    assert len(looks) == 1, "a second look beside the one that hangs would be no help"
    go.set()
    with kept._changed:
        kept._changed.wait_for(lambda: not kept._looking, 10)
    assert kept.text() == "text"


def test_an_error_is_not_kept() -> None:
    answers: list[object] = [ValueError("the ledger\n is away"), "text"]

    def look() -> str:
        one = answers.pop(0)
        if isinstance(one, Exception):
            raise one
        return str(one)

    kept = Kept(look)
    with pytest.raises(Unavailable, match="the ledger is away"):
        kept.text()
    assert kept.text() == "text"


def test_what_is_answered(serving) -> None:
    url = serving(Kept(lambda: 'a{b="é"} 1\n'))
    assert get(f"{url}/metrics") == (200, CONTENT_TYPE, 'a{b="é"} 1\n')
    assert get(f"{url}/metrics?x=1")[0] == 200
    assert get(f"{url}/")[0] == get(f"{url}/metrics/x")[0] == 404
    failing = serving(Kept(lambda: 1 / 0))  # type: ignore[arg-type,return-value]
    assert get(f"{failing}/metrics")[::2] == (503, "division by zero\n")
    request = urllib.request.Request(f"{url}/metrics", b"x", method="POST")
    with pytest.raises(urllib.error.HTTPError, match="501"):
        urllib.request.urlopen(request, timeout=10)


def test_clients_that_say_nothing_do_not_fill_it(serving) -> None:
    url = serving(Kept(lambda: "text"))
    host, port = url.removeprefix("http://").split(":")
    silent = [socket.create_connection((host, int(port)), 10) for _ in range(MOST_CLIENTS - 1)]
    try:
        assert get(f"{url}/metrics")[0] == 200
    finally:
        for one in silent:
            one.close()


@pytest.mark.parametrize(
    ("text", "found"),
    [("9469", ("127.0.0.1", 9469)), ("0.0.0.0:1", ("0.0.0.0", 1)), ("[::1]:80", ("::1", 80)), ("h:80", ("h", 80))],
)
def test_addresses(text: str, found: tuple[str, int]) -> None:
    assert address(text) == found


@pytest.mark.parametrize("text", ["", ":80", "h:", "h:x", "h:70000", "x"])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(ValueError):
        address(text)


def test_loopback() -> None:
    assert [is_loopback(h) for h in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "10.1.2.3", "h")] == [True] * 3 + [
        False
    ] * 3
