"""A warm session's side of the conversation: plans come one after another over a UNIX socket.

Each message is a line with a JSON object. The caller says `{"identity": ...}` and hears one of

    ready    (log, pids)  nobody else is served until the caller has gone
    busy                  another caller is
    leaving  (why)        this session ends; a new one is needed

To `ready` it answers `{"plan": ..., "user": ..., "secrets": ...}`, and hears `working`, then `alive` from time to
time, at last `done` or `failed` (said). A caller that is gone before it has named a plan has changed nothing: so a
session that stood still while it was called does no work on waking that somebody else was given meanwhile.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from spark_jobs.engine.failures import JobError, last_line

SOCKET = "socket"
ALIVE_S, CALLER_S, TICK_S = 1.0, 10.0, 0.5
Message = dict[str, Any]


@dataclass(frozen=True)
class Terms:
    """Terms that a session is started with. `folder` is this user's alone; `identity` is of the code and its setting.

    It ends after `idle_s` seconds without work, or after `batches` plans.
    """

    folder: str
    identity: str
    idle_s: float
    batches: int
    log: str = ""


@dataclass
class _Caller:
    connection: socket.socket
    lines: BinaryIO
    lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, kind: str, **more: object) -> None:
        """Raises OSError when the caller is gone."""
        with self.lock:
            self.connection.sendall(json.dumps({"is": kind, **more}).encode() + b"\n")

    def hear(self) -> Message | None:
        """The caller's next message; None if it has gone or says nothing for a while."""
        try:
            line = self.lines.readline()
            found = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def close(self) -> None:
        self.lines.close()
        self.connection.close()


class Session:
    """`run(request)` carries out a plan and says what it did; `well()` tells whether another one can be taken."""

    def __init__(self, terms: Terms, run: Callable[[Message], str], well: Callable[[], bool]) -> None:
        self._terms, self._run, self._well = terms, run, well
        self._callers: queue.Queue[_Caller] = queue.Queue()
        self._free = threading.Lock()  # held while a caller is served, and for good by a session that ends
        self._leaving = threading.Event()
        self._path = Path(terms.folder) / SOCKET
        self._pids = [os.getppid(), os.getpid()]  # spark-submit's JVM and this driver

    def serve(self) -> str:
        """Take plans until it is time to end; why."""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        fresh = f"{self._path}.{os.getpid()}"
        self._listener.bind(fresh)
        self._listener.listen()
        self._inode = os.stat(fresh).st_ino
        os.rename(fresh, self._path)  # from now on callers find it; it takes the place of one that does not answer
        threading.Thread(target=self._accept, daemon=True).start()
        try:
            return self._work()
        finally:
            self._leave()

    def _work(self) -> str:
        served, idle_since = 0, time.monotonic()
        while True:
            try:
                caller = self._callers.get(timeout=TICK_S)
            except queue.Empty:
                reason = self._reason_to_end(time.monotonic() - idle_since)
                if reason and self._free.acquire(blocking=False):
                    return reason
                continue
            trusted = self._serve_one(caller)
            served, idle_since = served + 1, time.monotonic()
            if not trusted or served >= self._terms.batches:
                return f"{served} plans done" if trusted else "its last plan failed in a way that may have hurt it"
            self._free.release()

    def _reason_to_end(self, idle_s: float) -> str | None:
        if self._leaving.is_set():
            return "a caller has other code"
        if idle_s >= self._terms.idle_s:
            return f"nothing to do for {idle_s:.0f} s"
        try:
            mine = os.stat(self._path).st_ino == self._inode
        except OSError:
            mine = False
        if not mine:
            return "another session has taken its place"
        return None if self._well() else "Spark has ended"

    def _serve_one(self, caller: _Caller) -> bool:
        """Whether this session is as good as before."""
        try:
            caller.tell("ready", log=self._terms.log, pids=self._pids)
            request = caller.hear()
            if request is None or not self._well():
                return self._well()
            caller.tell("working")
            with _sign_of_life(caller):
                kind, said, trusted = self._outcome(request)
            caller.tell(kind, said=said)
            return trusted
        except OSError:  # the caller has gone; what was written for it is in its own attempt's directory
            return True
        finally:
            caller.close()

    def _outcome(self, request: Message) -> tuple[str, str, bool]:
        try:
            return "done", self._run(request), True
        except JobError as e:
            # what another try may heal can be this session's own trouble, such as temporary files that somebody removed
            return "failed", f"tidegate: {last_line(e.failure)}", not e.failure.retry and self._well()
        except Exception as e:
            return "failed", f"tidegate: {type(e).__name__}: {e}", False

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(CALLER_S)
            caller = _Caller(connection, connection.makefile("rb"))
            threading.Thread(target=self._admit, args=(caller,), daemon=True).start()

    def _admit(self, caller: _Caller) -> None:
        try:
            hello = caller.hear()
            if hello is not None and hello.get("identity") == self._terms.identity and not self._leaving.is_set():
                if self._free.acquire(blocking=False):
                    self._callers.put(caller)
                    return
                caller.tell("busy")
            elif hello is not None:
                self._leaving.set()
                caller.tell("leaving", why="its code or its settings are not the caller's")
        except OSError:
            pass
        caller.close()

    def _leave(self) -> None:
        try:
            if os.stat(self._path).st_ino == self._inode:
                os.unlink(self._path)
        except OSError:
            pass
        self._listener.close()
        while not self._callers.empty():
            self._callers.get().close()


@contextmanager
def _sign_of_life(caller: _Caller) -> Iterator[None]:
    over = threading.Event()

    def tell() -> None:
        while not over.wait(ALIVE_S):
            try:
                caller.tell("alive")
            except OSError:
                return

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
