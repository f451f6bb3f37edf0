"""One message between its neighbours: what a decoder makes of it, and that the others stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark_jobs.engine.decoder import decoder_for
from spark_jobs.engine.formats import Bad, Decoded, Decoder
from tests.engine_fixtures import chunk_of, pipeline
from tidegate.core.spec.pipeline import Column, EventTime, Format, Pipeline


class Dirty(str):
    """What the reason must say."""


def spec(message_format: Format, columns: dict[str, str], time: str = "", form: str = "epoch_ms") -> Pipeline:
    """`columns`: name -> type, with ` from $.path` and ` not null` after it where that is wanted."""
    made = []
    for name, text in columns.items():
        nullable = not text.endswith(" not null")
        kind, _, path = text.removesuffix(" not null").partition(" from ")
        made.append(Column(name=name, type=kind, path=path or f"$.{name}", nullable=nullable))
    return pipeline(
        "/x",
        format=message_format,
        columns=tuple(made),
        event_time=EventTime(time or None, form),
        partition_by=("date", "hour"),
    )


def between(decoder: Decoder, message: bytes | None, neighbour: bytes) -> tuple[dict[str, Any] | Bad, Decoded]:
    """The row that the message becomes, or why it becomes none."""
    alone = decoder.decode(chunk_of([neighbour])).table.to_pylist()[0]
    decoded = decoder.decode(chunk_of([neighbour, message, neighbour, message, neighbour]))
    rows = decoded.table.to_pylist()
    assert len(rows) == 5
    assert rows[0] == rows[2] == rows[4] == alone
    assert set(decoded.bad) in (set(), {1, 3})
    if decoded.bad:
        assert decoded.bad[1] == decoded.bad[3]
        return decoded.bad[1], decoded
    assert repr(rows[1]) == repr(rows[3])  # NaN and minus zero show
    return rows[1], decoded


def check(decoder: Decoder, message: bytes | None, neighbour: bytes, expected: Any) -> None:
    """`expected`: a Dirty, the row, or the value of column `c`."""
    found, _ = between(decoder, message, neighbour)
    if isinstance(expected, Dirty):
        assert isinstance(found, Bad), found
        assert str(expected) in found.reason, found
    else:
        assert isinstance(found, dict), found
        wanted = expected if isinstance(expected, dict) and set(expected) == set(found) else {"c": expected}
        assert repr({name: found[name] for name in wanted}) == repr(wanted)


def rows_of(pipeline_: Pipeline, messages: Sequence[bytes | None]) -> Decoded:
    return decoder_for(pipeline_).decode(chunk_of(list(messages)))
