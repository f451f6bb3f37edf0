"""Calls that hang: real blocks, ended by the test."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from tidegate.adapters.watchdog import ANY, Watched
from tidegate.core.base.errors import OutcomeUnknown, PathMissing, StorageError
from tidegate.core.base.storage import Storage
from tidegate.storage import LocalStorage

SHORT, LONG = 0.02, 30.0


class Port:
    """`move` and `look` block until `open` is set; then they do their work."""

    def __init__(self) -> None:
        self.called, self.open, self.ended = threading.Event(), threading.Event(), threading.Semaphore(0)
        self.moved: list[str] = []
        self.address = "here"

    def move(self, name: str) -> str:
        self._wait()
        self.moved.append(name)
        self.ended.release()
        return name

    def look(self, name: str = "x") -> str:
        self._wait()
        self.ended.release()
        return name

    def _wait(self) -> None:
        self.called.set()
        assert self.open.wait(LONG)

    def fail(self) -> None:
        raise PathMissing("gone: is not there")


@pytest.fixture
def port() -> Iterator[Port]:
    port = Port()
    yield port
    port.open.set()


def watched(port: object, limits=SHORT, most_stuck: int = 8) -> Watched:
    return Watched(port, limits, OutcomeUnknown, StorageError, looking={"look"}, most_stuck=most_stuck)


def test_what_comes_back_in_time_is_passed_on(port):
    port.open.set()
    watch = watched(port, LONG)
    assert (watch.move("a"), watch.look(name="b"), watch.address) == ("a", "b", "here")
    assert port.moved == ["a"]
    assert watch.stuck == 0


def test_errors_are_passed_on_with_the_place_that_raised_them(port):
    with pytest.raises(PathMissing, match="gone") as raised:
        watched(port, LONG).fail()
    assert raised.traceback[-1].name == "fail"


def test_a_change_that_hangs_is_unknown_and_may_still_be_executed(port):
    watch = watched(port)
    with pytest.raises(OutcomeUnknown, match=r"move a: no answer within 0\.02 s; it may or may not"):
        watch.move("a")
    assert (watch.stuck, port.moved) == (1, [])
    port.open.set()
    assert port.ended.acquire(timeout=LONG)
    assert port.moved == ["a"]


def test_a_look_that_hangs_is_an_ordinary_error_that_a_retry_can_heal(port):
    with pytest.raises(StorageError, match="look x: no answer") as raised:
        watched(port).look("x")
    assert not isinstance(raised.value, OutcomeUnknown)
    assert raised.value.retry


def test_limits_by_name(port):
    watch = watched(port, {"look": SHORT, ANY: LONG})
    with pytest.raises(StorageError, match="look"):
        watch.look()
    port.open.set()
    assert watch.move("a") == "a"


def test_with_too_many_hanging_nothing_more_is_sent(port):
    watch = watched(port, most_stuck=2)
    for name in ("a", "b"):
        with pytest.raises(OutcomeUnknown):
            watch.move(name)
    with pytest.raises(StorageError, match="move c: not tried: 2 calls before it hang") as raised:
        watch.move("c")
    assert not isinstance(raised.value, OutcomeUnknown), "it was not sent: that is definite"
    port.open.set()
    for _ in range(2):
        assert port.ended.acquire(timeout=LONG)
    while watch.stuck:  # the last lines of the threads
        threading.Event().wait(0.001)
    assert watch.move("d") == "d"
    assert sorted(port.moved) == ["a", "b", "d"]


def test_a_task_that_is_ended_while_it_waits_leaves_the_call(port):
    """SIGTERM, as Airflow ends a task: its handler raises in the main thread, which waits."""

    class Ended(BaseException):
        pass

    def end(_signal: int, _frame: object) -> None:
        raise Ended

    def kill_when_called() -> None:
        assert port.called.wait(LONG)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)

    watch = watched(port, LONG)
    before = signal.signal(signal.SIGTERM, end)
    try:
        threading.Thread(target=kill_when_called, daemon=True).start()
        with pytest.raises(Ended):
            watch.move("a")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (watch.stuck, port.moved) == (1, [])


def test_many_threads_at_once(port):
    port.open.set()
    watch, results = watched(port, LONG), []
    threads = [threading.Thread(target=lambda n=n: results.append(watch.look(str(n)))) for n in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results, key=int) == [str(n) for n in range(32)]
    assert watch.stuck == 0


def test_a_watched_storage_is_a_storage(tmp_path):
    storage = watched(LocalStorage(), LONG)
    assert isinstance(storage, Storage)
    storage.write_new(f"{tmp_path}/f", b"x")
    assert storage.read(f"{tmp_path}/f") == b"x"
    with pytest.raises(PathMissing):
        storage.read(f"{tmp_path}/g")


def test_private_names_are_not_forwarded(port):
    port._secret = 1
    with pytest.raises(AttributeError):
        _ = watched(port)._secret
