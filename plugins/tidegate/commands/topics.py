"""What Kafka says of many pipelines' topics within a given time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

from tidegate.commands import surroundings

if TYPE_CHECKING:
    from tidegate.core.ports import TopicState
    from tidegate.spec import Loaded


def topics(loaded: Sequence[Loaded], seconds: float) -> dict[str, TopicState | str]:
    """By pipeline: its topic, or why Kafka says nothing of it. One client for each connection and isolation."""
    from tidegate.core.errors import TidegateError

    sources: dict[tuple[str, str], Any] = {}
    answers: dict[str, TopicState | str] = {}
    pool = ThreadPoolExecutor(8, thread_name_prefix="kafka")
    asked = {}
    for one in loaded:
        if one.pipeline is None:
            continue
        source = one.pipeline.source
        key = (source.conn_id, source.isolation)
        try:
            if key not in sources:
                sources[key] = surroundings.kafka(one.pipeline, timeout_s=seconds / 2)
            asked[pool.submit(sources[key].describe, source.topic)] = one.name
        except TidegateError as e:
            answers[one.name] = _first(e)
    wait(asked, timeout=seconds)
    pool.shutdown(wait=False, cancel_futures=True)
    for future, name in asked.items():
        if not future.done() or future.cancelled():
            answers[name] = f"Kafka gave no answer within {seconds:g} s"
            continue
        error = future.exception()
        if error is not None and not isinstance(error, TidegateError):
            raise error
        answers[name] = _first(error) if error is not None else future.result()
    return answers


def _first(error: BaseException) -> str:
    return str(error).splitlines()[0]
