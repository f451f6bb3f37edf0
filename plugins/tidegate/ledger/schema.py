"""The ledger's tables. Times are UTC ms, offsets exclusive at the end, JSON and 64-bit checksums are text (`texts`).

`migrations/versions` makes these tables; a test holds the two against each other.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, UniqueConstraint, false

from tidegate.core.batch.refusal import RefusalKind
from tidegate.core.batch.states import INGEST, BatchKind, BatchState
from tidegate.core.deliver.states import WANTED, DeliveryState
from tidegate.core.mirror.applies import ApplyState
from tidegate.core.window.states import CLOSED, GenerationKind, GenerationState, WindowState
from tidegate.ledger import columns
from tidegate.ledger.texts import String, Text, Word

metadata = columns.metadata
_NAME, _ROWID = columns.NAME, columns.ROWID
_table, _key, _required, _partial_index = columns.table, columns.key, columns.required, columns.partial_index

pipelines = _table(
    "pipelines",
    Column("name", _NAME, primary_key=True),
    _required("version", BigInteger),
    _required("next_batch_id", BigInteger),
    Column("topic_id", String(100)),
    _required("created_ms", BigInteger),
)
spec_versions = _table(
    "spec_versions",
    *_key(version=Integer),
    _required("fingerprint", String(64)),
    _required("compiled", Text),
    _required("created_ms", BigInteger),
    UniqueConstraint("pipeline", "fingerprint", name="uq_spec_fingerprint"),
)
batches = _table(
    "batches",
    *_key(batch_id=BigInteger),
    _required("state", Word(BatchState)),
    _required("epoch", Integer),
    _required("nonce", String(32)),
    _required("revision", Integer),
    _required("spec_version", Integer),
    _required("rules_version", Integer),
    _required("topic", String(249)),
    _required("topic_id", String(100)),
    _required("clock_ms", BigInteger),
    _required("floor", Text),
    _required("records", BigInteger),
    Column("manifest_digest", String(64)),
    Column("receipt", Text),  # the receipt without its files, which are rows of batch_files
    _required("side_moved", Boolean),
    _required("side_registered", Boolean),
    Column("refused", Text),
    Column("blocked", Text),
    _required("planned_ms", BigInteger),
    Column("sealed_ms", BigInteger),
    Column("landed_ms", BigInteger),
    Column("cleaned_ms", BigInteger),  # when the remains of its landed directory were deleted
    Column("kind", Word(BatchKind), nullable=False, server_default=INGEST.value),
    Column("began_ms", BigInteger),  # when the epoch in force began to be written
    Column("job_ms", BigInteger),  # how long the job ran whose attempt was sealed
    Column("released", Text),  # who lifted the limits of dirty records for this batch, and why
    Column("zone", Text),  # zone data that it was planned by; null where clocks never change
    Column("refused_kind", Word(RefusalKind, other=RefusalKind.OTHER)),  # of the words in `refused`
    Column("refused_advice", Text),  # null where only what helps all refused batches
    Column("refused_partition", Integer),  # of the record that the job stopped at
    Column("refused_offset", BigInteger),
    Index("ix_batches_state", "pipeline", "state"),
    Index("ix_batches_topic", "pipeline", "topic_id", "batch_id"),
)
batch_ranges = _table(
    "batch_ranges",
    *_key(batch_id=BigInteger, partition=Integer),
    _required("start", BigInteger),
    _required("end", BigInteger),
    Column("read", BigInteger),
    Column("data", BigInteger),
    Column("late", BigInteger),
    Column("dirty", BigInteger),
    Column("filtered", BigInteger),
    Column("dropped", BigInteger),
    Column("gaps", Text),
    Column("rerouted", BigInteger),  # of the data: late rows in the window that was the oldest open one
    Column("bytes", BigInteger),  # keys and values as Kafka delivered them, uncompressed
    Column("max_kafka_ms", BigInteger),  # the largest Kafka timestamp read
    Index("ix_batch_ranges_offsets", "pipeline", "partition", "start"),
)
batch_partitions = _table(
    "batch_partitions",
    *_key(batch_id=BigInteger, partition=Integer),
    _required("planned_end", BigInteger),
    _required("log_start", BigInteger),
    _required("last_stable_offset", BigInteger),
    _required("high_watermark", BigInteger),
    _required("drained", Boolean),
    Column("max_event_ms", BigInteger),  # over all batches up to this one; set when it lands, like the three below
    Column("advanced_ms", BigInteger),
    Column("open_transaction_since_ms", BigInteger),
    Column("timed_ms", BigInteger),  # when an event time was read here last
    Column("leader_epoch", Integer),  # of the leader that told the ends
)


def _file_columns() -> list[Column]:
    return [
        Column("path", Text, primary_key=True),
        _required("kind", String(8)),
        _required("partition_values", Text),
        _required("rows", BigInteger),
        _required("bytes", BigInteger),
        Column("min_event_ms", BigInteger),
        Column("max_event_ms", BigInteger),
        _required("checksum", String(20)),
        _required("partitions", Text),
    ]


batch_files = _table(
    "batch_files",
    *_key(batch_id=BigInteger),
    Column("window_ms", BigInteger),  # null for dirty files
    *_file_columns(),
    Index("ix_batch_files_window", "pipeline", "window_ms", "batch_id"),
    _partial_index("ix_batch_files_dirty", "kind = 'dirty'", "pipeline", "batch_id"),
)
batch_window_totals = _table(
    "batch_window_totals",
    *_key(window_ms=BigInteger, batch_id=BigInteger, kind=String(8), partition=Integer),
    _required("rows", BigInteger),
    _required("min_offset", BigInteger),
    _required("max_offset", BigInteger),
    Column("rerouted", BigInteger, nullable=False, server_default="0"),  # of the rows: late ones that were sent here
    _partial_index("ix_totals_late", "kind = 'late'", "pipeline", "window_ms"),
)
batch_sources = _table(  # of a redrive: the dirty rows of batch `source` that it takes up; offsets inclusive
    "batch_sources",
    *_key(batch_id=BigInteger, source=BigInteger, partition=Integer),
    _required("rows", BigInteger),
    _required("min_offset", BigInteger),
    _required("max_offset", BigInteger),
)
row_owners = _table(  # a batch's rows of this kind belong to another batch since that one has landed
    "row_owners",
    *_key(batch_id=BigInteger, kind=String(8)),
    _required("owner", BigInteger),
    _required("cleared", Boolean),  # whether their files have left the side table
    Index("ix_row_owners_owner", "pipeline", "owner"),
)
windows = _table(
    "windows",
    *_key(start_ms=BigInteger),
    _required("end_ms", BigInteger),
    _required("state", Word(WindowState)),
    _required("closing_batch", BigInteger),
    Column("closed_ms", BigInteger),
    Column("blocked", Text),
    _partial_index("ix_windows_at_work", f"state <> '{CLOSED}' OR blocked IS NOT NULL", "pipeline"),
)
generations = _table(
    "generations",
    *_key(window_ms=BigInteger, number=Integer),
    _required("state", Word(GenerationState)),
    _required("epoch", Integer),
    _required("nonce", String(32)),
    _required("kind", Word(GenerationKind)),
    Column("directory", String(2000)),
    Column("location", String(2000)),
    Column("rows", BigInteger),
    Column("digest", String(64)),
    Column("built_ms", BigInteger),
    Column("published_ms", BigInteger),
    Column("announced_ms", BigInteger),
    Column("retired_ms", BigInteger),
    Column("cleaned_ms", BigInteger),  # when its files were deleted; only RETIRED and DISCARDED ones
    Column("cleaning_ms", BigInteger),  # since when they may be deleted: no rollback begins with them any more
    Column("began_ms", BigInteger),  # when it was begun
    Column("origin", Integer),  # of a rollback: the generation whose rows these are
    Column("why", Text),  # of a rollback; of a second reading of a table: what was read, and when
    Column("spec_version", Integer),  # of a replay, heal: by whose columns its rows are; null: some; 0: forgotten
    Index("ix_generations_state", "pipeline", "state"),
)
generation_batches = _table(
    "generation_batches",
    *_key(window_ms=BigInteger, number=Integer, batch_id=BigInteger),
    # data | late: a batch has rows of one kind for a window; late ones belong to the generations that took them up
    Column("kind", String(8), nullable=False, server_default="data"),
    Column("cleared", Boolean, nullable=False, server_default=false()),  # whether late files have left the late table
)
generation_files = _table(
    "generation_files",
    *_key(window_ms=BigInteger, number=Integer),
    *_file_columns(),
)
certificates = _table(
    "certificates",
    *_key(window_ms=BigInteger),
    _required("ready", Boolean),
    _required("content", Text),
    _required("decided_ms", BigInteger),
)
truths = _table(  # what another system said of a window when it was last asked
    "truths",
    *_key(window_ms=BigInteger),
    _required("source", Text),
    _required("rows", BigInteger),  # ours, landed before it was asked
    Column("expected", BigInteger),
    Column("problem", Text),
    _required("asked_ms", BigInteger),
    _required("since_ms", BigInteger),
    Column("accepted", Text),
)
archive_notes = _table(  # what the maintenance DAG last saw of a pipeline's windows and their runs
    "archive_notes",
    *_key(),
    _required("content", Text),
)
totals = _table(  # sums over the ranges of all batches up to one; what has landed is final
    "totals",
    *_key(),
    _required("through_batch", BigInteger),
    _required("content", Text),
)
notices = _table(  # what people are to be told, once for each key
    "notices",
    *_key(key=String(300)),
    _required("content", Text),
    _required("first_ms", BigInteger),
    Column("told_ms", BigInteger),
    Column("ended_ms", BigInteger),
    Column("closed_ms", BigInteger),  # when there was nothing left to tell of it
)
intents = _table(
    "intents",
    Column("call_id", String(40), primary_key=True),
    _required("pipeline", _NAME),
    _required("window_ms", BigInteger),
    _required("location", String(2000)),
    _required("deadline_ms", BigInteger),
    Column("number", Integer, nullable=False, server_default="0"),  # the generation that it is for
    Index("ix_intents_window", "pipeline", "window_ms"),
)
losses = _table(
    "losses",
    # the batch too: a recreated topic can lose the same offsets again
    *_key(partition=Integer, start=BigInteger, batch_id=BigInteger),
    _required("end", BigInteger),
    _required("reason", Text),
)
log_cuts = _table(  # logs that end below what was planned, or did: nothing is planned until somebody has decided
    "log_cuts",
    *_key(partition=Integer),
    _required("topic_id", String(100)),
    _required("after_batch", BigInteger),  # the newest one when it was found
    _required("start", BigInteger),
    _required("end", BigInteger),
    Column("leader_epoch", Integer),
    _required("found_ms", BigInteger),
)
resumptions = _table(  # where the batch after this one goes on in a partition, if not at the planned end
    "resumptions",
    *_key(after_batch=BigInteger, partition=Integer),  # 0: before the first on the topic
    _required("topic_id", String(100)),
    _required("offset", BigInteger),
    Column("lost_start", BigInteger),  # offsets from here up to `offset` are a loss of the next batch
    Column("leader_epoch", Integer),  # of the log that was looked at when this was decided
    Column("batch_id", BigInteger),  # which one went on there
    _required("why", Text),
)
applies = _table(  # tries to merge batches `first_batch` to `last_batch` (inclusive) into the pipeline's keyed table
    "applies",
    *_key(epoch=Integer),
    _required("first_batch", BigInteger),
    _required("last_batch", BigInteger),
    _required("nonce", String(32)),
    _required("state", Word(ApplyState)),
    Column("snapshot", String(100)),  # of the table, once it stands there; before, of upkeep: that it was begun on
    Column("why", Text),  # of a refused one
    Column("copied", Integer),  # the round of a copy whose rows, or end, it brings
    _required("began_ms", BigInteger),
    Column("done_ms", BigInteger),  # when it was applied, overtaken or refused
    Index("ix_applies_state", "pipeline", "state"),
)
prefixes = _table(  # what a keyed table said of itself when it was last looked at: the table tells, this is a copy
    "prefixes",
    *_key(),
    _required("upto", BigInteger),
    Column("snapshot", String(100)),
    _required("attempt", String(100)),
    _required("rows", BigInteger),
    _required("tombstones", BigInteger),
    _required("events", BigInteger),
    _required("inserted", BigInteger),
    _required("purged", BigInteger),
    _required("told_ms", BigInteger),
    Column("purged_below", String(100), nullable=False, server_default="0,0,0"),  # commit,row,n
    Column("purged_upto", BigInteger, nullable=False, server_default="0"),
    Column("below_purge", BigInteger, nullable=False, server_default="0"),  # events that the purge has kept out
    Column("kept_out_ms", BigInteger),  # when their number was last seen to have grown
    Column("begins", String(100)),  # commit,row,n: the greatest position of its first merge with events
    Column("last_position", String(100)),  # the greatest of all
    Column("copied", Text),  # core.mirror.copied.Copied; null: of no copy
)
schema_changes = _table(  # columns that came or grew by `unknown_fields: evolve`; of a row only its type grows
    "schema_changes",
    *_key(number=Integer),
    _required("column_name", String(200)),
    _required("type", Text),
    _required("path", Text),
    Column("batch_id", BigInteger),  # where it was first seen; null where storage remembers the column alone
    Column("partition", Integer),
    Column("offset", BigInteger),
    _required("why", Text),
    _required("actor", String(500)),
    _required("at_ms", BigInteger),
    UniqueConstraint("pipeline", "column_name", name="uq_schema_change"),
)
deliveries = _table(  # what stands of windows in further systems; a window without a row was never sent
    "deliveries",
    *_key(name=String(100), window_ms=BigInteger),
    _required("generation", Integer),  # of the newest try
    _required("digest", String(64)),
    _required("state", Word(DeliveryState)),
    _required("epoch", Integer),
    _required("nonce", String(32)),
    _required("since_ms", BigInteger),
    _required("why", Text),
    Column("stood", Integer),  # the newest generation that was read back there
    Column("rows", BigInteger),  # of it
    Column("checksum", String(20)),
    Column("stood_ms", BigInteger),
    _partial_index("ix_deliveries_wanted", f"state IN ('{WANTED[0]}', '{WANTED[1]}')", "pipeline", "name"),
)
delivery_places = _table(  # where deliveries go, with their side tables
    "delivery_places",
    *_key(name=String(100)),
    _required("place", Text),  # core.spec.delivery.Delivery.place
    _required("number", Integer),  # how many there have been
    _required("earlier", Text),  # those of before, as JSON
    _required("since_ms", BigInteger),
)
failovers = _table(  # switches of the active site; the newest one's is active
    "failovers",
    *_key(number=Integer),
    _required("site", String(100)),
    _required("before", String(100)),
    _required("certificate", Text),  # core.failover.states.Certificate
    _required("why", Text),
    _required("at_ms", BigInteger),
)
stretches = _table(  # offsets of a topic that are never read: they hold copies
    "stretches",
    *_key(topic_id=String(100), partition=Integer, start=BigInteger, number=Integer),  # the switch's number
    _required("end", BigInteger),
)
site_ends = _table(  # where a site's own records end that returned after this switch, before anything is copied
    "site_ends",
    *_key(number=Integer, site=String(100), partition=Integer),
    _required("end", BigInteger),
    _required("noted_ms", BigInteger),
)
run_bindings = _table(
    "run_bindings",
    *_key(run=String(500)),
    _required("batch_id", BigInteger),
)
events = _table(
    "events",
    Column("id", _ROWID, primary_key=True),
    _required("at_ms", BigInteger),
    _required("pipeline", _NAME),
    _required("actor", String(500)),
    _required("what", String(100)),
    _required("subject", String(200)),
    _required("detail", Text),
    Index("ix_events_pipeline", "pipeline", "id"),
    Index("ix_events_subject", "pipeline", "subject", "id"),
)
