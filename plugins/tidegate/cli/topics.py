"""State of many pipelines' topics, asked within a given time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegate.cli import surroundings
from tidegate.core.base.errors import TidegateError
from tidegate.core.base.wording import first_line

if TYPE_CHECKING:
    from tidegate.core.source.port import LogState
    from tidegate.spec import Loaded

AT_ONCE = 8


def topics(loaded: Sequence[Loaded], seconds: float) -> dict[str, LogState | str]:
    """The topic's state by pipeline, or why it is unknown. One client for each connection and way of reading.

    A connection that does not answer costs `seconds` once, however many pipelines use it."""
    from tidegate.cli.deadlines import Away, ask
    from tidegate.kinds import source_kind

    sources: dict[tuple[Any, ...], Any] = {}
    away = Away()
    answers: dict[str, LogState | str] = {}
    questions, servers, titles = {}, {}, {}

    for one in loaded:
        if one.pipeline is None:
            continue
        source = one.pipeline.source
        own = one.name if source.sites else ""  # its active site may be another than its neighbours'
        key = (source.kind, source.conn_id, source.isolation, source.options, own)
        try:
            if key not in sources:
                sources[key] = surroundings.source(one.pipeline, timeout_s=seconds / 2)
        except TidegateError as e:
            answers[one.name] = first_line(e)
            continue
        questions[one.name] = partial(away.ask, key, partial(sources[key].look, source.topic))
        servers[one.name] = source.conn_id
        titles[one.name] = source_kind(source.kind).title
    for name, answer in ask(questions, seconds, servers, at_once=AT_ONCE).items():
        if answer.error is not None and not isinstance(answer.error, TidegateError):
            raise answer.error
        if answer.error is not None:
            answers[name] = first_line(answer.error)
        else:
            answers[name] = answer.value or f"{titles[name]} gave no answer within {seconds:g} s"
    return answers
