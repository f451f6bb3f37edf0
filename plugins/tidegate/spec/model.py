"""The YAML of a pipeline as pydantic models: names, defaults, and the text of the reference.

What concerns one value is checked here (`values`), what concerns several in `rules`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tidegate.core.spec.pipeline import RAW_PARTS
from tidegate.spec.completeness import CompletenessSpec
from tidegate.spec.copy import CopySpec
from tidegate.spec.deliver import DELIVERY, DeliverySection
from tidegate.spec.operations import ArchiveSpec, CleanSpec, IngestSpec, NotifySpec
from tidegate.spec.section import Section, key
from tidegate.spec.sink import SINK, SinkSection
from tidegate.spec.source import SOURCE, SourceSection
from tidegate.spec.values import (
    AvroSchema,
    Character,
    ColumnName,
    ConnectionId,
    Count,
    CountOrZero,
    Duration,
    EventTimePath,
    Expression,
    FileName,
    HiveType,
    Instant,
    MessagePath,
    NullText,
    OneOf,
    Period,
    PipelineName,
    Ratio,
    SchemaIds,
    Text,
    TimeFormat,
    Timezone,
    Version,
)

MessageFormat = Annotated[Literal["json", "csv", "avro", "protobuf", "raw", "debezium"], OneOf()]
Envelope = Annotated[Literal["full", "flat"], OneOf()]
Encoding = Annotated[Literal["json", "avro"], OneOf()]
Wire = Annotated[Literal["plain", "confluent"], OneOf()]
UnknownSchema = Annotated[Literal["fail", "dirty"], OneOf()]
UnknownFields = Annotated[Literal["ignore", "capture", "fail", "evolve"], OneOf()]
Future = Annotated[Literal["dirty", "accept"], OneOf()]
Idle = Annotated[Literal["clock", "follow", "wait"], OneOf()]
OnSilence = Annotated[Literal["hold", "close"], OneOf()]
LatePolicy = Annotated[Literal["side", "reroute", "drop"], OneOf()]
Convert = Annotated[Literal["text"], OneOf()]


class FormatSpec(Section):
    """How a message is decoded."""

    type: MessageFormat = key("Format of the message's value.", "json")
    unknown_fields: UnknownFields = key(
        "What to do with fields that no column takes, at the top of a message or inside other fields: leave them out, "
        "keep them in the map column `_extra`, or refuse the batch before it lands, with the field's name; `evolve` "
        "(`debezium`) makes a column of a field whose type the message's own schema says, and refuses any other, and "
        "columns grow to wider types that it says. `raw` records have none.",
        "ignore",
    )
    fields: Annotated[tuple[Text, ...], Field(min_length=1)] | None = key(
        "`csv`: names of the fields by their positions; columns look for `$.<name>`. `_` is a position that is left "
        "out on purpose. A record with fewer fields is dirty, further ones are unknown fields.",
        None,
        shown="required for `csv`",
    )
    delimiter: Character = key("`csv`: character between fields.", ",")
    quote: Character | None = key(
        "`csv`: character around a field that holds delimiters, line breaks or quotes, doubled inside the field; "
        "null: no character.",
        '"',
    )
    escape: Character | None = key("`csv`: character that takes away the next one's special meaning; null: none.", None)
    null_text: NullText = key("`csv`: an unquoted field that says exactly this is null.", "", shown="empty")
    wire: Wire = key(
        "`avro`, `protobuf`: `plain` messages hold the datum alone, those of `confluent` begin with a schema's id.",
        "plain",
    )
    schema_: AvroSchema | None = key(
        "`avro`, `wire: plain`: the schema that messages were written with, or the name of a file with it, relative to "
        "this one.",
        None,
        alias="schema",
        shown="required for `avro`, `plain`",
    )
    schemas: SchemaIds | None = key(
        "`avro`, `wire: confluent`, and `debezium`, `encoding: avro`: schemas, or names of files, by their ids; "
        "workers do not ask the registry for these.",
        None,
    )
    registry_conn_id: ConnectionId | None = key(
        "`avro`, `wire: confluent`, and `debezium`, `encoding: avro`: Airflow HTTP connection of the schema registry, "
        "with a login if it wants one.",
        None,
    )
    unknown_schema: UnknownSchema = key(
        "`avro`, `wire: confluent`, and `debezium`, `encoding: avro`: what happens for an unknown schema id: the batch "
        "does not land and is tried again, or the record is dirty.",
        "fail",
    )
    descriptor_set: FileName | None = key(
        "`protobuf`: file made by `protoc --include_imports --descriptor_set_out`, relative to this one.",
        None,
        shown="required for `protobuf`",
    )
    message: Text | None = key(
        "`protobuf`: full name of the message, such as `shop.v1.Order`.", None, shown="required for `protobuf`"
    )
    envelope: Envelope = key(
        "`debezium`: `full` change events are as connectors make them, `flat` ones as `ExtractNewRecordState` leaves "
        "them.",
        "full",
    )
    encoding: Encoding = key(
        "`debezium`: what the connector's converter makes of keys and values; `avro` in Confluent's wire format, with "
        "`registry_conn_id` or `schemas`.",
        "json",
    )


class ColumnSpec(Section):
    """One column of the table, in the table's order. A `raw` format has `key`, `value`, `headers` if none is given."""

    name: ColumnName = key(
        "Name of the column. Hive keeps names in lower case, and so does the table. Names that begin with `_`, and "
        "`date`, `hour` and `minute`, belong to Tidegate."
    )
    type: HiveType = key(
        "Hive type: `boolean`, `tinyint`, `smallint`, `int`, `bigint`, `float`, `double`, `decimal(p,s)`, `string`, "
        "`binary`, `date`, `timestamp`, `array<t>`, `map<k,v>`, `struct<name:t,...>`."
    )
    from_: MessagePath | None = key(
        "Where the value is in the message. A key that is no plain word stands in double quotes: `'$.\"geo.lat\"'`.",
        None,
        alias="from",
        shown="`$.<name>`",
    )
    nullable: bool = key("Whether the value may be null or missing; if not, such a record is dirty.", True)
    expr: Expression | None = key(
        "SQL expression (DuckDB's dialect) that computes the column from others, instead of `from`. It must give "
        "the same for the same record at any time. A record is dirty if the expression fails for it, or if the "
        "result does not fit the type.",
        None,
    )
    convert: Convert | None = key(
        '`text`: where the type wants another value, a string with its text is accepted too (`"123"` for `int`, by '
        "the text rules of docs/types.md), and a `string` column takes the text of a number or boolean. Nothing is "
        "converted without it.",
        None,
    )
    hidden: bool = key("An input of expressions and of `where` that is not a column of the table.", False)


class EventTimeSpec(Section):
    """Which time decides the window of a record."""

    from_: EventTimePath = key(
        "Where the event time is in the message, or `kafka_timestamp` for the timestamp that Kafka keeps.", alias="from"
    )
    format: TimeFormat = key(
        "How the field is written: `epoch_s`, `epoch_ms`, `epoch_us`, `epoch_ns`, `iso8601`, or a strptime pattern "
        "such as `%d/%m/%Y %H:%M:%S`. Not with `kafka_timestamp`.",
        "epoch_ms",
    )
    future_skew: Duration = key(
        "How far an event time may lie ahead of the ingest clock. Records beyond it never move the watermark.", "5m"
    )
    future: Future = key("Where records beyond `future_skew` go: into the dirty table, or into their window.", "dirty")


class WindowsSpec(Section):
    """How event time is cut, and when a window is complete."""

    size: Period = key(
        "Length of a window: whole minutes, and a divisor of a day; one day at most. Days are local days.", "1h"
    )
    timezone: Timezone = key("Zone (IANA name) in which windows are aligned and partition values are written.", "UTC")
    start: Instant = key(
        "Start of the first window, aligned to `size` in local time. Without an offset it is meant in `timezone`. "
        "Records of windows that ended before it are late."
    )
    watermark_delay: Duration = key(
        "How long a window waits for stragglers: the watermark of a Kafka partition is its largest event time minus "
        "this, and a window closes when every partition's watermark has passed its end."
    )
    max_age: Period | None = key(
        "Records of windows that ended longer than this before the ingest clock are late; null sets no limit.", None
    )
    idle: Idle = key(
        "Watermark of a Kafka partition that has no more records: the ingest clock minus `watermark_delay` (live "
        "topics), the largest of the other partitions' (loads of old data), or its own.",
        "clock",
    )
    idle_max_lag: Period | None = key(
        "With `idle: clock`: how much older than `watermark_delay` the newest event may be, by the clock at which it "
        "was read, for the clock to stand in for an idle partition; beyond that it says nothing of the topic, as in a "
        "load of old data, and idle partitions hold their windows. null trusts the clock always.",
        "1d",
    )
    topic_silence: Period = key("After this long without any record the whole topic counts as silent.", "1h")
    on_silence: OnSilence = key(
        "What a silent topic does to open windows: keep them open and notify, or close them by the clock.", "hold"
    )


class LateSpec(Section):
    """Records whose window is closing or closed."""

    policy: LatePolicy = key(
        "Where late records go: the table `<table>__late` (side), the oldest window that was open when their batch was "
        "planned, with their own event time (reroute), or nowhere, only counted (drop). It may change at any "
        "time: a batch keeps the policy that it was planned with.",
        "side",
    )
    reopen_after: Period | None = key(
        "How long the oldest late row of a published window waits, from its landing on, before the maintenance DAG "
        "reopens the window: its next generation takes all of them up. null: only `tidegate reopen` does.",
        None,
    )
    reopen_generations: CountOrZero | None = key(
        "How often a window may be reopened; null sets no limit. A window that is over this or one of the next two "
        "limits waits for `tidegate reopen --over-budget`.",
        3,
        unit="generations",
    )
    reopen_age: Period | None = key("How long after its end a window may be reopened; null sets no limit.", "7d")
    reopen_rows: Count | None = key(
        "How many late rows one reopening may take up; null sets no limit.", 10_000_000, unit="records"
    )


class DirtySpec(Section):
    """Records that cannot be decoded or typed go to the table `<table>__dirty`; too many refuse the batch."""

    max_count: CountOrZero | None = key("Dirty records a batch may hold; null sets no limit.", 1000, unit="records")
    max_ratio: Ratio | None = key(
        "Share of dirty records a batch may hold, 0 to 1; null sets no limit.", 0.01, unit="share of the batch"
    )


class PipelineSpec(Section):
    """One pipeline: one topic into one table."""

    @model_validator(mode="before")
    @classmethod
    def _raw_columns(cls, value: Any) -> Any:
        """Add the columns of a raw record, which need not be spelled out."""
        if isinstance(value, dict) and "columns" not in value:
            message_format = value.get("format")
            if isinstance(message_format, dict) and message_format.get("type") == "raw":
                columns = [{"name": part, "type": types[0]} for part, types in RAW_PARTS.items()]
                return value | {"columns": columns}
        return value

    version: Version = key("Version of this file's format: 1.")
    name: PipelineName = key(
        "Name of the pipeline, the same as the file's (without `.yaml`). Its DAGs are `<name>.ingest`, "
        "`<name>.archive`, `<name>.replay` and `<name>.maintain`. It cannot change: the ledger knows the landed "
        "batches by it."
    )
    description: str = key("What the pipeline is for, in a sentence; shown in the Airflow UI.", "", shown="empty")
    owner: Text = key("Owner of the DAGs in the Airflow UI.")
    tags: tuple[Text, ...] = key("Tags of the DAGs.", ())
    source: Annotated[SourceSection, SOURCE]
    format: FormatSpec = Field(default_factory=FormatSpec)
    columns: Annotated[tuple[ColumnSpec, ...], Field(min_length=1)]
    event_time: EventTimeSpec
    windows: WindowsSpec
    partition_by: Annotated[tuple[Text, ...], Field(min_length=1)] = key(
        "Partition columns: first the time partitions that identify the window (`date`; `date, hour`; or `date, hour, "
        "minute`, as `windows.size` needs), then columns of type string or a whole number, whose values become "
        "directories."
    )
    late: LateSpec = Field(default_factory=LateSpec)
    completeness: CompletenessSpec | None = None
    dirty: DirtySpec = Field(default_factory=DirtySpec)
    where: Expression | None = key(
        "SQL condition (DuckDB's dialect) over the columns, hidden ones included; records for which it is false or "
        "null are filtered: counted, and in no table.",
        None,
    )
    sink: Annotated[SinkSection, SINK]
    kafka_columns: bool = key(
        "Whether rows carry `_topic`, `_partition`, `_offset`, `_kafka_ts` and `_batch_id`. Without them `tidegate "
        "where`, the deep audit and redrive cannot find a row.",
        True,
    )
    copy_: CopySpec | None = Field(None, alias="copy")
    ingest: IngestSpec = Field(default_factory=IngestSpec)
    archive: ArchiveSpec = Field(default_factory=ArchiveSpec)
    clean: CleanSpec = Field(default_factory=CleanSpec)
    notify: NotifySpec = Field(default_factory=NotifySpec)
    deliver: tuple[Annotated[DeliverySection, DELIVERY], ...] = ()
