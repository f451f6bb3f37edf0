"""Every wrong value is refused with its file, line and field; `#!` marks the line that must be named."""

from __future__ import annotations

import re

import pytest

from tidegate.core.errors import SpecError
from tidegate.spec import load_file
from tidegate.spec.problems import all_keys

GOOD = """\
version: 1
name: orders
owner: shop
source:
  topic: orders
format:
  type: json
columns:
  - name: shop
    type: string
  - name: total
    type: decimal(10,2)
  - name: placed
    type: timestamp
event_time:
  from: $.placed_at
windows:
  size: 1h
  timezone: Europe/Berlin
  start: 2024-01-01T00:00:00
  watermark_delay: 6h
partition_by: [date, hour, shop]
sink:
  table: lake.orders
  location: file:///lake/orders
"""

ONE_VALUE = [
    # old line(s) of GOOD, new ones, field, what the message says
    ("version: 1", "version: 2 #!", "version", "must be 1, the only version"),
    ("version: 1", "version: true #!", "version", "must be 1"),
    ("name: orders", "name: Orders #!", "name", "must be lower-case letters"),
    ("name: orders", "name: order #!", "name", "must be orders, as the file is orders.yaml"),
    ("name: orders", "name: 2orders #!", "name", "beginning with a letter"),
    ("name: orders", f"name: {'o' * 101} #!", "name", "longer than 100"),
    ("owner: shop", "owner: ' ' #!", "owner", "must not be empty"),
    ("owner: shop", "owner: 7 #!", "owner", "must be text, not 7; put it in quotes"),
    ("owner: shop", "owner: shop\ndescription: 7 #!", "description", "must be text, not 7"),
    ("owner: shop", "owner: shop\ntags: retail #!", "tags", "must be a list"),
    ("owner: shop", "owner: shop\ntags:\n- a\n- '' #!", "tags[1]", "must not be empty"),
    ("owner: shop", "owner: shop\nwhere: 7 #!", "where", "must be text, not 7; put it in quotes"),
    ("owner: shop", "owner: shop\nkafka_columns: perhaps #!", "kafka_columns", "must be true or false"),
    (
        "owner: shop",
        "owner: shop\ningest: \n  spark:\n    conf: {spark.submit.deployMode: cluster}\n    session: warm #!",
        "ingest.spark.session",
        "warm needs the driver on this machine",
    ),
    ("  topic: orders", "  topic: orders/all #!", "source.topic", "must be a topic name"),
    ("  topic: orders", "  topic: orders\n  conn_id: '' #!", "source.conn_id", "id of an Airflow connection"),
    ("  topic: orders", "  topic: orders\n  loss_warning: soon #!", "source.loss_warning", "a number with a unit"),
    ("  topic: orders", "  topic: orders\n  start: sometime #!", "source.start", "earliest, latest or a time"),
    ("  topic: orders", "  topic: orders\n  start: 1969-12-31 #!", "source.start", "in the years 1971 to 2200"),
    (
        "  topic: orders",
        "  topic: orders\n  isolation: read_comitted #!",
        "source.isolation",
        "(did you mean read_comm",
    ),
    ("  topic: orders", "  topic: orders\n  gaps: maybe #!", "source.gaps", 'must be forbid or allow, not "maybe"'),
    ("  topic: orders", "  topic: orders\n  on_data_loss: null #!", "source.on_data_loss", "fail or record, not null"),
    ("  type: json", "  type: xml #!", "format.type", "must be json or csv or avro or protobuf or raw, not"),
    ("  type: json", "  type: json\n  fields: [a] #!", "format.fields", "has no meaning with format.type json"),
    ("  type: json", "  type: json\n  delimiter: ';' #!", "format.delimiter", "has no meaning with format.type json"),
    ("  type: json", "  type: json\n  quote: null #!", "format.quote", "has no meaning with format.type json"),
    ("  type: json", "  type: json\n  escape: '!' #!", "format.escape", "has no meaning with format.type json"),
    ("  type: json", "  type: json\n  null_text: '-' #!", "format.null_text", "has no meaning with format.type json"),
    ("  type: json", "  type: json\n  wire: plain #!", "format.wire", "has no meaning with format.type json"),
    ("  type: json", "  type: json\n  schema: a.avsc #!", "format.schema", "has no meaning with format.type json"),
    (
        "  type: json",
        "  type: json\n  schemas: {1: a.avsc} #!",
        "format.schemas",
        "has no meaning with format.type json",
    ),
    (
        "  type: json",
        "  type: json\n  registry_conn_id: registry #!",
        "format.registry_conn_id",
        "has no meaning with format.type json",
    ),
    (
        "  type: json",
        "  type: json\n  unknown_schema: dirty #!",
        "format.unknown_schema",
        "has no meaning with format.type json",
    ),
    (
        "  type: json",
        "  type: json\n  descriptor_set: a.desc #!",
        "format.descriptor_set",
        "has no meaning with format.type json",
    ),
    ("  type: json", "  type: json\n  message: a.B #!", "format.message", "has no meaning with format.type json"),
    (
        "  type: json",
        "  type: csv\n  fields: [shop, total, placed, placed_at]\n  delimiter: ab #!",
        "format.delimiter",
        "one character",
    ),
    ("  type: json", "  type: csv\n  fields: []  #!", "format.fields", "must not be empty"),
    ("  type: json", "  type: csv\n  null_text: 0 #!", "format.null_text", "must be text, not 0"),
    ("  type: json", "  type: avro\n  schemas: {x1: a.avsc} #!", "format.schemas.x1", "must be a schema id"),
    ("  type: json", "  type: jsn #!", "format.type", "did you mean json?"),
    ("  type: json", "  unknown_fields: drop #!", "format.unknown_fields", "ignore or capture or fail"),
    ("  - name: total", "  - name: total sum #!", "columns[1].name", "letters, digits and underscores"),
    ("  - name: total", "  - name: _offset #!", "columns[1].name", "beginning with a letter"),
    ("  - name: total", "  - name: _extra #!", "columns[1].name", "beginning with a letter"),
    ("  - name: total", "  - name: Hour #!", "columns[1].name", "name of a time partition"),
    ("  - name: total", "  - name: SHOP #!", "columns[1].name", "there already, as shop"),
    ("    type: decimal(10,2)", "    type: decimal(39,2) #!", "columns[1].type", "precision must be 1 to 38"),
    ("    type: decimal(10,2)", "    type: decimal(4,5) #!", "columns[1].type", "scale 5 is larger"),
    ("    type: decimal(10,2)", "    type: varchar #!", "columns[1].type", "'varchar' is not a type"),
    ("    type: decimal(10,2)", "    type: array<int #!", "columns[1].type", "not the end"),
    ("    type: decimal(10,2)", "    type: int\n    from: placed.at #!", "columns[1].from", "path into the message"),
    ("    type: decimal(10,2)", "    type: int\n    from: $.a[0] #!", "columns[1].from", "path into the message"),
    ("    type: decimal(10,2)", "    type: int\n    nullable: no way #!", "columns[1].nullable", "true or false"),
    ("    type: decimal(10,2)", "    type: int\n    hidden: maybe #!", "columns[1].hidden", "true or false"),
    (
        "    type: decimal(10,2)",
        "    type: int\n    from: $.total\n    expr: 1 + 1 #!",
        "columns[1].expr",
        "is read (from) or computed (expr)",
    ),
    ("    type: decimal(10,2)", "    type: int\n    convert: yes please #!", "columns[1].convert", "text"),
    (
        "    type: decimal(10,2)",
        "    type: array<int>\n    convert: text #!",
        "columns[1].convert",
        "no text of array<int>",
    ),
    (
        "    type: decimal(10,2)",
        "    type: int\n    expr: 1 + 1\n    convert: text #!",
        "columns[1].convert",
        "no meaning for a computed column",
    ),
    ("  from: $.placed_at", "  from: placed_at #!", "event_time.from", "or kafka_timestamp"),
    ("  from: $.placed_at", "  from: $.a\n  format: epoc_ms #!", "event_time.format", "did you mean epoch_ms?"),
    ("  from: $.placed_at", "  from: $.a\n  format: '%Y-%m-%d %Q' #!", "event_time.format", "not a strptime pattern"),
    ("  from: $.placed_at", "  from: $.a\n  format: '%H:%M' #!", "event_time.format", "does not hold a whole date"),
    (
        "  from: $.placed_at",
        "  from: kafka_timestamp\n  format: epoch_ms #!",
        "event_time.format",
        "no meaning with from: kafka_timestamp",
    ),
    ("  from: $.placed_at", "  from: $.a\n  future_skew: 5 #!", "event_time.future_skew", "such as 5m, not 5"),
    ("  from: $.placed_at", "  from: $.a\n  future: late #!", "event_time.future", "dirty or accept"),
    ("  size: 1h", "  size: 7h #!", "windows.size", "divide a day"),
    ("  size: 1h", "  size: 90s #!", "windows.size", "whole minutes"),
    ("  size: 1h", "  size: 2d #!", "windows.size", "divide a day"),
    ("  size: 1h", "  size: 0h #!", "windows.size", "greater than zero"),
    ("  size: 1h", "  size: 1H #!", "windows.size", "a number with a unit"),
    ("  timezone: Europe/Berlin", "  timezone: Europe/Berln #!", "windows.timezone", "did you mean Europe/Berlin?"),
    ("  timezone: Europe/Berlin", "  timezone: '' #!", "windows.timezone", "not a time zone"),
    ("  timezone: Europe/Berlin", "  timezone: ../UTC #!", "windows.timezone", "not a time zone"),
    (
        "  start: 2024-01-01T00:00:00",
        "  start: 2024-01-01T00:30:00 #!",
        "windows.start",
        "before is 2024-01-01T00:00:00",
    ),
    ("  start: 2024-01-01T00:00:00", "  start: 2024-01-01T00:00:00.0001 #!", "windows.start", "not the start"),
    (
        "  start: 2024-01-01T00:00:00",
        "  start: 2024-03-31T02:00:00 #!",
        "windows.start",
        "does not exist in Europe/Berlin",
    ),
    ("  start: 2024-01-01T00:00:00", "  start: yesterday #!", "windows.start", "ISO 8601 time such as"),
    ("  start: 2024-01-01T00:00:00", "  start: 9999-12-31T23:00:00 #!", "windows.start", "in the years 1971 to 2200"),
    ("  start: 2024-01-01T00:00:00", "  start: 20240101 #!", "windows.start", "must be text, not 20240101"),
    ("  watermark_delay: 6h", "  watermark_delay: six hours #!", "windows.watermark_delay", "a number with a unit"),
    ("  watermark_delay: 6h", "  watermark_delay: 99999999d #!", "windows.watermark_delay", "is too large: 99999999d"),
    ("  watermark_delay: 6h", "  watermark_delay: 6h\n  max_age: 6h #!", "windows.max_age", "size + windows.watermark"),
    ("  watermark_delay: 6h", "  watermark_delay: 6h\n  idle: guess #!", "windows.idle", "clock or follow or wait"),
    ("  watermark_delay: 6h", "  watermark_delay: 6h\n  topic_silence: 0s #!", "windows.topic_silence", "than zero"),
    (
        "  watermark_delay: 6h",
        "  watermark_delay: 6h\n  idle_max_lag: a day #!",
        "windows.idle_max_lag",
        "number with a",
    ),
    ("  watermark_delay: 6h", "  watermark_delay: 6h\n  on_silence: wait #!", "windows.on_silence", "hold or close"),
    ("partition_by: [date, hour, shop]", "partition_by: date #!", "partition_by", "must be a list"),
    ("partition_by: [date, hour, shop]", "partition_by: [] #!", "partition_by", "must not be empty"),
    ("partition_by: [date, hour, shop]", "partition_by: [date, shop] #!", "partition_by", "begin with date, hour:"),
    ("partition_by: [date, hour, shop]", "partition_by: [hour, date] #!", "partition_by", "begin with date, hour:"),
    ("partition_by: [date, hour, shop]", "partition_by: [date, shop, hour] #!", "partition_by[2]", "come first"),
    ("partition_by: [date, hour, shop]", "partition_by: [date, hour, shpo] #!", "partition_by[2]", "mean shop?"),
    (
        "partition_by: [date, hour, shop]",
        "partition_by: [date, hour, shop, SHOP] #!",
        "partition_by[3]",
        "there already",
    ),
    (
        "partition_by: [date, hour, shop]",
        "partition_by: [date, hour, total] #!",
        "partition_by[2]",
        "decimal(10,2); a p",
    ),
    ("partition_by: [date, hour, shop]", "partition_by: [date, hour, placed] #!", "partition_by[2]", "is a timestamp"),
    ("  table: lake.orders", "  table: orders #!", "sink.table", "must be database.table"),
    ("  table: lake.orders", "  table: lake.`orders` #!", "sink.table", "must be database.table"),
    ("  table: lake.orders", "  table: lake.orders\n  conn_id: a b #!", "sink.conn_id", "id of an Airflow connection"),
    (
        "  table: lake.orders",
        "  table: lake.orders\n  metastore_conn_id: a b #!",
        "sink.metastore_conn_id",
        "id of an Airflow connection",
    ),
    ("  table: lake.orders", "  table: lake.orders\n  user: a b #!", "sink.user", "name of a user of HDFS"),
    ("  location: file:///lake/orders", "  location: /lake/orders #!", "sink.location", "must be a URI such as"),
    ("  location: file:///lake/orders", "  location: s3://lake/orders #!", "sink.location", "must be a URI such as"),
    ("  location: file:///lake/orders", "  location: file:/lake/orders #!", "sink.location", "must be a URI such as"),
    ("  location: file:///lake/orders", "  location: file://lake/orders #!", "sink.location", "names the host 'lake'"),
    ("  location: file:///lake/orders", "  location: file:/// #!", "sink.location", "below the root"),
    ("  location: file:///lake/orders", "  location: file:///lake/../x #!", "sink.location", "normal path"),
    ("  location: file:///lake/orders", "  location: file:///lake/a b #!", "sink.location", "letters, digits and"),
    ("  location: file:///lake/orders", "  location: file:///lake/a?b #!", "sink.location", "letters, digits and"),
    ("  location: file:///lake/orders", "  location: file:///lake/{a,b} #!", "sink.location", "letters, digits and"),
    ("  location: file:///lake/orders", "  location: hdfs://me@host/lake #!", "sink.location", "letters, digits and"),
    ("  location: file:///lake/orders", "  location: hdfs://lake #!", "sink.location", "below the root"),
    ("  table: lake.orders", "  table: lake.orders\n  format: csv #!", "sink.format", "must be parquet or orc or text"),
    (
        "  table: lake.orders",
        "  table: lake.orders\n  format: text\n  compression: snappy #!",
        "sink.compression",
        "text compressed with snappy is not read by all of Hive, Spark and DuckDB: set it to gzip or none, or sink",
    ),
    (
        "  table: lake.orders",
        "  table: lake.orders\n  format: text\n  compression: zstd #!",
        "sink.compression",
        "set it to gzip or none, or sink.format to parquet or orc",
    ),
    ("  table: lake.orders", "  table: lake.orders\n  compression: zst #!", "sink.compression", "did you mean zstd?"),
    ("  table: lake.orders", "  table: a.b\n  target_file_size: 256 MB #!", "sink.target_file_size", "such as 256MB"),
    ("  table: lake.orders", "  table: a.b\n  max_partitions: 0 #!", "sink.max_partitions", "greater than 0, not 0"),
    ("  table: lake.orders", "  table: a.b\n  permissions: '0750' #!", "sink.permissions", "not available in this"),
    ("  table: lake.orders", "  table: a.b\n  workdir: hdfs://lake/w #!", "sink.workdir", "on the filesystem of"),
    ("  table: lake.orders", "  table: a.b\n  workdir: file:///lake #!", "sink.workdir", "must not hold the table"),
    (
        "  table: lake.orders",
        "  table: a.b\n  workdir: file:///lake/orders #!",
        "sink.workdir",
        "must not hold the table",
    ),
    ("  table: lake.orders", "  table: a.b\n  workdir: file:///lake/orders/w #!", "sink.workdir", "begin with _ or ."),
]

ADDED = [
    # more lines at the end of GOOD, field, what the message says
    ("late: {policy: rerute} #!", "late.policy", "must be side or reroute or drop"),
    ("late: #!", "late", "is empty: give its keys, or leave it out"),
    ("late: side #!", "late", "must be a mapping"),
    ("late: {reopen_after: 0s} #!", "late.reopen_after", "greater than zero, not 0s"),
    ("late: {reopen_after: soon} #!", "late.reopen_after", "a number with a unit"),
    ("late: {reopen_after: 1h} #!\nkafka_columns: false", "late.reopen_after", "needs kafka_columns: true"),
    ("late: {reopen_generations: -1} #!", "late.reopen_generations", "greater than or equal to 0, not -1"),
    ("late: {reopen_age: 7} #!", "late.reopen_age", "a number with a unit"),
    ("late: {reopen_rows: 0} #!", "late.reopen_rows", "greater than 0, not 0"),
    ("dirty: {max_count: -1} #!", "dirty.max_count", "greater than or equal to 0, not -1"),
    ("dirty: {max_ratio: 1.5} #!", "dirty.max_ratio", "less than or equal to 1, not 1.5"),
    ("dirty: {max_ratio: true} #!", "dirty.max_ratio", "must be a number, not true"),
    ("ingest: {schedule: every hour} #!", "ingest.schedule", "must have five fields"),
    ("ingest: {schedule: '61 * * * *'} #!", "ingest.schedule", "is not valid"),
    ("ingest: {schedule: '* * * * * *'} #!", "ingest.schedule", "must have five fields"),
    ("ingest: {schedule: '@sometimes'} #!", "ingest.schedule", "is not valid"),
    ("ingest: {schedule: '0 0 31 2 *'} #!", "ingest.schedule", "never comes"),
    ("ingest: {max_records: 0} #!", "ingest.max_records", "greater than 0"),
    (f"ingest: {{max_records: {'9' * 5000}}} #!", "ingest.max_records", "must be a"),
    ("ingest: {max_records: 9999999999999} #!", "ingest.max_records", "less than or equal to 1000000000000"),
    ("ingest: {max_records: true} #!", "ingest.max_records", "must be a number, not true"),
    ("ingest: {max_records: 5e6} #!", "ingest.max_records", 'must be a whole number, not "5e6"'),
    ("ingest: {task_buffer: much} #!", "ingest.task_buffer", "such as 256MB"),
    ("ingest: {pool: ''} #!", "ingest.pool", "name of an Airflow pool"),
    ("ingest: {retries: -1} #!", "ingest.retries", "greater than or equal to 0"),
    ("ingest:\n  spark:\n    conn_id: '' #!", "ingest.spark.conn_id", "id of an Airflow connection"),
    ("ingest:\n  spark:\n    conf: [] #!", "ingest.spark.conf", "must be a mapping"),
    (
        "ingest:\n  spark:\n    conf:\n      executor.memory: 2g #!",
        "ingest.spark.conf.executor.memory",
        "Spark ignores",
    ),
    ("ingest:\n  spark:\n    conf:\n      spark.x: [] #!", "ingest.spark.conf.spark.x", "must be text or a number"),
    ("archive: {sla: soon} #!", "archive.sla", "a number with a unit"),
    ("archive: {pool: a b} #!", "archive.pool", "name of an Airflow pool"),
    ("archive: {retries: many} #!", "archive.retries", 'whole number, not "many"'),
    ("archive: {max_active_runs: 6} #!", "archive.max_active_runs", "must be more than windows.watermark_delay / "),
    ("archive: {on_publish: [' ']} #!", "archive.on_publish[0]", "must not be empty"),
    ("archive: {keep_generations: 0} #!", "archive.keep_generations", "greater than 0"),
    ("archive: {swap: rename} #!", "archive.swap", "directory"),
    ("archive: {merge: {min_files: 1}} #!", "archive.merge.min_files", "greater than or equal to 2"),
    ("archive: {merge: {local_size: much}} #!", "archive.merge.local_size", "256MB"),
    ("clean: {attempts: soon} #!", "clean.attempts", "a number with a unit"),
    ("clean: {landed: -1d} #!", "clean.landed", "a number with a unit"),
    ("clean: {generations: 7} #!", "clean.generations", "a number with a unit"),
    ("clean: {quarantine: never} #!", "clean.quarantine", "a number with a unit"),
    ("notify: {webhook_conn_id: ''} #!", "notify.webhook_conn_id", "id of an Airflow connection"),
    ("notify: {kinds: [late_windows]} #!", "notify.kinds[0]", "did you mean late_window"),
    ("notify: {kinds: late_window} #!", "notify.kinds", "must be a list"),
    ("notify: {callback: os.system} #!", "notify.callback", "must be package.module:function"),
    ("notify: {callback: 'a b:c'} #!", "notify.callback", "must be package.module:function"),
    ("notify: {slack: yes} #!", "notify.slack", "unknown key"),
    ("wibble: 1 #!", "wibble", "unknown key; known are version, name,"),
    ("partitions_by: [date] #!", "partitions_by", "unknown key (did you mean partition_by?)"),
    ("topic: orders #!", "topic", "unknown key here (did you mean source.topic?)"),
    ("archive:\n  retrys: 1 #!", "archive.retrys", "unknown key (did you mean retries?)"),
    ("ingest: {spark: {con_id: x}} #!", "ingest.spark.con_id", "unknown key (did you mean conn_id?)"),
    ("owner: shop #!", "owner", "key 'owner' a second time (the first is in line 3)"),
    ("archive:\n  pool: a\n  pool: b #!", "archive.pool", "key 'pool' a second time (the first is in line 27)"),
    ("archive: !special {} #!", "archive", "tags are not supported"),
    ("description: !!binary aGk= #!", "description", "tags are not supported"),
    ("archive:\n  <<: {pool: a} #!", "archive", "merge keys (<<) are not supported"),
    ("? [a, b] #!\n: 1", "", "a key must be a word"),
    ("tags: &again #!\n- *again", "tags[0]", "contains itself"),
    ("description: ${NOT_SET} #!", "description", "environment variable NOT_SET is not set"),
    ("tags:\n- a\n- b-${NOT_SET}-c #!", "tags[1]", "environment variable NOT_SET is not set"),
    ("description: ${1X} #!", "description", "${1X} is not ${NAME} or ${NAME:-default}"),
    ("description: ${OPEN #!", "description", "${OPEN is not ${NAME}"),
]


def refusal(tmp_path, text: str) -> tuple[SpecError, str]:
    """The error for `text`, and `file:line` of the line that `#!` marks."""
    path = tmp_path / "orders.yaml"
    path.write_text(text)
    marked = [i for i, line in enumerate(text.splitlines(), 1) if line.endswith("#!")]
    with pytest.raises(SpecError) as caught:
        load_file(path, {})
    return caught.value, f"{path}:{marked[0] if marked else '-'}"


def assert_refused(tmp_path, text: str, field: str, says: str) -> None:
    error, where = refusal(tmp_path, text)
    assert (error.where, error.field) == (where, field), str(error)
    assert says in str(error)
    assert str(error).count("\n") == 0, "one problem is one line"
    assert str(error).startswith(f"{where}: {field}")


def test_the_text_that_the_others_spoil_is_good(tmp_path):
    path = tmp_path / "orders.yaml"
    path.write_text(GOOD)
    assert load_file(path, {}).name == "orders"


@pytest.mark.parametrize(("old", "new", "field", "says"), ONE_VALUE)
def test_a_wrong_value_is_refused_with_line_and_field(tmp_path, old, new, field, says):
    assert GOOD.count(f"{old}\n") == 1
    assert_refused(tmp_path, GOOD.replace(f"{old}\n", f"{new}\n"), field, says)


COUNTS = {
    "sql": "from: sql, conn_id: counts, query: 'select :start'",
    "http": "from: http, conn_id: counts, path: '/{start}'",
    "topic": "from: topic, topic: audit",
}
ADDED += [
    (f"completeness: {{{lines}}} #!", f"completeness{'.' if key else ''}{key}", says)
    for lines, key, says in [
        ("conn_id: counts", "from", "is required"),
        ("from: ftp", "from", "must be sql or http or topic"),
        (COUNTS["topic"] + ", conn_id: ''", "conn_id", "id of an Airflow connection"),
        ("from: sql, query: 'select :start'", "conn_id", "is required with from: sql"),
        ("from: http, path: '/{start}'", "conn_id", "is required with from: http"),
        ("from: sql, conn_id: counts", "query", "is required with from: sql"),
        ("from: http, conn_id: counts", "path", "is required with from: http"),
        ("from: topic", "topic", "is required with from: topic"),
        (COUNTS["http"] + ", query: 'select :start'", "query", "has a meaning with from: sql only, not with http"),
        (COUNTS["sql"] + ", path: '/{start}'", "path", "has a meaning with from: http only, not with sql"),
        (COUNTS["sql"] + ", topic: audit", "topic", "has a meaning with from: topic only"),
        (COUNTS["http"] + ", window: $.w", "window", "has a meaning with from: topic only"),
        (COUNTS["http"] + ", source: $.s", "source", "has a meaning with from: topic only"),
        (COUNTS["sql"] + ", count: $.c", "count", "has a meaning with from: http and topic only"),
        (COUNTS["topic"] + ", count: c", "count", "path into the message"),
        ("from: sql, conn_id: counts, query: select 1", "query", "must say which window it is about: :start, :end"),
        (
            "from: sql, conn_id: c, query: 'select :begin'",
            "query",
            ":begin is none of :start, :end, :start_ms, :end_ms",
        ),
        ("from: sql, conn_id: c, query: 'select :strat'", "query", "(did you mean start?)"),
        ("from: http, conn_id: counts, path: /counts", "path", "must say which window it is about: {start}"),
        ("from: http, conn_id: counts, path: '/{hour}'", "path", "{hour} is none of {start}, {end}"),
        ("from: http, conn_id: counts, path: '/{}'", "path", "{} is none of"),
        ("from: http, conn_id: counts, path: '/{start!r}'", "path", "names in braces take no format"),
        ("from: http, conn_id: counts, path: '/{start:>99}'", "path", "names in braces take no format"),
        ("from: http, conn_id: counts, path: '/{start.year}'", "path", "{start.year} is none of"),
        ("from: http, conn_id: counts, path: '/{start'", "path", "a brace itself is written twice"),
        ("from: http, conn_id: counts, path: 'http://x/{start}'", "path", "must begin with / and hold no spaces"),
        ("from: http, conn_id: counts, path: '/ {start}'", "path", "must begin with / and hold no spaces"),
        ("from: topic, topic: orders", "topic", "is the topic that the pipeline reads"),
        ("from: topic, topic: a b", "topic", "must be a topic name"),
        (COUNTS["sql"] + ", counts: read", "counts", "must be data or all"),
        (COUNTS["sql"] + ", tolerance: 2", "tolerance", "less than or equal to 1"),
        (COUNTS["sql"] + ", policy: hope", "policy", "must be wait or warn"),
        (COUNTS["sql"] + ", patience: long", "patience", "a number with a unit"),
        (COUNTS["sql"] + ", policy: warn, patience: 1h", "patience", "has a meaning with policy: wait only"),
        (COUNTS["sql"] + ", poll: 0m", "poll", "must be greater than zero"),
    ]
]


@pytest.mark.parametrize(("lines", "field", "says"), ADDED)
def test_a_wrong_addition_is_refused_with_line_and_field(tmp_path, lines, field, says):
    assert_refused(tmp_path, f"{GOOD}{lines}\n", field, says)


def test_every_key_that_is_not_a_section_has_a_refusal():
    tried = {re.sub(r"\[\d+\]", "", field) for *_, field, _ in ONE_VALUE + ADDED}
    sections = {key.rpartition(".")[0] for key in all_keys()}
    assert {key for key in all_keys() if key not in sections} - tried - {"ingest.spark.conf"} == set()


@pytest.mark.parametrize(
    ("key", "instead", "field", "line"),
    [
        ("version: 1", "", "version", 2),  # the first line that says anything
        ("name: orders", "", "name", 1),
        ("owner: shop", "", "owner", 1),
        ("partition_by: [date, hour, shop]", "", "partition_by", 1),
        ("  topic: orders", "  gaps: allow", "source.topic", 4),
        ("  - name: total", "  - nullable: true", "columns[1].name", 11),
        ("    type: decimal(10,2)", "    nullable: true", "columns[1].type", 11),
        ("  from: $.placed_at", "  future: accept", "event_time.from", 15),
        ("  start: 2024-01-01T00:00:00", "", "windows.start", 17),
        ("  watermark_delay: 6h", "", "windows.watermark_delay", 17),
        ("  table: lake.orders", "", "sink.table", 23),
        ("  location: file:///lake/orders", "", "sink.location", 23),
    ],
)
def test_a_missing_key_is_named_at_its_section(tmp_path, key, instead, field, line):
    assert GOOD.count(f"{key}\n") == 1
    error, _ = refusal(tmp_path, GOOD.replace(f"{key}\n", f"{instead}\n"))
    assert str(error) == f"{tmp_path / 'orders.yaml'}:{line}: {field}: is required"


@pytest.mark.parametrize("section", ["source", "columns", "event_time", "windows", "sink"])
def test_a_missing_section_is_named(tmp_path, section):
    text = re.sub(rf"^{section}:\n(  .*\n)+", "", GOOD, flags=re.MULTILINE)
    error, _ = refusal(tmp_path, text)
    assert str(error) == f"{tmp_path / 'orders.yaml'}:1: {section}: is required"


def test_no_columns_and_no_coordinates_leave_nothing_to_store(tmp_path):
    text = re.sub(r"  - name: total.*type: timestamp\n", "", GOOD, flags=re.DOTALL).replace("columns:", "columns: #!")
    assert_refused(tmp_path, text + "kafka_columns: false\n", "columns", "files would be empty")


def test_an_empty_list_of_columns_is_refused(tmp_path):
    text = re.sub(r"columns:\n( .*\n)+", "columns: [] #!\n", GOOD)
    assert_refused(tmp_path, text, "columns", "must not be empty")


@pytest.mark.parametrize(
    ("size", "needed", "short"),
    [
        ("15m", "date, hour, minute", "[date, hour]"),
        ("90m", "date, hour, minute", "[date, hour]"),
        ("6h", "date, hour", "[date]"),
    ],
)
def test_time_partitions_must_tell_windows_apart(tmp_path, size, needed, short):
    text = GOOD.replace("size: 1h", f"size: {size}").replace("partition_by: [date, hour, shop]", "partition_by: {} #!")
    assert_refused(tmp_path, text.replace("{}", short), "partition_by", f"must begin with {needed}:")
    (tmp_path / "orders.yaml").write_text(text.replace("{}", f"[{needed}]"))
    assert load_file(tmp_path / "orders.yaml", {}).time_partitions == tuple(needed.split(", "))


@pytest.mark.parametrize(
    ("size", "zone", "start", "good"),
    [
        ("1h", "Asia/Kolkata", "2024-01-01T00:00:00Z", False),  # 05:30 there
        ("1h", "Asia/Kolkata", "2024-01-01T00:30:00Z", True),
        ("30m", "Asia/Kolkata", "2024-01-01T00:00:00Z", True),
        ("1d", "Europe/Berlin", "2024-01-01T00:00:00Z", False),
        ("1d", "Europe/Berlin", "2023-12-31T23:00:00Z", True),
        ("6h", "Europe/Berlin", "2024-01-01T04:00:00", False),
        ("1d", "America/Sao_Paulo", "2018-11-04T00:00:00", True),  # no midnight there on that day
        ("1d", "America/Sao_Paulo", "2018-11-04T01:00:00", True),  # the same moment
        ("1d", "America/Sao_Paulo", "2018-11-04T02:00:00", False),
        ("1d", "America/Havana", "2024-11-03T05:00:00Z", False),  # the second midnight of that day
        ("1d", "America/Havana", "2024-11-03T04:00:00Z", True),
        ("1h", "Europe/Berlin", "2024-10-27T01:00:00Z", True),  # the second 02:00 of that day
    ],
)
def test_the_first_window_is_aligned_in_local_time(tmp_path, size, zone, start, good):
    text = GOOD.replace("size: 1h", f"size: {size}").replace("Europe/Berlin", zone)
    text = text.replace("start: 2024-01-01T00:00:00", f"start: {start} #!").replace("hour, shop", "hour, minute")
    if good:
        (tmp_path / "orders.yaml").write_text(text)
        load_file(tmp_path / "orders.yaml", {})
    else:
        assert_refused(tmp_path, text, "windows.start", "is not the start of a window")


@pytest.mark.parametrize(
    ("zone", "start", "partitions", "good"),
    [
        ("Asia/Colombo", "2006-04-14T00:00:00", "[date, hour]", False),  # on the 15th 00:30 became 00:00
        ("Asia/Colombo", "2006-04-14T00:00:00", "[date, hour, minute]", True),
        ("Asia/Colombo", "2006-04-16T00:00:00", "[date, hour]", True),
        ("Australia/Lord_Howe", "1990-01-01T00:00:00", "[date, hour]", True),  # half an hour back, at a full hour
    ],
)
def test_no_two_windows_may_share_a_directory(tmp_path, zone, start, partitions, good):
    text = GOOD.replace("Europe/Berlin", zone).replace(
        "partition_by: [date, hour, shop]", f"partition_by: {partitions} #!"
    )
    text = text.replace("start: 2024-01-01T00:00:00", f"start: {start}")
    if good:
        (tmp_path / "orders.yaml").write_text(text)
        load_file(tmp_path / "orders.yaml", {})
    else:
        wanted = "2006-04-14T18:00Z and 2006-04-14T19:00Z would share date=2006-04-15/hour=00"
        assert_refused(tmp_path, text, "partition_by", wanted)


def test_several_problems_are_one_error_with_a_line_each(tmp_path):
    text = GOOD.replace("topic: orders", "topik: orders").replace("type: timestamp", "type: time")
    path = tmp_path / "orders.yaml"
    error, _ = refusal(tmp_path, text)
    assert (error.where, error.field) == (f"{path}:4", "source.topic")
    lines = str(error).splitlines()
    assert lines[0] == f"{path}:4: source.topic: is required"
    assert lines[1] == f"{path}:5: source.topik: unknown key (did you mean topic?)"
    assert lines[2].startswith(f"{path}:14: columns[2].type: type 'time': 'time' is not a type")
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("name: [orders\nowner: x\n", 2, "not YAML"),
        ("name: orders\n\towner: x\n", 2, "not YAML"),
        ("name: orders\n---\nname: other\n", 2, "not YAML: expected a single document"),
        ("name: *nobody\n", 1, "not YAML: found undefined alias"),
        ("name: a\nowner: \x01\n", 2, "not YAML"),
        ("- name: orders\n", 1, "must be a mapping"),
    ],
)
def test_what_is_not_yaml_is_refused_with_its_line(tmp_path, text, line, says):
    error, _ = refusal(tmp_path, text)
    assert error.where == f"{tmp_path / 'orders.yaml'}:{line}", str(error)
    assert says in str(error)


@pytest.mark.parametrize(("opening", "levels"), [("[", 30_000), ("{a: ", 4_000), ("\n- - ", 4_000), ("- ", 30_000)])
def test_what_is_nested_without_end_neither_crashes_nor_hangs(tmp_path, opening, levels):
    error, _ = refusal(tmp_path, opening * levels)
    assert "orders.yaml:" in error.where


def test_an_empty_file_lacks_everything(tmp_path):
    error, _ = refusal(tmp_path, "# nothing yet\n")
    assert error.where == f"{tmp_path / 'orders.yaml'}:1"
    assert "name: is required" in str(error)


def test_bytes_that_are_not_text_are_refused_with_their_line(tmp_path):
    path = tmp_path / "orders.yaml"
    path.write_bytes(b"version: 1\nname: \xff\n")
    with pytest.raises(SpecError, match="is not UTF-8 text") as caught:
        load_file(path, {})
    assert caught.value.where == f"{path}:2"


def test_a_file_that_is_not_there_is_a_spec_error(tmp_path):
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        load_file(tmp_path / "orders.yaml", {})
