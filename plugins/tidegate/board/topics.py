"""State of topics, asked in the background: a page waits a moment and shows the answers so far."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from math import inf
from typing import Any

from tidegate.core.base.errors import SourceError, SourceUnavailable
from tidegate.core.source.port import LogState
from tidegate.core.spec.pipeline import Pipeline
from tidegate.kinds import source_kind

FRESH_S = 15.0
"""Seconds for which an answer is fresh."""
STALE_S = 120.0
"""Seconds after which an answer is not shown any more."""
SILENT_S = 20.0
"""Seconds without questions to a connection or a topic that gave no answer."""
WAIT_S = 0.08
"""Seconds that a page waits."""
THREADS = 4

_Key = tuple[str, str, str, tuple[tuple[str, str], ...]]
_Place = tuple[_Key, str]


class Topics:
    """Topics of one process. `source(pipeline)` opens a source; one is kept for each connection as long as it answers.
    `active` is the pipeline at its active site."""

    def __init__(
        self,
        source: Callable[[Pipeline], Any],
        wait_s: float = WAIT_S,
        active: Callable[[Pipeline], Pipeline] = lambda pipeline: pipeline,
    ) -> None:
        self._source, self._wait_s, self._active = source, wait_s, active
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._sources: dict[_Key, Any] = {}
        self._silent: dict[_Key | _Place, tuple[float, str]] = {}
        self._found: dict[_Place, tuple[LogState, float]] = {}
        self._asked: dict[_Place, Future[None]] = {}

    def known(self, pipelines: Sequence[Pipeline]) -> dict[str, tuple[LogState, int]]:
        """Answers by pipeline: its topic, and when Kafka answered (UTC ms)."""
        pipelines = [self._active(one) for one in pipelines]
        with self._lock:
            asked = [future for one in pipelines if (future := self._ask(one)) is not None]
        if asked:
            wait(asked, timeout=self._wait_s)
        now, found = time.monotonic(), {}
        for one in pipelines:
            answer = self._found.get(_place(one))
            if answer is not None and now - answer[1] < STALE_S:
                found[one.name] = (answer[0], time.time_ns() // 1_000_000 - int((now - answer[1]) * 1000))
        return found

    def silence(self, pipeline: Pipeline) -> str:
        """Reasons for missing answers, by pipeline."""
        pipeline = self._active(pipeline)
        silent = self._silent.get(_key(pipeline)) or self._silent.get(_place(pipeline))
        return silent[1] if silent is not None else f"{source_kind(pipeline.source.kind).title} has not answered yet"

    def _ask(self, pipeline: Pipeline) -> Future[None] | None:
        place, now = _place(pipeline), time.monotonic()
        if place in self._found and now - self._found[place][1] < FRESH_S:
            return None
        if place in self._asked:
            return self._asked[place]
        if self._is_silent(place):
            return None
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="tidegate-kafka")
        self._asked[place] = self._pool.submit(self._describe, pipeline)
        return self._asked[place]

    def _describe(self, pipeline: Pipeline) -> None:
        place = _place(pipeline)
        try:
            if self._is_silent(place[0]):
                return  # it fell silent while this waited for its turn
            source = self._sources.get(place[0])
            if source is None:  # two may open one: the first to arrive is kept, and neither has connected yet
                source = self._sources.setdefault(place[0], self._source(pipeline))
            self._found[place] = (source.look(pipeline.source.topic), time.monotonic())
            self._silent.pop(place[0], None)
            self._silent.pop(place, None)
        except Exception as e:  # a page is shown whatever Kafka's client says
            of_topic = isinstance(e, SourceError) and not isinstance(e, SourceUnavailable)
            words = str(e).splitlines()[0] if str(e) else type(e).__name__
            self._silent[place if of_topic else place[0]] = (time.monotonic(), words)
            if not of_topic:
                self._sources.pop(place[0], None)  # the connection may have been changed since
        finally:
            with self._lock:
                self._asked.pop(place, None)

    def _is_silent(self, place: _Key | _Place) -> bool:
        """Whether the topic, or its connection, gave no answer lately."""
        keys = (place, place[0]) if isinstance(place[0], tuple) else (place,)
        return any(time.monotonic() - self._silent.get(k, (-inf, ""))[0] < SILENT_S for k in keys)


def _key(pipeline: Pipeline) -> _Key:
    source = pipeline.source
    return (source.kind, source.conn_id, source.isolation, source.options)


def _place(pipeline: Pipeline) -> _Place:
    return (_key(pipeline), pipeline.source.topic)
