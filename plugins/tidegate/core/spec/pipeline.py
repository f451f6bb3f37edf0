"""A pipeline's specification, compiled: plain frozen dataclasses, the only form that rules and Spark jobs see.

`tidegate.spec` parses and validates YAML into these; everything here is already valid. Durations are ms, sizes bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.core.base.plain import LEFT_OUT
from tidegate.core.spec.copy import CopiedServer as CopiedServer
from tidegate.core.spec.copy import Copy as Copy
from tidegate.core.spec.delivery import Delivery as Delivery
from tidegate.core.spec.source import KAFKA as KAFKA
from tidegate.core.spec.source import Site as Site
from tidegate.core.spec.source import Source as Source

TIME_PARTITIONS = ("date", "hour", "minute")


HIVE = "hive"
"""The kind of table of every pipeline that does not name one."""


SKIPPED_FIELD = "_"
"""In `CsvFormat.fields`: a position that is left out on purpose."""

RAW_HEADERS = "array<struct<name:string,value:binary>>"
RAW_PARTS = {"key": ("binary", "string"), "value": ("binary", "string"), "headers": (RAW_HEADERS,)}
"""What a raw record consists of, and the types that a column can have for it."""


@dataclass(frozen=True)
class CsvFormat:
    """`fields` names the positions of a message's fields; `null_text` stands for null where it is not quoted."""

    fields: tuple[str, ...]
    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    null_text: str = ""


@dataclass(frozen=True)
class AvroFormat:
    """`wire` plain: every message is one datum of `schema`. `wire` confluent: each message names its schema's id, which
    `schemas` holds, or the registry at `registry_conn_id`. Schemas are texts. `unknown_schema`: what an id is that the
    registry does not have."""

    wire: str = "plain"  # plain | confluent
    schema: str | None = None
    schemas: dict[int, str] = field(default_factory=dict)
    registry_conn_id: str | None = None
    unknown_schema: str = "fail"  # fail | dirty


@dataclass(frozen=True)
class ProtobufFormat:
    """`descriptor_set`: a FileDescriptorSet in Base64. `wire` confluent: a schema id and message indexes come first."""

    descriptor_set: str
    message: str
    wire: str = "plain"  # plain | confluent


@dataclass(frozen=True)
class DebeziumFormat:
    """`envelope` full: as connectors make it. flat: as Debezium's ExtractNewRecordState leaves it. `encoding` avro:
    keys and values in Confluent's wire format; the format's `avro` says where their schemas are."""

    envelope: str = "full"  # full | flat
    encoding: str = field(default="json", metadata=LEFT_OUT)  # json | avro


@dataclass(frozen=True)
class Format:
    """The settings of `type`, where it has any, are in the field of that name."""

    type: str = "json"
    unknown_fields: str = "ignore"  # ignore | capture | fail | evolve
    csv: CsvFormat | None = None
    avro: AvroFormat | None = None
    protobuf: ProtobufFormat | None = None
    debezium: DebeziumFormat | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class Column:
    """`path`: where the value is in the message, `$.a.b`; `type`: a Hive type, lower case, e.g. `decimal(10,2)`.

    A computed column has `expr`, SQL over the other columns, and no path. A hidden one is an input of expressions and
    of `where`, and in no table. `convert` text: a string may hold the text of the type, and a column of strings takes
    the text of numbers and booleans. `accepted`: the YAML does not name it, `unknown_fields: evolve` has taken it up;
    its values mean the same either way."""

    name: str
    type: str
    path: str
    nullable: bool = True
    expr: str | None = None
    hidden: bool = False
    convert: str | None = None  # text
    accepted: bool = field(default=False, compare=False, metadata=LEFT_OUT)


@dataclass(frozen=True)
class EventTime:
    """`path` is None for Kafka's own timestamp. `format`: epoch_s|epoch_ms|epoch_us|epoch_ns|iso8601, or a strptime
    pattern. Rows later than ingest clock + `future_skew_ms` never move the watermark; `future` says where they go."""

    path: str | None
    format: str = "epoch_ms"
    future_skew_ms: int = 300_000
    future: str = "dirty"  # dirty | accept


@dataclass(frozen=True, kw_only=True)
class Windows:
    """`start_ms` is the start of the first window; rows of windows that ended before it are late. `idle_max_lag_ms`:
    beyond the delay, how old the newest event may be for `idle: clock` to trust the clock; None: always. `closes`:
    whether windows are ever closed and published; where they are not, they only sort a batch's files. `follows`:
    whether each is built on the one before; `copied`: and waits until the source's table has been read as a whole.
    `read_whole`: whether each is one reading of a table that has no log."""

    size_ms: int
    timezone: str
    start_ms: int
    watermark_delay_ms: int
    max_age_ms: int | None = None
    idle: str = "clock"  # clock | follow | wait
    topic_silence_ms: int = 3_600_000
    on_silence: str = "hold"  # hold | close
    idle_max_lag_ms: int | None = 86_400_000
    closes: bool = field(default=True, metadata=LEFT_OUT)
    follows: bool = field(default=False, metadata=LEFT_OUT)
    copied: bool = field(default=False, metadata=LEFT_OUT)
    read_whole: bool = field(default=False, metadata=LEFT_OUT)


Fields = tuple[tuple[str, str, int], ...]
"""(kind of files, path, id) of tables' fields."""


@dataclass(frozen=True, kw_only=True)
class Sink:
    """`options`: keys that only this kind of table has, and their values as text, in order of the keys.

    `fields`: (kind of files, path, id) of the tables' fields, such as (data, `tags.element`, 7), where files have to
    say them (`core.target.stored`). The YAML does not know them: they are pinned by the plan."""

    conn_id: str
    table: str  # database.table
    location: str  # URI of the table's directory, no trailing slash
    workdir: str  # URI of `_tidegate`, on the same filesystem
    format: str = "parquet"
    compression: str = "zstd"
    target_file_size: int = 256 * 1024 * 1024
    max_partitions: int = 2000
    user: str | None = None  # who asks HDFS; None: the user of the process
    metastore_conn_id: str | None = None  # windows are switched at once where there is one
    kind: str = field(default=HIVE, metadata=LEFT_OUT)
    options: tuple[tuple[str, str], ...] = field(default=(), metadata=LEFT_OUT)
    fields: Fields = field(default=(), metadata=LEFT_OUT)


@dataclass(frozen=True)
class DirtyLimits:
    max_count: int | None = 1000
    max_ratio: float | None = 0.01


@dataclass(frozen=True, kw_only=True)
class IngestRun:
    """`spark_session` per_batch: each job has a spark-submit of its own; warm: one driver takes them in turn.
    `task_buffer`: bytes of decoded rows that one Spark task gathers before it writes them. `task_records`: how many
    records a task reads, about; None: one task for each core of a local master, elsewhere the engine's own size."""

    schedule: str | None
    max_records: int
    spark_conn_id: str
    spark_conf: dict[str, str]
    pool: str = "tidegate_ingest"
    retries: int = 6
    spark_session: str = "per_batch"
    task_buffer: int = 96 * 1024 * 1024
    task_records: int | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True)
class Merge:
    """`min_files` small files of one partition are worth a merge (None: never); up to `local_size` bytes in all it
    runs beside the control plane, above as a Spark job."""

    min_files: int | None = 8
    local_size: int = 256 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class ArchiveRun:
    sla_ms: int
    pool: str = "tidegate_archive"
    retries: int = 6
    max_active_runs: int = 16
    on_publish: tuple[str, ...] = ()
    keep_generations: int = 2
    swap: str = "pointer"  # pointer | directory
    merge: Merge = Merge()


@dataclass(frozen=True)
class Reopening:
    """When a published window takes up late rows: by itself once the oldest has waited `after_ms` (None: never), and
    not more than `generations` times, not when it ended longer than `age_ms` ago, not `rows` at once (None: no limit).
    """

    after_ms: int | None = None
    generations: int | None = 3
    age_ms: int | None = 7 * 86_400_000
    rows: int | None = 10_000_000


@dataclass(frozen=True)
class Cleaning:
    """How long files that no task or reader needs are kept, ms; None: for ever."""

    attempts_ms: int | None = 86_400_000
    landed_ms: int | None = 7 * 86_400_000
    generations_ms: int | None = 86_400_000
    quarantine_ms: int | None = 30 * 86_400_000


@dataclass(frozen=True, kw_only=True)
class Completeness:
    """Another system's count of each window. `source`: sql | http | topic; what does not belong to it is None.

    `query` has the parameters of `COUNT_PARAMETERS`, `path` the same ones in braces. `window_path`, `count_path` and
    `source_path` are paths into a JSON message or answer. `late_too`: late rows of a window count as well. `tolerance`
    is a share of the expected count. `patience_ms`: after it a window that waits is published with a warning; None:
    never."""

    source: str
    conn_id: str
    query: str | None = None
    path: str | None = None
    topic: str | None = None
    window_path: str | None = None
    count_path: str | None = None
    source_path: str | None = None
    late_too: bool = False
    tolerance: float = 0.0
    policy: str = "wait"  # wait | warn
    patience_ms: int | None = None
    poll_ms: int = 300_000

    @property
    def source_name(self) -> str:
        """What people know it by."""
        return self.topic or self.conn_id


COUNT_PARAMETERS = ("start", "end", "start_ms", "end_ms")
"""A window's bounds as instants (UTC) and as UTC ms; the end is exclusive."""


@dataclass(frozen=True)
class Notify:
    """Who is told beside the webhook: `callback` is `package.module:function`; of which `kinds`, empty: of all."""

    kinds: tuple[str, ...] = ()
    callback: str | None = None


TELL_ALL = Notify()


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """One topic into one table."""

    name: str
    owner: str
    tags: tuple[str, ...]
    source: Source
    format: Format
    columns: tuple[Column, ...]
    event_time: EventTime
    windows: Windows
    partition_by: tuple[str, ...]  # time partitions first, then column names
    sink: Sink
    ingest: IngestRun
    archive: ArchiveRun
    late_policy: str = "side"
    dirty: DirtyLimits = DirtyLimits()
    where: str | None = None
    kafka_columns: bool = True
    webhook_conn_id: str | None = None
    description: str = ""
    clean: Cleaning = Cleaning()
    completeness: Completeness | None = None
    reopening: Reopening = Reopening()
    notify: Notify = TELL_ALL
    copy: Copy | None = field(default=None, metadata=LEFT_OUT)
    deliver: tuple[Delivery, ...] = field(default=(), metadata=LEFT_OUT)

    @property
    def time_partitions(self) -> tuple[str, ...]:
        return tuple(p for p in self.partition_by if p in TIME_PARTITIONS)

    @property
    def dynamic_partitions(self) -> tuple[str, ...]:
        """Names of the columns whose values become partition directories; they are not stored in the files."""
        return tuple(p for p in self.partition_by if p not in TIME_PARTITIONS)

    @property
    def data_columns(self) -> tuple[Column, ...]:
        """The columns that the files hold, in the table's order."""
        return tuple(c for c in self.columns if c.name not in self.partition_by and not c.hidden)

    @property
    def decoded_columns(self) -> tuple[Column, ...]:
        """The columns whose values come from the message: what a decoder looks for."""
        return tuple(c for c in self.columns if c.expr is None)

    @property
    def has_expressions(self) -> bool:
        """Whether anything is computed or filtered by SQL."""
        return self.where is not None or any(c.expr is not None for c in self.columns)

    def column(self, name: str) -> Column:
        return next(c for c in self.columns if c.name == name)


KAFKA_COLUMNS: tuple[tuple[str, str], ...] = (
    ("_topic", "string"),
    ("_partition", "int"),
    ("_offset", "bigint"),
    ("_kafka_ts", "timestamp"),
    ("_batch_id", "bigint"),
)
EXTRA_COLUMN = ("_extra", "map<string,string>")
DIRTY_COLUMNS: tuple[tuple[str, str], ...] = (
    ("reason", "string"),
    ("field", "string"),
    ("raw_key", "binary"),
    ("raw_value", "binary"),
    *KAFKA_COLUMNS[:-1],
)


def table_columns(pipeline: Pipeline) -> tuple[tuple[str, str], ...]:
    """(name, Hive type) of everything that a data or late file holds, in order."""
    columns = tuple((c.name, c.type) for c in pipeline.data_columns)
    if pipeline.format.unknown_fields == "capture":
        columns += (EXTRA_COLUMN,)
    return columns + (KAFKA_COLUMNS if pipeline.kafka_columns else ())


def late_columns(pipeline: Pipeline) -> tuple[tuple[str, str], ...]:
    """A late file also holds the dynamic partition columns: the late table is partitioned by batch and time only."""
    return tuple((n, pipeline.column(n).type) for n in pipeline.dynamic_partitions) + table_columns(pipeline)
