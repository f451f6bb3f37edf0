"""The sections of the YAML that say how and when a pipeline runs, not what its rows are."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tidegate.core.tell.notices import KINDS
from tidegate.spec.section import Section, key
from tidegate.spec.values import (
    ConnectionId,
    Count,
    CountOrZero,
    Cron,
    Duration,
    MergeCount,
    OneOf,
    Period,
    PoolName,
    PythonFunction,
    Size,
    SparkConf,
    Text,
)

NoticeKind = Annotated[str, OneOf(tuple(KINDS))]
SparkSession = Annotated[Literal["per_batch", "warm"], OneOf()]
Swap = Annotated[Literal["pointer", "directory"], OneOf()]


class SparkSpec(Section):
    """How the Spark job is submitted."""

    conn_id: ConnectionId = key("Airflow connection of the Spark master.", "spark_default")
    conf: SparkConf = key("Spark settings, `spark.*`. They are logged and stored: no secrets.", {}, shown="`{}`")
    session: SparkSession = key(
        "Whether each job has its own spark-submit, or a driver that stays on the Airflow worker takes one after "
        "another: small batches then take a second or less. Pipelines with the same connection and settings share it; "
        "a job that finds it busy has its own spark-submit. Not in cluster deploy mode.",
        "per_batch",
    )


class IngestSpec(Section):
    """The DAG `<name>.ingest`: one batch a run."""

    schedule: Cron | None = key(
        "When to look for records; null: only when somebody triggers a run. A run that leaves a backlog starts "
        "the next one.",
        "*/5 * * * *",
    )
    max_records: Count = key("Records (offsets) in one batch, over all Kafka partitions.", 5_000_000, unit="records")
    task_buffer: Size = key(
        "Decoded rows that one Spark task gathers before it writes them. Its process needs about two and a half times "
        "as much, and 250 MB. Rows of partitions with few rows then wait on the task's local disk until it has read "
        "everything, at most 2 GB.",
        "96MB",
    )
    task_records: Count | None = key(
        "Records that one Spark task reads, about; a batch of more has more tasks, and each writes its own files. "
        "Less than 50,000 are rarely worth a task's start.",
        None,
        unit="records",
        shown="with a local master one task for each core, elsewhere 500,000",
    )
    spark: SparkSpec = Field(default_factory=SparkSpec)
    pool: PoolName = key("Airflow pool of the tasks.", "tidegate_ingest")
    retries: CountOrZero = key("How often a failed task is tried again.", 6)


class MergeSpec(Section):
    """Small files of a window become larger ones before it is published."""

    min_files: MergeCount | None = key(
        "Files of one partition below half of `sink.target_file_size` that are worth a merge; null: never.", 8
    )
    local_size: Size = key(
        "Up to this size of all files together the merge runs on the Airflow worker, above it as a Spark job.", "256MB"
    )


class ArchiveSpec(Section):
    """The DAG `<name>.archive`: one window a run."""

    sla: Period = key(
        "Tidegate reports a window that is ready and unpublished for longer than this, or not ready so long "
        "after it should be.",
        "30m",
    )
    pool: PoolName = key("Airflow pool of the tasks.", "tidegate_archive")
    retries: CountOrZero = key("How often a failed task is tried again.", 6)
    max_active_runs: Count | None = key(
        "Runs at a time. Runs wait for their window's watermark, so there must be more than `watermark_delay / size`; "
        "waiting ones hold no slot.",
        None,
        shown="`watermark_delay / size + 4`, at least 16",
    )
    on_publish: tuple[Text, ...] = key(
        "SQL statements for the Hive endpoint after each publication, for example a REFRESH for another engine.", ()
    )
    keep_generations: Count = key("Generations of a window that are kept, the one in force included.", 2)
    swap: Swap = key(
        "How a replayed window replaces the published one. `pointer`: the new files lie in a new directory and "
        "the catalogue is switched; for readers that ask the catalogue. `directory`: the new directory takes the "
        "place of the old one in the table, the hour is missing for an instant; for readers by path.",
        "pointer",
    )
    merge: MergeSpec = Field(default_factory=MergeSpec)


class CleanSpec(Section):
    """How long `<name>.maintain` keeps files that the ledger proves to be needless; null: forever."""

    attempts: Duration | None = key("Work directories and plan files of overtaken, landed or abandoned attempts.", "1d")
    landed: Duration | None = key(
        "The rest of a landed batch (its receipt) when all its rows are in the tables, counted from its landing.",
        "7d",
    )
    generations: Duration | None = key(
        "Generations that are no longer in force, for queries that still read them, counted from the change; "
        "`archive.keep_generations` keeps the newest ones in any case.",
        "1d",
    )
    quarantine: Duration | None = key(
        "Files that contradicted the ledger, after that is settled, counted from the last event of their batch "
        "or window.",
        "30d",
    )


class NotifySpec(Section):
    """Where messages go when something needs a person."""

    webhook_conn_id: ConnectionId | None = key("Airflow HTTP connection that gets the messages; null: none.", None)
    kinds: tuple[NoticeKind, ...] = key(
        "Kinds of messages to send, as [notifications](notifications.md) lists them; empty: all.", ()
    )
    callback: PythonFunction | None = key(
        "Your own function, which gets each message as a dict, as `package.module:function`; for channels that take "
        "no webhook.",
        None,
    )
