"""A pipeline's YAML for a topic that none reads yet, each decision with its reason, from a sample of its messages."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.core.base.instants import DAY_MS, HOUR_MS, MINUTE_MS, iso
from tidegate.core.base.wording import many
from tidegate.core.spec import draft_fields, draft_times
from tidegate.core.spec.draft_fields import Columns, DraftColumn, Field, Message
from tidegate.core.spec.draft_times import KAFKA_TIMESTAMP, TimeField, WindowDraft
from tidegate.core.spec.paths import parse, path_of
from tidegate.core.spec.pipeline import RAW_HEADERS
from tidegate.core.spec.proposals import scalar, value_of

_COMMENT_AT, _LONGEST = 48, 120


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the author of the pipeline has said; `location` is empty where there is no place by default.

    `format`: section `format` of the YAML, `type` first."""

    name: str
    topic: str
    conn_id: str
    sink_conn_id: str
    table: str
    location: str
    format: Mapping[str, str | list[str]]
    event_time: str = ""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """`records`: of the topic; `looked`: messages of the sample, `decoded` of them; `gaps`: offsets of the sample at
    which there is no record."""

    wanted: Wanted
    records: int
    looked: int
    decoded: int
    columns: Columns
    time: TimeField | None
    others: tuple[TimeField, ...]
    windows: WindowDraft
    gaps: int = 0

    def without(self, refused: Collection[str]) -> Draft | None:
        """The draft with wider types for columns whose values do not fit, or without them; None: nothing changes."""
        return self._with({c.name: c.wider() for c in self.columns.columns if c.name in refused})

    def otherwise(self, places: Collection[int]) -> Draft | None:
        """The draft with other types for the columns at these places, whose types the message's schema refuses."""
        found = [c for i, c in enumerate(self.columns.columns) if i in places]
        return self._with({c.name: replace(c, type="binary") if c.type == "string" else None for c in found})

    def _with(self, instead: Mapping[str, DraftColumn | None]) -> Draft | None:
        kept, left = [], list(self.columns.left)
        for column in self.columns.columns:
            other = instead.get(column.name, column)
            if other is None:
                left.append(f"{column.path}: its values do not fit {column.type}")
            else:
                kept.append(other)
        if tuple(kept) == self.columns.columns or not kept:
            return None
        return replace(self, columns=Columns(tuple(kept), tuple(left)))


_RAW = Columns(
    (
        DraftColumn("key", "binary", "$.key", "the record's key"),
        DraftColumn("value", "binary", "$.value", "the message as it is"),
        DraftColumn("headers", RAW_HEADERS, "$.headers", "its headers"),
    )
)


class UnknownField(ValueError):
    """The event time that was asked for is in no message, or is no time."""


def pipeline_name(topic: str) -> str:
    """A name for the pipeline of a topic: `shop.Orders-v1` is `shop_orders_v1`."""
    name = re.sub(r"[^a-z0-9]+", "_", topic.lower()).strip("_")[:100]
    return name if re.match(r"[a-z]", name) else f"topic_{name}".rstrip("_")


def sample_ranges(partitions: Mapping[int, tuple[int, int]], messages: int) -> list[tuple[int, int, int]]:
    """(partition, start, end) of about so many records: the first, the middle and the last of each partition; of some
    partitions, evenly spread, where there are too many for all of them."""
    filled = [(p, begin, end) for p, (begin, end) in sorted(partitions.items()) if end > begin]
    most = min(len(filled), max(1, messages // 3))
    ranges = []
    for partition, begin, end in (filled[i * len(filled) // most] for i in range(most)):
        places = {(begin, end)}
        if end - begin > messages // most:
            third = max(1, messages // most // 3)
            middle = begin + (end - begin - third) // 2
            places = {(begin, begin + third), (middle, middle + third), (end - third, end)}
        ranges += [(partition, *place) for place in sorted(places)]
    return ranges


def draft(wanted: Wanted, messages: Sequence[Message], records: int, gaps: int, now_ms: int) -> Draft:
    """Raises UnknownField for an event time that no message has."""
    decoded = [m for m in messages if m.fields is not None]
    root = draft_fields.fields_of(decoded)
    raw = wanted.format["type"] == "raw"
    if raw:
        columns, found = _RAW, []
    else:
        columns = draft_fields.columns_of(root, len(decoded), wanted.format["type"] == "csv")
        found = draft_times.candidates(draft_fields.leaves(root), len(decoded), now_ms)
    time = _time(wanted.event_time, found, root)
    times, lags = [], []
    for m in decoded:
        at = m.kafka_ms if time is None else draft_times.event_ms(_value(m, time.path), time.format)
        if at is not None:
            times.append((m.partition, m.offset, at))
            lags.append(m.kafka_ms - at)
    windows = draft_times.windows_of(
        times,
        records,
        now_ms,
        date_only=time is not None and time.date_only,
        lag_ms=sorted(lags)[len(lags) // 2] if lags else 0,
    )
    others = tuple(c for c in found if c != time)
    return Draft(
        wanted=wanted,
        records=records,
        looked=len(messages),
        decoded=len(decoded),
        columns=columns,
        time=time,
        others=others,
        windows=windows,
        gaps=gaps,
    )


def _time(asked: str, found: Sequence[TimeField], root: Field) -> TimeField | None:
    if asked == KAFKA_TIMESTAMP:
        return None
    if not asked:
        return draft_times.chosen(found)
    path = asked if asked.startswith("$.") else f"$.{asked}"
    for one in found:
        if one.path == path:
            return one
    known = ", ".join([c.path for c in found] + [KAFKA_TIMESTAMP])
    there = path in map(path_of, draft_fields.leaves(root))
    what = f"{path} holds no times" if there else f"no message of the sample has {path}"
    raise UnknownField(f"{what}; --event-time can be {known}")


def _value(message: Message, path: str) -> object:
    names = parse(path)
    text = (message.fields or {}).get(names[0])
    value = None if text is None else value_of(text)
    for name in names[1:]:
        value = value.get(name) if isinstance(value, dict) else None
    return value


# ---------------------------------------------------------------- the YAML


def text(found: Draft) -> str:
    """The whole file."""
    w = found.wanted
    sample = f"{many(found.looked, 'message')} of {many(found.records, 'record')}"
    lines = [
        f"# Drafted by `tidegate init {w.topic}` from {sample}. Change whatever you know better; every key",
        "# is in docs/pipeline.md. What has landed stays: columns can be added later (docs/schema.md).",
        "version: 1",
        _line(f"name: {w.name}", "the file's name; its DAGs begin with it"),
        _line("owner: data-platform", "shown in Airflow"),
        *_source(found),
        _line(f"format: {_flow(w.format)}", _unknown(found)),
        "columns:",
        *(_line(f"  {column.line}", column.why) for column in found.columns.columns),
        *(f"  # {_plain(reason)}" for reason in found.columns.left),
        *_event_time(found),
        *_windows(found.windows),
        *_sink(w, found.windows),
    ]
    return "\n".join(lines) + "\n"


def _source(found: Draft) -> list[str]:
    w = found.wanted
    pairs = {"conn_id": w.conn_id, "topic": w.topic}
    if not found.gaps:
        return [f"source: {_flow(pairs)}"]
    why = f"{many(found.gaps, 'offset')} of the sample hold no record: transactions, or compaction"
    return [_line(f"source: {_flow(pairs | {'gaps': 'allow'})}", why)]


def _unknown(found: Draft) -> str:
    if found.wanted.format["type"] == "raw":
        return "the messages as they are"
    return "fields that the sample did not show are kept in the map column _extra"


def _event_time(found: Draft) -> list[str]:
    if found.time is None:
        what = "Kafka's timestamp of the record"
        if not found.others:
            why = f"{what}: no field of the sample holds times"
        else:
            why = f"{what}: of no field is it certain that it is the event time"
        lines = [_line(f"event_time: {{from: {KAFKA_TIMESTAMP}}}", why)]
    else:
        pairs = {"from": found.time.path, "format": found.time.format}
        lines = [_line(f"event_time: {_flow(pairs)}", found.time.why)]
    rest = ", ".join(f"{c.path} ({c.format})" for c in found.others[:5])
    return [*lines, *([f"  # other fields with times: {_plain(rest)}"] if rest else [])]


def _windows(found: WindowDraft) -> list[str]:
    values = {
        "size": _duration(found.size_ms),
        "timezone": "UTC",
        "start": iso(found.start_ms).replace("Z", ":00Z"),
        "watermark_delay": _duration(found.delay_ms),
    }
    why = dict(found.why)
    if found.idle != "clock":
        values["idle"] = found.idle
        why["idle"] += "; the newest window waits for a record after it"
    return ["windows:", *(_line(f"  {key}: {value}", why.get(key)) for key, value in values.items())]


def _sink(w: Wanted, windows: WindowDraft) -> list[str]:
    time = "date" if windows.size_ms == DAY_MS else "date, hour"
    return [
        _line(f"partition_by: [{time}]", "add columns with few values, if queries choose by them"),
        "sink:",
        f"  conn_id: {_scalar(w.sink_conn_id)}",
        f"  table: {w.table}",
        f"  location: {json.dumps(w.location)}",
    ]


def _duration(ms: int) -> str:
    for unit, length in (("d", DAY_MS), ("h", HOUR_MS), ("m", MINUTE_MS)):
        if ms % length == 0:
            return f"{ms // length}{unit}"
    return f"{ms // 1000}s"


def _flow(pairs: Mapping[str, str | list[str]]) -> str:
    return "{" + ", ".join(f"{key}: {_scalar(value)}" for key, value in pairs.items()) + "}"


def _scalar(value: str | list[str]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_scalar, value))}]"
    return scalar(value)


def _line(content: str, why: str | None) -> str:
    """The comment stands behind its line, or above it where both together are too long."""
    if not why:
        return content
    line = f"{content.ljust(_COMMENT_AT)}  # {_plain(why)}"
    indent = " " * (len(content) - len(content.lstrip()))
    return line if len(line) <= _LONGEST else f"{indent}# {_plain(why)}\n{content}"


def _plain(comment: str) -> str:
    """A comment on one line, without characters that YAML refuses or a terminal acts on."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in comment)[:300]
