"""The engine's JSON decoders, asked with the oracle's plain specs, answering in the oracle's form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from spark_jobs.engine.formats import Decoded, Decoder
from spark_jobs.engine.formats.json_decoder import JsonDecoder
from tests.engine_fixtures import chunk_of, pipeline
from tests.value_rules.oracle_json import PlainSpec, Refused, Row
from tests.value_rules.oracle_values import kind_of
from tests.value_rules.plain_values import plain
from tidegate.core.source.records import Chunk
from tidegate.core.spec.pipeline import Column, EventTime, Format, Pipeline


def compiled(spec: PlainSpec, location: str = "/nowhere") -> Pipeline:
    return pipeline_of(spec, location, Format("json", spec.unknown))


def pipeline_of(spec: PlainSpec, location: str, form: Format) -> Pipeline:
    columns = tuple(
        Column(name=c.name, type=c.type, path=path_text(c.path), nullable=c.nullable, convert=c.convert)
        for c in spec.columns
    )
    return replace(
        pipeline(location),
        columns=columns,
        partition_by=("date", "hour"),
        format=form,
        event_time=EventTime(None if spec.time is None else path_text(spec.time), spec.time_format),
    )


def path_text(path: Iterable[str]) -> str:
    return "$" + "".join(f".{key}" if key.isalnum() else "." + _quoted(key) for key in path)


def _quoted(key: str) -> str:
    return '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'


def decoders(spec: PlainSpec) -> dict[str, Decoder]:
    built = compiled(spec)
    return {"fast": JsonDecoder(built), "rows": JsonDecoder(built, vectorised=False)}


def answers(spec: PlainSpec, decoder: Decoder, messages: list[bytes | None]) -> list[Row | Refused]:
    """One answer for each message; `unknown` of the first that had it is what an operator is told, unless captured."""
    return in_plain_form(spec, decoder.decode(chunk_of(messages)), len(messages))


def in_plain_form(spec: PlainSpec, decoded: Decoded, count: int) -> list[Row | Refused]:
    kinds = {c.name: kind_of(c.type) for c in spec.columns}
    columns = {name: decoded.table.column(name).to_pylist() for name in kinds}
    events: list[Any] = [None] * count if decoded.event_ms is None else decoded.event_ms.to_pylist()
    extra = decoded.table.column("_extra").to_pylist() if spec.unknown == "capture" else None
    found: list[Row | Refused] = []
    for i in range(count):
        bad = decoded.bad.get(i)
        if bad is not None:
            found.append(Refused(bad.reason, bad.field))
            continue
        values = {name: plain(columns[name][i], kind) for name, kind in kinds.items()}
        told = {name: text for name, (row, text) in decoded.unknown.items() if row == i}
        found.append(Row(values, events[i], dict(extra[i]) if extra else told))
    return found


__all__ = ["Chunk", "answers", "compiled", "decoders", "in_plain_form"]
