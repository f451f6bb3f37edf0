"""The YAML of a pipeline as pydantic models: names, defaults, and the text of the reference.

What concerns one value is checked here (`values`), what concerns several in `rules`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tidegate.core.pipeline import RAW_PARTS
from tidegate.spec.values import (
    AvroSchema,
    Character,
    ColumnName,
    ConnectionId,
    Count,
    CountOrZero,
    Cron,
    Duration,
    EventTimePath,
    Expression,
    FileName,
    HdfsUser,
    HiveType,
    Instant,
    Location,
    MergeCount,
    MessagePath,
    NotYet,
    NullText,
    Period,
    PipelineName,
    PoolName,
    Ratio,
    SchemaIds,
    Size,
    SparkConf,
    Start,
    Table,
    Text,
    TimeFormat,
    Timezone,
    Topic,
    Version,
    choice,
)

Isolation = choice("read_committed", "read_uncommitted")
Gaps = choice("forbid", "allow")
SparkSession = choice("per_batch", "warm")
OnDataLoss = choice("fail", "record")
MessageFormat = choice("json", "csv", "avro", "protobuf", "raw")
Wire = choice("plain", "confluent")
UnknownSchema = choice("fail", "dirty")
UnknownFields = choice("ignore", "capture", "fail")
Future = choice("dirty", "accept")
Idle = choice("clock", "follow", "wait")
OnSilence = choice("hold", "close")
LatePolicy = choice("side", later=("reroute", "drop"))
FileFormat = choice("parquet", "orc", "text")
Swap = choice("pointer", "directory")
Convert = choice("text")
Compression = choice("zstd", "snappy", "gzip", "none")


def _key(description: str, default: Any = ..., *, unit: str = "", shown: str = "", alias: str | None = None) -> Any:
    """A documented key. `shown`: what the reference prints for a default that depends on other keys."""
    extra = {key: text for key, text in (("x-unit", unit), ("x-default", shown)) if text}
    return Field(default, description=description, json_schema_extra=extra, alias=alias)


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, arbitrary_types_allowed=True)


class SourceSpec(Section):
    """Where records come from."""

    conn_id: ConnectionId = _key("Airflow connection of the Kafka cluster.", "kafka_default")
    topic: Topic = _key("The Kafka topic. One pipeline reads one topic.")
    start: Start = _key(
        "Where the very first batch begins: the log's start, its end, or the first record at or after a time (Kafka's "
        "timestamp). Without an offset the time is meant in `windows.timezone`. Later batches go on where the last one "
        "ended.",
        "earliest",
    )
    isolation: Isolation = _key("Whether records of open and aborted transactions are left out.", "read_committed")
    gaps: Gaps = _key(
        "What to do about offsets at which Kafka delivers no record. Transactional and compacted topics have such gaps "
        "and need `allow`; they are then recorded as intervals.",
        "forbid",
    )
    on_data_loss: OnDataLoss = _key(
        "What to do when retention has deleted offsets that were due: stop with the numbers, or write the lost "
        "intervals to the ledger and go on.",
        "fail",
    )


class FormatSpec(Section):
    """How a message is decoded."""

    type: MessageFormat = _key("Format of the message's value.", "json")
    unknown_fields: UnknownFields = _key(
        "What to do with fields that no column takes: leave them out, keep them in the map column `_extra`, or refuse "
        "the batch before it lands, with the field's name. `raw` records have none.",
        "ignore",
    )
    fields: Annotated[tuple[Text, ...], Field(min_length=1)] | None = _key(
        "`csv`: names of the fields by their positions; columns look for `$.<name>`. `_` is a position that is left "
        "out on purpose. A record with fewer fields is dirty, further ones are unknown fields.",
        None,
        shown="required for `csv`",
    )
    delimiter: Character = _key("`csv`: what stands between fields.", ",")
    quote: Character | None = _key(
        "`csv`: what encloses a field that holds delimiters, line breaks or quotes, doubled if it is in there itself; "
        "null: nothing does.",
        '"',
    )
    escape: Character | None = _key("`csv`: what takes the next character's special meaning; null: nothing.", None)
    null_text: NullText = _key("`csv`: an unquoted field that says exactly this is null.", "", shown="empty")
    wire: Wire = _key(
        "`avro`, `protobuf`: `plain` messages hold the datum alone, those of `confluent` begin with a schema's id.",
        "plain",
    )
    schema_: AvroSchema | None = _key(
        "`avro`, `wire: plain`: the schema that messages were written with, or the name of a file with it, relative to "
        "this one.",
        None,
        alias="schema",
        shown="required for `avro`, `plain`",
    )
    schemas: SchemaIds | None = _key(
        "`avro`, `wire: confluent`: schemas, or names of files, by their ids; none of these is asked for at the "
        "registry.",
        None,
    )
    registry_conn_id: ConnectionId | None = _key(
        "`avro`, `wire: confluent`: Airflow HTTP connection of the schema registry, with a login if it wants one.", None
    )
    unknown_schema: UnknownSchema = _key(
        "`avro`, `wire: confluent`: what a schema id means that nobody knows: the batch does not land and is tried "
        "again, or the record is dirty.",
        "fail",
    )
    descriptor_set: FileName | None = _key(
        "`protobuf`: file made by `protoc --include_imports --descriptor_set_out`, relative to this one.",
        None,
        shown="required for `protobuf`",
    )
    message: Text | None = _key(
        "`protobuf`: full name of the message, such as `shop.v1.Order`.", None, shown="required for `protobuf`"
    )


class ColumnSpec(Section):
    """One column of the table, in the table's order. A `raw` format has `key`, `value`, `headers` if none is given."""

    name: ColumnName = _key(
        "Name of the column. Hive keeps names in lower case, and so does the table. Names that begin with `_`, and "
        "`date`, `hour` and `minute`, belong to Tidegate."
    )
    type: HiveType = _key(
        "Hive type: `boolean`, `tinyint`, `smallint`, `int`, `bigint`, `float`, `double`, `decimal(p,s)`, `string`, "
        "`binary`, `date`, `timestamp`, `array<t>`, `map<k,v>`, `struct<name:t,...>`."
    )
    from_: MessagePath | None = _key("Where the value is in the message.", None, alias="from", shown="`$.<name>`")
    nullable: bool = _key("Whether the value may be null or missing; if not, such a record is dirty.", True)
    expr: Expression | None = _key(
        "SQL expression (DuckDB's dialect) that computes the column from others, instead of `from`. It must give the "
        "same for the same record at any time. A record that it fails for, or whose result does not fit the type, is "
        "dirty.",
        None,
    )
    convert: Convert | None = _key(
        '`text`: where the type wants another value, a string that holds its text is taken too (`"123"` for `int`, by '
        "the text rules of docs/types.md), and a `string` column takes the text of a number or boolean. Nothing is "
        "converted without it.",
        None,
    )
    hidden: bool = _key("An input of expressions and of `where` that is no column of the table.", False)


class EventTimeSpec(Section):
    """Which time decides the window of a record."""

    from_: EventTimePath = _key(
        "Where the event time is in the message, or `kafka_timestamp` for the timestamp that Kafka keeps.", alias="from"
    )
    format: TimeFormat = _key(
        "How the field is written: `epoch_s`, `epoch_ms`, `epoch_us`, `epoch_ns`, `iso8601`, or a strptime pattern "
        "such as `%d/%m/%Y %H:%M:%S`. Not with `kafka_timestamp`.",
        "epoch_ms",
    )
    future_skew: Duration = _key(
        "How far an event time may lie ahead of the ingest clock. Records beyond it never move the watermark.", "5m"
    )
    future: Future = _key("Where records beyond `future_skew` go: into the dirty table, or into their window.", "dirty")


class WindowsSpec(Section):
    """How event time is cut, and when a window is complete."""

    size: Period = _key(
        "Length of a window: whole minutes, and a divisor of a day; one day at most. Days are local days.", "1h"
    )
    timezone: Timezone = _key("Zone (IANA name) in which windows are aligned and partition values are written.", "UTC")
    start: Instant = _key(
        "Start of the first window, aligned to `size` in local time. Without an offset it is meant in `timezone`. "
        "Records of windows that ended before it are late."
    )
    watermark_delay: Duration = _key(
        "How long a window waits for stragglers: the watermark of a Kafka partition is its largest event time minus "
        "this, and a window closes when every partition's watermark has passed its end."
    )
    max_age: Period | None = _key(
        "Records of windows that ended longer than this before the ingest clock are late; null sets no limit.", None
    )
    idle: Idle = _key(
        "Watermark of a Kafka partition that has no more records: the ingest clock minus `watermark_delay` (live "
        "topics), the largest of the other partitions' (loads of old data), or its own.",
        "clock",
    )
    topic_silence: Period = _key("After this long without any record the whole topic counts as silent.", "1h")
    on_silence: OnSilence = _key(
        "What a silent topic does to open windows: keep them open and notify, or close them by the clock.", "hold"
    )


class LateSpec(Section):
    """Records whose window is closing or closed."""

    policy: LatePolicy = _key("Where late records go: the table `<table>__late`.", "side")


class DirtySpec(Section):
    """Records that cannot be decoded or typed go to the table `<table>__dirty`; too many refuse the batch."""

    max_count: CountOrZero | None = _key("Dirty records a batch may hold; null sets no limit.", 1000, unit="records")
    max_ratio: Ratio | None = _key(
        "Share of dirty records a batch may hold, 0 to 1; null sets no limit.", 0.01, unit="share of the batch"
    )


class SinkSpec(Section):
    """The Hive table and its files."""

    conn_id: ConnectionId = _key("Airflow connection of the HiveServer2 endpoint.", "hiveserver2_default")
    table: Table = _key("The external table; it is created when it is absent.")
    location: Location = _key("Directory of the table, `file:///...` or `hdfs://...`. No two pipelines may share one.")
    user: HdfsUser | None = _key(
        "Who reads and writes files on HDFS, where permissions are by name; null: the user of Airflow's workers. The "
        "user of Hive and of the Spark job itself is that of their connections.",
        None,
    )
    format: FileFormat = _key(
        "Format of the files. `text` (Hive's LazySimpleSerDe) has no nested columns; see [types](types.md#files).",
        "parquet",
    )
    compression: Compression | None = _key(
        "Compression within the files; of text only `gzip` and `none` are read by all readers.",
        None,
        shown="`zstd`; `gzip` for `text`",
    )
    target_file_size: Size = _key("A file is finished when it has about this size.", "256MB")
    max_partitions: Count = _key("Distinct dynamic partition values that one window may have.", 2000, unit="values")
    permissions: NotYet = _key("Mode, owner and group of files and directories.", None)
    workdir: Location | None = _key(
        "Work directory, on the same filesystem as `location`. Below `location` its name begins with `_` or `.`, which "
        "hides it from Hive and Spark.",
        None,
        shown="`<location>/_tidegate`",
    )


class SparkSpec(Section):
    """How the Spark job is submitted."""

    conn_id: ConnectionId = _key("Airflow connection of the Spark master.", "spark_default")
    conf: SparkConf = _key("Spark settings, `spark.*`. They are logged and stored: no secrets.", {}, shown="`{}`")
    session: SparkSession = _key(
        "Whether each job has a spark-submit of its own, or a driver that stays on the Airflow worker takes one after "
        "another: small batches then take a second or less. Pipelines with the same connection and settings share it; "
        "a job that finds it busy has its own spark-submit. Not in cluster deploy mode.",
        "per_batch",
    )


class IngestSpec(Section):
    """The DAG `<name>.ingest`: one batch a run."""

    schedule: Cron | None = _key(
        "When to look for records; null: only when somebody asks. A run that leaves a backlog starts the next one.",
        "*/5 * * * *",
    )
    max_records: Count = _key("Records (offsets) in one batch, over all Kafka partitions.", 5_000_000, unit="records")
    spark: SparkSpec = Field(default_factory=SparkSpec)
    pool: PoolName = _key("Airflow pool of the tasks.", "tidegate_ingest")
    retries: CountOrZero = _key("How often a failed task is tried again.", 6)


class MergeSpec(Section):
    """Small files of a window become larger ones before it is published."""

    min_files: MergeCount | None = _key(
        "Files of one partition below half of `sink.target_file_size` that are worth a merge; null: never.", 8
    )
    local_size: Size = _key(
        "Up to this size of all files together the merge runs on the Airflow worker, above it as a Spark job.", "256MB"
    )


class ArchiveSpec(Section):
    """The DAG `<name>.archive`: one window a run."""

    sla: Period = _key("A window that is ready and unpublished for longer than this is reported.", "30m")
    pool: PoolName = _key("Airflow pool of the tasks.", "tidegate_archive")
    retries: CountOrZero = _key("How often a failed task is tried again.", 6)
    max_active_runs: Count | None = _key(
        "Runs at a time. Runs wait for their window's watermark, so there must be more than `watermark_delay / size`; "
        "waiting ones hold no slot.",
        None,
        shown="`watermark_delay / size + 4`, at least 16",
    )
    on_publish: tuple[Text, ...] = _key(
        "SQL statements for the Hive endpoint after each publication, for example a REFRESH for another engine.", ()
    )
    keep_generations: Count = _key("Generations of a window that are kept, the one in force included.", 2)
    swap: Swap = _key(
        "How a replayed window replaces the published one. `pointer`: the new files lie in a directory of their own "
        "and the catalogue is switched; for readers that ask the catalogue. `directory`: the new directory takes the "
        "place of the old one in the table, the hour is absent for an instant; for readers by path.",
        "pointer",
    )
    merge: MergeSpec = Field(default_factory=MergeSpec)


class CleanSpec(Section):
    """How long `<name>.maintain` keeps what the ledger proves that nobody needs; null: for ever."""

    attempts: Duration | None = _key(
        "What overtaken, landed or abandoned attempts have left: work directories and plan files.", "1d"
    )
    landed: Duration | None = _key(
        "What is left of a landed batch (its receipt) once all its rows are in the tables, counted from its landing.",
        "7d",
    )
    generations: Duration | None = _key(
        "Generations that are no longer in force, for queries that still read them, counted from the change; "
        "`archive.keep_generations` keeps the newest ones in any case.",
        "1d",
    )
    quarantine: Duration | None = _key(
        "What contradicted the ledger, once that is settled, counted from the last event of its batch or window.", "30d"
    )


class NotifySpec(Section):
    """Who is told when something needs a human."""

    webhook_conn_id: ConnectionId | None = _key("Airflow HTTP connection that gets a message; null: nobody.", None)


class PipelineSpec(Section):
    """One pipeline: one topic into one table."""

    @model_validator(mode="before")
    @classmethod
    def _raw_columns(cls, value: Any) -> Any:
        """What a raw record consists of need not be spelled out."""
        if isinstance(value, dict) and "columns" not in value:
            message_format = value.get("format")
            if isinstance(message_format, dict) and message_format.get("type") == "raw":
                columns = [{"name": part, "type": types[0]} for part, types in RAW_PARTS.items()]
                return value | {"columns": columns}
        return value

    version: Version = _key("Version of this file's format: 1.")
    name: PipelineName = _key(
        "Name of the pipeline, the same as the file's (without `.yaml`). Its DAGs are `<name>.ingest`, "
        "`<name>.archive`, `<name>.replay` and `<name>.maintain`."
    )
    description: str = _key("What the pipeline is for, in a sentence; shown in the Airflow UI.", "", shown="empty")
    owner: Text = _key("Owner of the DAGs in the Airflow UI.")
    tags: tuple[Text, ...] = _key("Tags of the DAGs.", ())
    source: SourceSpec
    format: FormatSpec = Field(default_factory=FormatSpec)
    columns: Annotated[tuple[ColumnSpec, ...], Field(min_length=1)]
    event_time: EventTimeSpec
    windows: WindowsSpec
    partition_by: Annotated[tuple[Text, ...], Field(min_length=1)] = _key(
        "Partition columns: first the time partitions that identify the window (`date`; `date, hour`; or `date, hour, "
        "minute`, as `windows.size` needs), then columns of type string or a whole number, whose values become "
        "directories."
    )
    late: LateSpec = Field(default_factory=LateSpec)
    dirty: DirtySpec = Field(default_factory=DirtySpec)
    where: Expression | None = _key(
        "SQL condition (DuckDB's dialect) over the columns, hidden ones included; records for which it is false or "
        "null are filtered: counted, and in no table.",
        None,
    )
    sink: SinkSpec
    kafka_columns: bool = _key(
        "Whether rows carry `_topic`, `_partition`, `_offset`, `_kafka_ts` and `_batch_id`. Without them `tidegate "
        "where`, the deep audit and redrive have nothing to go by.",
        True,
    )
    ingest: IngestSpec = Field(default_factory=IngestSpec)
    archive: ArchiveSpec = Field(default_factory=ArchiveSpec)
    clean: CleanSpec = Field(default_factory=CleanSpec)
    notify: NotifySpec = Field(default_factory=NotifySpec)
