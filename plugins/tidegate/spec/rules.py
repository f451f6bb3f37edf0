"""Rules over several keys. Each yields the problems it finds; together they are `check`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import TypeAdapter, ValidationError

from tidegate.core.base.hivetypes import Primitive, is_primitive, parse
from tidegate.core.base.instants import DAY_MS, HOUR_MS, MINUTE_MS, iso
from tidegate.core.base.partition_values import MAX_PARTITION_NAME, metastore_name_length, partition_path
from tidegate.core.files.overflow import MAX_KEY_BYTES, OVERFLOW_VALUE, key_bytes
from tidegate.core.spec.pipeline import TIME_PARTITIONS, Windows
from tidegate.core.target.paths import usual_workdir
from tidegate.core.target.port import Unit
from tidegate.core.window.cut import shared_directory, time_values, window_start
from tidegate.kinds import target_kind
from tidegate.spec import completeness_rules, copy_rules
from tidegate.spec.model import ColumnSpec, PipelineSpec
from tidegate.spec.problems import Problem
from tidegate.spec.values import KAFKA_TIMESTAMP, Period, nearest

PARTITION_TYPES = ("string", "tinyint", "smallint", "int", "bigint")
LEAST_ARCHIVE_RUNS = 16
DEFAULT_COMPRESSION = {"parquet": "zstd", "orc": "zstd", "text": "gzip"}
TEXT_COMPRESSION = ("gzip", "none")


def check(spec: PipelineSpec, stem: str) -> list[Problem]:
    """Every problem of a document whose single values are fine; `stem` is the file's name without `.yaml`."""
    return [
        *_name(spec, stem),
        *_sites(spec),
        *_columns(spec),
        *_event_time(spec),
        *_windows(spec),
        *_late(spec),
        *_time_partitions(spec),
        *_dynamic_partitions(spec),
        *_text(spec),
        *_evolve(spec),
        *_workdir(spec),
        *_spark(spec),
        *_archive(spec),
        *completeness_rules.check(spec),
        *copy_rules.check(spec),
    ]


_UNEVEN = Problem(("windows", "size"), "must be whole minutes and divide a day: 15m, 1h, 6h, 1d")


def at_first_sight(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems that need no whole spec, of a document with problems elsewhere: its author is told of all at once."""
    yield from _unknown_partitions(document)
    windows = document.get("windows")
    if isinstance(windows, Mapping):
        try:
            size = TypeAdapter(Period).validate_python(windows.get("size"))
        except ValidationError:
            return  # told already
        if not _divides_a_day(size):
            yield _UNEVEN


def _name(spec: PipelineSpec, stem: str) -> Iterator[Problem]:
    if spec.name != stem:
        yield Problem(("name",), f"must be {stem}, as the file is {stem}.yaml")


def _sites(spec: PipelineSpec) -> Iterator[Problem]:
    sites = getattr(spec.source, "sites", ())
    if sites and sites[0].conn_id != spec.source.conn_id:
        what = f"the first site is that of source.conn_id ({spec.source.conn_id}): its topic has the ledger's offsets"
        yield Problem(("source", "sites", 0, "conn_id"), what)
    if sites and target_kind(spec.sink.kind).unit is Unit.PREFIX:
        yield Problem(("source", "sites"), "a mirror takes no second site: purges rest on what its one log can bring")
    if len(sites) == 1:
        yield Problem(("source", "sites"), "name two sites at least, or leave it out")
    for key in ("name", "conn_id"):
        given = [getattr(site, key) for site in sites]
        for i, value in enumerate(given):
            if value in given[:i]:
                yield Problem(("source", "sites", i, key), f"{value} is there already")


def _columns(spec: PipelineSpec) -> Iterator[Problem]:
    if all(c.expr is not None for c in spec.columns):
        yield Problem(("columns",), "every column is computed (expr): at least one must come from the message")
    seen: dict[str, str] = {}
    for i, column in enumerate(spec.columns):
        name, path = column.name.lower(), ("columns", i, "name")
        if name in TIME_PARTITIONS:
            yield Problem(path, f"{column.name} is the name of a time partition; give the column another one")
        if name in seen:
            yield Problem(path, f"{column.name} is there already, as {seen[name]} (Hive ignores case)")
        seen.setdefault(name, column.name)
        if column.expr is not None and column.from_ is not None:
            yield Problem(("columns", i, "expr"), "a column is read (from) or computed (expr): leave one of them out")
        if column.convert is not None:
            yield from _convert(spec.format.type, column, ("columns", i, "convert"))


def _convert(message_format: str, column: ColumnSpec, path: tuple[str | int, ...]) -> Iterator[Problem]:
    if message_format not in ("json", "debezium"):
        only = "has a meaning with format.type json and debezium only"
        yield Problem(path, f"{only}, not with {message_format}; leave it out")
    elif column.expr is not None:
        yield Problem(path, "has no meaning for a computed column (expr); leave it out, and cast in the expression")
    elif not is_primitive(parse(column.type)):
        yield Problem(path, f"there is no text of {column.type}; leave it out")


def _event_time(spec: PipelineSpec) -> Iterator[Problem]:
    if spec.event_time.from_ == KAFKA_TIMESTAMP and "format" in spec.event_time.model_fields_set:
        yield Problem(("event_time", "format"), f"has no meaning with from: {KAFKA_TIMESTAMP}; leave it out")
    computed = {f"$.{c.name}".lower() for c in spec.columns if c.expr is not None}
    read = {(c.from_ or f"$.{c.name}").lower() for c in spec.columns if c.expr is None}
    if spec.event_time.from_.lower() in computed - read:
        message = (
            f"{spec.event_time.from_} is a computed column; the event time is read from the message: name its field"
        )
        yield Problem(("event_time", "from"), message)


def local_instant(moment: datetime, timezone: str) -> datetime:
    """`moment` in the zone; a naive one is meant in the zone."""
    zone = ZoneInfo(timezone)
    return moment.replace(tzinfo=zone) if moment.tzinfo is None else moment.astimezone(zone)


def epoch_ms(moment: datetime) -> int:
    """Epoch ms of an aware moment, rounded down."""
    return (moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _windows(spec: PipelineSpec) -> Iterator[Problem]:
    windows = spec.windows
    if not _divides_a_day(windows.size):
        yield _UNEVEN
    else:
        yield from _window_start(windows.start, windows.size, windows.timezone)
    if windows.max_age is not None and windows.max_age < windows.watermark_delay + windows.size:
        message = "must be at least windows.size + windows.watermark_delay, or records are late before a window closes"
        yield Problem(("windows", "max_age"), message)


def _late(spec: PipelineSpec) -> Iterator[Problem]:
    if spec.late.reopen_after is not None and not spec.kafka_columns:
        message = "needs kafka_columns: true, which tells a row that was taken up from a double"
        yield Problem(("late", "reopen_after"), message)


def _divides_a_day(size_ms: int) -> bool:
    return size_ms % MINUTE_MS == 0 and DAY_MS % size_ms == 0


def _window_start(start: datetime, size_ms: int, timezone: str) -> Iterator[Problem]:
    path, local = ("windows", "start"), local_instant(start, timezone)
    before = _day_before(local) if size_ms == DAY_MS else _boundary_before(local, size_ms)
    wall = local.replace(tzinfo=None).isoformat()
    if epoch_ms(before) != epoch_ms(local) or local.microsecond % 1000:
        message = f"{wall} ({timezone}) is not the start of a window; the one before is {before.isoformat()}"
        yield Problem(path, message)
    elif size_ms < DAY_MS and start.tzinfo is None and not _exists(local):
        yield Problem(path, f"{wall} does not exist in {timezone}: clocks go forward over it")


def _day_before(local: datetime) -> datetime:
    windows = Windows(size_ms=DAY_MS, timezone=str(local.tzinfo), start_ms=0, watermark_delay_ms=0)
    return datetime.fromtimestamp(window_start(epoch_ms(local), windows) / 1000, local.tzinfo)


def _boundary_before(local: datetime, size_ms: int) -> datetime:
    midnight = datetime.combine(local.date(), time.min)
    off = (local.replace(tzinfo=None) - midnight) % timedelta(milliseconds=size_ms)
    return (local - off).replace(fold=local.fold)


def _exists(local: datetime) -> bool:
    return local.astimezone(UTC).astimezone(local.tzinfo).replace(tzinfo=None) == local.replace(tzinfo=None)


def needed_time_partitions(size_ms: int) -> tuple[str, ...]:
    """The partitions that tell windows of this size apart."""
    if size_ms == DAY_MS:
        return TIME_PARTITIONS[:1]
    return TIME_PARTITIONS[:2] if size_ms % HOUR_MS == 0 else TIME_PARTITIONS


def _time_partitions(spec: PipelineSpec) -> Iterator[Problem]:
    names = tuple(spec.partition_by)
    given = tuple(n for n in names if n in TIME_PARTITIONS)
    needed = needed_time_partitions(spec.windows.size)
    if names[: len(given)] != given:
        first_column = next(i for i, n in enumerate(names) if n not in TIME_PARTITIONS)
        late = next(i for i, n in enumerate(names) if i > first_column and n in TIME_PARTITIONS)
        yield Problem(("partition_by", late), f"{names[late]}: time partitions come first, columns after them")
    elif _divides_a_day(spec.windows.size) and (given != TIME_PARTITIONS[: len(given)] or len(given) < len(needed)):
        wanted = ", ".join(needed)
        message = f"must begin with {wanted}: that is what tells windows of this windows.size apart"
        yield Problem(("partition_by",), message)
    elif _divides_a_day(spec.windows.size):
        yield from _shared_directory(spec, given)


def _shared_directory(spec: PipelineSpec, names: tuple[str, ...]) -> Iterator[Problem]:
    start_ms, zone = epoch_ms(local_instant(spec.windows.start, spec.windows.timezone)), spec.windows.timezone
    windows = Windows(
        size_ms=spec.windows.size, timezone=zone, start_ms=start_ms, watermark_delay_ms=spec.windows.watermark_delay
    )
    shared = shared_directory(windows, names)
    if shared is not None:
        first, second = (iso(ms) for ms in shared)
        message = (
            f"the windows {first} and {second} would share {partition_path(time_values(shared[1], names, zone))}: "
            f"clocks went back within that hour in {zone}; add {TIME_PARTITIONS[len(names)]}, "
            "or begin (windows.start) after it"
        )
        yield Problem(("partition_by",), message)


def _dynamic_partitions(spec: PipelineSpec) -> Iterator[Problem]:
    columns = {c.name.lower(): c for c in reversed(spec.columns)}  # of two with one name the first counts
    for i, word in enumerate(spec.partition_by):
        path, name = ("partition_by", i), word.lower()
        if name in [p.lower() for p in spec.partition_by[:i]]:
            yield Problem(path, f"{word} is there already")
        elif word in TIME_PARTITIONS:
            continue
        elif name not in columns:
            yield _unknown_partition(i, word, columns)
        elif columns[name].hidden:
            yield Problem(path, f"{word} is hidden, so it is no column of the table")
        elif parse(columns[name].type) not in [Primitive(t) for t in PARTITION_TYPES]:
            kinds = ", ".join(PARTITION_TYPES)
            yield Problem(path, f"{word} is a {columns[name].type}; a partition column must be one of {kinds}")
    yield from _overflow_name(spec, columns)
    visible = {name for name, c in columns.items() if not c.hidden}
    if not spec.kafka_columns and not visible - {p.lower() for p in spec.partition_by}:
        message = "every column is a partition column or hidden, and kafka_columns is off: files would be empty"
        yield Problem(("columns",), message)


_TIME_TEXTS = {"date": "2013-01-05", "hour": "01-fold", "minute": "00"}


def _overflow_name(spec: PipelineSpec, columns: Mapping[str, ColumnSpec]) -> Iterator[Problem]:
    """Problem if the overflow partition, which takes rows without a name of their own, has none itself."""
    kinds = {word: columns[word.lower()].type for word in spec.partition_by if word.lower() in columns}
    values = tuple(
        (word, _TIME_TEXTS.get(word) or (OVERFLOW_VALUE if kinds.get(word) == "string" else None))
        for word in spec.partition_by
    )
    length = metastore_name_length(values)
    if kinds and length > MAX_PARTITION_NAME:
        message = (
            f"a partition's name would have {length} characters at least, Hive's metastore takes {MAX_PARTITION_NAME}: "
            "fewer columns, or shorter names"
        )
        yield Problem(("partition_by",), message)
    length = key_bytes(values, spec.sink.workdir or usual_workdir(spec.sink.location))
    if length > MAX_KEY_BYTES:
        message = f"a file's key would have up to {length:,} bytes, an object store takes {MAX_KEY_BYTES:,}: shorten it"
        yield Problem(("sink", "location"), message)


def _unknown_partitions(document: Mapping[str, Any]) -> Iterator[Problem]:
    words, columns = document.get("partition_by"), document.get("columns")
    if not isinstance(words, list) or not isinstance(columns, list):
        return
    names = [c["name"].lower() for c in columns if isinstance(c, Mapping) and isinstance(c.get("name"), str)]
    for i, word in enumerate(words):
        if (
            names
            and len(names) == len(columns)
            and isinstance(word, str)
            and word.lower() not in (*TIME_PARTITIONS, *names)
        ):
            yield _unknown_partition(i, word, names)


def _unknown_partition(at: int, word: str, columns: Iterable[str]) -> Problem:
    message = f"{word} is neither a time partition ({', '.join(TIME_PARTITIONS)}) nor a column"
    return Problem(("partition_by", at), message + nearest(word, [*TIME_PARTITIONS, *columns]))


def _text(spec: PipelineSpec) -> Iterator[Problem]:
    """Problems of columns that readers of Hive's text files would read differently."""
    if spec.sink.format != "text":
        return
    if spec.sink.compression not in (None, *TEXT_COMPRESSION):
        choices = " or ".join(TEXT_COMPRESSION)
        message = (
            f"text compressed with {spec.sink.compression} is not read by all of Hive, Spark and DuckDB: "
            f"set it to {choices}, or sink.format to parquet or orc"
        )
        yield Problem(("sink", "compression"), message)
    other = "leave it out, give it the type string, or set sink.format to parquet or orc"
    for i, column in enumerate(spec.columns):
        if not is_primitive(parse(column.type)) and not column.hidden:
            yield Problem(("columns", i, "type"), f"text cannot hold {column.type}: {other}")
    if spec.format.unknown_fields == "capture":
        message = "capture makes a map, which text cannot hold: ignore them, or set sink.format to parquet or orc"
        yield Problem(("format", "unknown_fields"), message)


def _evolve(spec: PipelineSpec) -> Iterator[Problem]:
    if spec.format.unknown_fields == "evolve" and spec.sink.format != "parquet":
        message = (
            f"evolve adds columns, which {spec.sink.format} files cannot get: set it to fail, or sink.format parquet"
        )
        yield Problem(("format", "unknown_fields"), message)


def _workdir(spec: PipelineSpec) -> Iterator[Problem]:
    location, workdir, path = spec.sink.location, spec.sink.workdir, ("sink", "workdir")
    if workdir is None:
        return
    if workdir.split("/")[:3] != location.split("/")[:3]:
        yield Problem(path, f"must be on the filesystem of sink.location, {'/'.join(location.split('/')[:3])}")
    elif f"{location}/".startswith(f"{workdir}/"):
        yield Problem(path, "must not hold the table's own directory, sink.location")
    elif workdir.startswith(f"{location}/") and workdir.removeprefix(f"{location}/")[0] not in "_.":
        yield Problem(path, "lies below sink.location, so its name must begin with _ or . (Hive and Spark skip those)")


def least_archive_runs(spec: PipelineSpec) -> int:
    """Number of runs that may wait for their windows at one time; there must be more."""
    return spec.windows.watermark_delay // spec.windows.size


def archive_runs(spec: PipelineSpec) -> int:
    """`archive.max_active_runs`, or what it is by default."""
    return spec.archive.max_active_runs or max(LEAST_ARCHIVE_RUNS, least_archive_runs(spec) + 4)


def _spark(spec: PipelineSpec) -> Iterator[Problem]:
    spark = spec.ingest.spark
    if spark.session == "warm" and spark.conf.get("spark.submit.deployMode") == "cluster":
        path = ("ingest", "spark", "session")
        yield Problem(path, "warm needs the driver on this machine, and conf has spark.submit.deployMode: cluster")


def _archive(spec: PipelineSpec) -> Iterator[Problem]:
    waiting = least_archive_runs(spec)
    if archive_runs(spec) <= waiting:
        message = f"must be more than windows.watermark_delay / windows.size = {waiting}, or waiting runs fill it"
        yield Problem(("archive", "max_active_runs"), message)
