"""Sessions of a Hive endpoint: one for each call, or kept for the next one by a task that makes many."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidegate.targets.hive.link import Endpoint, Link

IDLE_S = 20.0
"""A session that has waited longer is not used again: the server may have forgotten it."""

_Key = tuple[str, frozenset[tuple[str, str]]]


@dataclass
class _Session:
    link: Link
    closing: contextlib.ExitStack
    used: float = 0.0


class Sessions:
    """Safe to share between threads: a session is one call's at a time."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint, self._lock = endpoint, threading.Lock()
        self._keepers = 0
        self._idle: dict[_Key, _Session] = {}

    @contextlib.contextmanager
    def keeping(self) -> Iterator[None]:
        """Inside, a call leaves its session to the next one; they are closed at the end."""
        with self._lock:
            self._keepers += 1
        try:
            yield
        finally:
            with self._lock:
                self._keepers -= 1
                over = [] if self._keepers else [self._idle.popitem()[1] for _ in range(len(self._idle))]
            for session in over:
                session.closing.close()

    @contextlib.contextmanager
    def link(self, database: str = "default", settings: Mapping[str, str] | None = None) -> Iterator[Link]:
        """A session; one that has met an error is closed. Raises CatalogueError, definite: nothing has been sent."""
        key = (database, frozenset((settings or {}).items()))
        session = self._kept(key)
        if session is None:
            closing = contextlib.ExitStack()
            session = _Session(closing.enter_context(self._endpoint.link(database, settings)), closing)
        try:
            yield session.link
        except BaseException:
            session.closing.close()
            raise
        if not self._keep(key, session):
            session.closing.close()

    def _kept(self, key: _Key) -> _Session | None:
        with self._lock:
            session = self._idle.pop(key, None)
        if session is not None and time.monotonic() - session.used > IDLE_S:
            session.closing.close()
            return None
        return session

    def _keep(self, key: _Key, session: _Session) -> bool:
        if not self._keepers:
            return False
        try:
            session.link.done()
        except Exception:  # what was asked has been answered; the next call opens another
            session.link.broken = True
            return False
        session.used = time.monotonic()
        with self._lock:
            kept = self._keepers > 0 and key not in self._idle
            if kept:
                self._idle[key] = session
        return kept
