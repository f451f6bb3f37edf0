"""Where the rows of a replayed window come from: Kafka, our own files, or nowhere, so that the replay is refused.

Kafka's records are decoded again by today's columns. Rows of files are taken as they are, which is the same only where
nothing about the columns' meaning has changed since these rows were decoded: columns may go, change places, or become
wider where the value stays what it was. A change that needs the record itself is refused, by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from tidegate.core.base.hivetypes import Decimal, HiveType, Primitive, parse
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.files.landed import OwedSpan
from tidegate.core.files.receipt import FileEntry
from tidegate.core.source.port import LogState
from tidegate.core.spec.pipeline import EXTRA_COLUMN, Column, Format, Pipeline

T = TypeVar("T")
AUTO, KAFKA, FILES = "auto", "kafka", "files"
"""Where an operator wants rows to come from; auto: Kafka while it has the records."""

KEPT = "the generation in force stays; restore lost files from a backup of the filesystem"
_UNDECODABLE = (
    "keep the generation in force, or leave the column as it was; windows whose records Kafka still has can be replayed"
)
_UNNAMED = (
    "keep the generation in force, or go back to an earlier one whose columns are known: tidegate rollback; windows "
    "whose records Kafka still has can be replayed"
)
MOST_WINDOWS, MOST_ROWS = 24, 20_000_000
"""What one job of a range rebuilds at most, so that a range needs bounded room and shows how far it is; a window with
more rows than that is rebuilt alone."""


# ---------------------------------------------------------------- Kafka


@dataclass(frozen=True)
class Away:
    """The site at which a batch was read, while `active` is another one."""

    site: str
    active: str
    pipeline: str

    @property
    def advice(self) -> str:
        """What a person can do to have the batch's records decoded."""
        return (
            "keep the generation in force, or leave the column as it was; or replay it once site "
            f"{self.site} is active again: tidegate failover back {self.pipeline} (an hour of both sites: at neither)"
        )


def gone(
    span: OffsetRange,
    batch_id: int,
    topic_id: str,
    now: LogState | None,
    why: str = "",
    cut: int | None = None,
    away: Away | None = None,
) -> str | None:
    """Why Kafka does not have these records any more; None if it has. `now` None: there is no such topic, `why`. `cut`:
    the first offset at which the log has another record than the batch read."""
    where = f"batch {batch_id}: partition {span.partition} offsets"
    if away is not None:
        return (
            f"batch {batch_id} was read at site {away.site}, from its topic (id {topic_id}), and site {away.active} is "
            "active: copies there have other offsets"
        )
    if now is None:
        return f"batch {batch_id}: {why}"
    if now.is_another(topic_id):
        return (
            f"topic {now.topic} was recreated: it has id {now.topic_id} now, its records of then ({topic_id}) are gone"
        )
    if not now.traits.rereadable:
        return f"{where} [{span.start}, {span.end}): a second reading of {now.topic} may give other records"
    offsets = now.partitions.get(span.partition)
    if offsets is None:
        return f"{where} [{span.start}, {span.end}) are gone: the topic has no such partition"
    if span.start < offsets.log_start:
        return f"{where} [{span.start}, {min(span.end, offsets.log_start)}) have passed Kafka's retention"
    if span.end > offsets.high_watermark:
        return (
            f"{where} [{max(span.start, offsets.high_watermark)}, {span.end}) are past the end of the log: the topic "
            "lost its newest records"
        )
    if cut is not None and span.end > cut:
        return f"{where} [{max(span.start, cut)}, {span.end}) belong to other records since the log was cut at {cut}"
    return None


# ---------------------------------------------------------------- files


def needing_decoding(today: Pipeline, decoded_by: Iterable[Pipeline]) -> tuple[str, ...]:
    """Columns of today's table whose values the rows' files do not hold. `decoded_by`: every spec that may have decoded
    them; a column is taken as it is only if all of them agree with today's."""
    missing: dict[str, None] = {}
    for old in decoded_by:
        for name in _missing(today, old):
            missing.setdefault(name)
    return tuple(missing)


def _missing(today: Pipeline, old: Pipeline) -> list[str]:
    tabled = [c for c in today.columns if not c.hidden]
    if _meaning(old.format) != _meaning(today.format):
        return [c.name for c in tabled] + ([EXTRA_COLUMN[0]] if today.format.unknown_fields == "capture" else [])
    before = {c.name: c for c in old.columns}
    now = {c.name: c for c in today.columns}
    found = []
    for column in tabled:
        there = before.get(column.name)
        if there is None or there.hidden or not _kept(there, column, before, now):
            found.append(column.name)
    if today.format.unknown_fields == "capture" and not _same_extra(old, today):
        found.append(EXTRA_COLUMN[0])
    return found


def _kept(old: Column, new: Column, before: Mapping[str, Column], now: Mapping[str, Column]) -> bool:
    """Whether a value of the file is what decoding would give."""
    if replace(old, type="", nullable=True) != replace(new, type="", nullable=True) or not _widens(old.type, new.type):
        return False
    if old.nullable and not new.nullable:
        return False  # a row may hold none: decoding would have refused it
    if new.expr is None:
        return True
    # whatever the expression may read, directly or through other computed columns, must be what it was
    inputs = _named(new.expr, set(before) | set(now)) - {new.name}
    return old.type == new.type and all(
        name in before
        and name in now
        and before[name].type == now[name].type
        and _kept(before[name], now[name], before, now)
        for name in inputs
    )


def _named(expression: str, names: set[str]) -> set[str]:
    """Columns that an expression may read: every word of it that is a column's name."""
    words = {w.lower() for w in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", expression)}
    return {name for name in names if name.lower() in words}


def _widens(old: str, new: str) -> bool:
    """Whether each value of the old type is a value of the new one, and the one that decoding would give."""
    a, b = parse(old), parse(new)
    return a == b or _integers(a, b) or _decimals(a, b)


_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


def _integers(a: HiveType, b: HiveType) -> bool:
    if not (isinstance(a, Primitive) and isinstance(b, Primitive)):
        return False
    return a.name in _INTEGERS and b.name in _INTEGERS and _INTEGERS.index(b.name) > _INTEGERS.index(a.name)


def _decimals(a: HiveType, b: HiveType) -> bool:
    """Whether values stay equal, which they do not from float to double: the file holds the nearest float, decoding
    gives the nearest double."""
    if not isinstance(b, Decimal):
        return False
    if isinstance(a, Decimal):
        return b.scale >= a.scale and b.precision - b.scale >= a.precision - a.scale
    return isinstance(a, Primitive) and a.name in _DIGITS and b.precision - b.scale >= _DIGITS[a.name]


def _meaning(form: Format) -> Format:
    """What decides a decoded value. What a registry says of an id never changes, and which ids are known decides only
    whether a record is dirty."""
    avro = form.avro
    if avro is not None and avro.wire == "confluent":
        avro = replace(avro, schemas={}, registry_conn_id=None, unknown_schema="")
    return replace(form, unknown_fields="", avro=avro)


def _same_extra(old: Pipeline, new: Pipeline) -> bool:
    """Whether values that no column takes are the same: only if the same fields are taken, those that structs name
    among them."""
    if old.format.unknown_fields != "capture":
        return False
    return _taken(old) == _taken(new)


def _taken(pipeline: Pipeline) -> set[tuple[str, str]]:
    return {(c.path, c.type if "struct<" in c.type else "") for c in pipeline.decoded_columns}


def lost(span: OwedSpan, files: Iterable[FileEntry]) -> str | None:
    """Path of a file among the lost ones that may hold rows of the span."""
    for f in files:
        for p in f.partitions:
            if p.partition == span.partition and p.min_offset <= span.max_offset and span.min_offset <= p.max_offset:
                return f.path
    return None


# ---------------------------------------------------------------- the decision


@dataclass(frozen=True, kw_only=True)
class Span:
    """What one batch owes a window from one Kafka partition, and what could give it.

    `gone`: why Kafka cannot, `missing`: columns that the files do not hold, `lost`: a file that is not there,
    `unnamed`: the generation in force, if it is unknown which specs decoded the rows of its files.
    `kept_from`: the first offset of the partition that Kafka still has. `redriven`: rows of a redrive, whose records
    are kept in dirty files and are decoded again like Kafka's. `away`: they are at a site that is not active."""

    owed: OwedSpan
    gone: str | None
    missing: tuple[str, ...]
    lost: str | None = None
    kept_from: int | None = None
    redriven: bool = False
    unnamed: int | None = None
    away: Away | None = None


@dataclass(frozen=True)
class Refusal:
    """Why a window cannot be rebuilt, and what to do."""

    reason: str
    advice: str = KEPT


def decide(spans: Iterable[Span], wanted: str, kafka_columns: bool = True) -> dict[tuple[int, int], str] | Refusal:
    """KAFKA or FILES for each (batch, Kafka partition). `wanted`: auto | kafka | files.

    Rows that do not carry their offsets (`kafka_columns: false`) cannot be told apart: all come from one place."""
    spans = tuple(spans)
    if wanted == AUTO and not kafka_columns:
        why = next((s.gone for s in spans if s.gone and not s.redriven), None)
        wanted = KAFKA if why is None else FILES
        spans = tuple(replace(s, gone=s.gone or why) for s in spans)
    found: dict[tuple[int, int], str] = {}
    for span in spans:
        key = (span.owed.batch_id, span.owed.partition)
        if span.redriven and (kafka_columns or wanted != FILES):
            found[key] = KAFKA
        elif wanted == KAFKA or (wanted == AUTO and span.gone is None):
            if span.gone is not None:
                return Refusal(span.gone, _instead(span))
            found[key] = KAFKA
        else:
            refusal = _from_files(span)
            if refusal is not None:
                return refusal
            found[key] = FILES
    return found


def _instead(span: Span) -> str:
    if span.missing or span.lost or span.unnamed:
        return KEPT
    return "its rows can be taken from the files in force: --from auto"


def _way_on(span: Span) -> str:
    """Where columns have to be decoded again."""
    if span.away is not None:
        return span.away.advice
    return _UNDECODABLE if span.gone else "replay from Kafka: --from auto"


def _from_files(span: Span) -> Refusal | None:
    before = f"{span.gone}; " if span.gone else ""
    if span.unnamed:
        return Refusal(
            f"{before}the ledger does not say by which columns the rows of generation {span.unnamed} were decoded",
            advice=_UNNAMED if span.gone else "replay from Kafka: --from auto",
        )
    if span.missing:
        columns = "column {} needs" if len(span.missing) == 1 else "columns {} need"
        owed = span.owed
        where = f"batch {owed.batch_id}, partition {owed.partition} offsets [{owed.min_offset}, {owed.max_offset + 1})"
        still = "" if span.kept_from is None else f"; Kafka has this partition from offset {span.kept_from} on"
        return Refusal(
            f"{before}{columns.format(', '.join(span.missing))} the records to be decoded again, of {where}{still}",
            advice=_way_on(span),
        )
    if span.lost:
        return Refusal(f"{before}{span.lost} is not what its manifest says", KEPT)
    return None


# ---------------------------------------------------------------- ranges


def groups(windows: Iterable[tuple[T, int]], most: int = MOST_WINDOWS, rows: int = MOST_ROWS) -> Iterator[list[T]]:
    """Windows that one job rebuilds together, each given with its rows, in order: bounded, so that a range needs
    bounded room in `tmp/` and says how far it is."""
    group: list[T] = []
    total = 0
    for window, count in windows:
        if group and (len(group) >= most or total + count > rows):
            yield group
            group, total = [], 0
        group.append(window)
        total += count
    if group:
        yield group
