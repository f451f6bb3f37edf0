"""Every wrong addition to a good spec is refused with its file, line and field; every key has a refusal."""

from __future__ import annotations

import re

import pytest

from tests.spec.test_spec_refusals import ONE_VALUE
from tests.spec.test_spec_windowed import REFUSED as OF_TABLES
from tests.spec.test_spec_windowless import COPY_REFUSED
from tests.spec.test_spec_windowless import REFUSED as OF_MIRRORS
from tests.spec_texts import GOOD, assert_refused
from tidegate.spec.pydantic_errors import all_keys

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
    ("ingest: {task_records: 0} #!", "ingest.task_records", "greater than 0"),
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
            ":begin is not one of :start, :end, :start_ms, :end_ms",
        ),
        ("from: sql, conn_id: c, query: 'select :strat'", "query", "(did you mean start?)"),
        ("from: http, conn_id: counts, path: /counts", "path", "must say which window it is about: {start}"),
        ("from: http, conn_id: counts, path: '/{hour}'", "path", "{hour} is not one of {start}, {end}"),
        ("from: http, conn_id: counts, path: '/{}'", "path", "{} is not one of"),
        ("from: http, conn_id: counts, path: '/{start!r}'", "path", "names in braces take no format"),
        ("from: http, conn_id: counts, path: '/{start:>99}'", "path", "names in braces take no format"),
        ("from: http, conn_id: counts, path: '/{start.year}'", "path", "{start.year} is not one of"),
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
SHOP = "name: shop, conn_id: pg, table: t"
ADDED += [
    (f"deliver: [{{{lines}}}] #!", f"deliver[0].{key}", says)
    for lines, key, says in [
        (SHOP, "kind", "is required"),
        (f"kind: postgres, {SHOP}", "kind", "(did you mean postgresql?)"),
        ("kind: postgresql, conn_id: pg, table: t", "name", "is required"),
        ("kind: postgresql, name: A b, conn_id: pg, table: t", "name", "must be lower-case letters"),
        ("kind: mariadb, name: shop, conn_id: '', table: t", "conn_id", "id of an Airflow connection"),
        ("kind: mariadb, name: shop, conn_id: pg, table: a.b.c", "table", "must be table or schema.table"),
        (f"kind: mariadb, {SHOP}, since: soon", "since", "must be"),
        (f"kind: mariadb, {SHOP}, sla: soon", "sla", "a number with a unit"),
        (f"kind: mariadb, {SHOP}, slo: 1h", "slo", "unknown key"),
    ]
]
ADDED += [
    (f"deliver:\n- {{kind: mariadb, {SHOP}}}\n- {{kind: mariadb, {second}}} #!", f"deliver[1].{key}", says)
    for second, key, says in [
        ("name: shop, conn_id: pg, table: u", "name", "shop is there already"),
        ("name: other, conn_id: pg, table: t", "table", "t is the table of shop already"),
    ]
]

CLUSTER = "kind: cluster, name: other, conn_id: hive_there, table: lake.orders, location: hdfs://there/lake/orders"
BESIDE = f"{CLUSTER}, side_tables: [dirty]"
SECOND = "kind: cluster, name: third, conn_id: hive_there, table: lake.orders__dirty, location: hdfs://there/third"
ADDED += [
    (f"deliver:\n- {{{BESIDE}}}\n- {{{SECOND}}} #!", "deliver[1].table", "lake.orders__dirty is the table of other"),
    (f"deliver:\n- {{{BESIDE}}}\n- {{{SECOND}, keep: 0d}} #!", "deliver[1].keep", "must be greater than zero"),
]

CLICKHOUSE = "{kind: clickhouse, name: ch, conn_id: ch, table: hours, order_by: [nowhere]}"
ADDED += [(f"deliver: [{CLICKHOUSE}] #!", "deliver[0].order_by", "nowhere is not a column of the pipeline")]
LONG_NAME = f"{{kind: postgresql, name: pg, conn_id: pg, table: {'t' * 64}}}"
ADDED += [(f"deliver: [{LONG_NAME}] #!", "deliver[0].table", "a name there has 63 characters at most")]
NO_QUORUM = "{kind: clickhouse, name: ch, conn_id: ch, table: hours, quorum: 0}"
ADDED += [(f"deliver: [{NO_QUORUM}] #!", "deliver[0].quorum", "greater than or equal to 1")]

ADDED += [
    (f"deliver: [{{{lines}}}] #!", f"deliver[0].{key}", says)
    for lines, key, says in [
        (CLUSTER.partition(", location")[0], "location", "is required"),
        (CLUSTER.replace("hdfs://there/lake/orders", "there"), "location", "must be a URI"),
        (CLUSTER.replace("hdfs://there/lake/orders", "file:///lake/orders/copy"), "location", "is the pipeline's own"),
        (CLUSTER.replace("lake.orders,", "orders,"), "table", "write it as database.orders"),
        (f"{CLUSTER}, metastore_conn_id: ''", "metastore_conn_id", "id of an Airflow connection"),
        (f"{CLUSTER}, object_store_conn_id: ''", "object_store_conn_id", "id of an Airflow connection"),
        (f"{CLUSTER}, object_store_conn_id: aws", "object_store_conn_id", "is for a location in an object store"),
        (f"{CLUSTER}, user: a b", "user", "must be the name of a user of HDFS"),
        (f"{CLUSTER}, rate: fast", "rate", "such as 256MB"),
        (f"{CLUSTER}, success: maybe", "success", "must be true or false"),
        (f"{CLUSTER}, keep: 0d", "keep", "must be greater than zero"),
        (f"{CLUSTER}, side_tables: late", "side_tables", "must be a list"),
        (f"{CLUSTER}, side_tables: [latte]", "side_tables[0]", "must be late or dirty"),
        (f"kind: postgresql, {SHOP}, side_tables: [late]", "side_tables", "unknown key"),
        (f"kind: postgresql, {SHOP}, rate: 1MB", "rate", "unknown key"),
    ]
]


@pytest.mark.parametrize(
    ("more", "field", "says"),
    [
        (", metastore_conn_id: ms", "metastore_conn_id", "is for Hive tables; leave it out"),
        (", object_store_conn_id: aws", "object_store_conn_id", "is for a location in an object store"),
    ],
)
def test_what_a_copy_of_an_iceberg_table_does_not_take(tmp_path, more, field, says):
    good = GOOD.replace("  table: lake.orders", "  table: lake.orders\n  kind: iceberg")
    assert_refused(tmp_path, f"{good}deliver: [{{{CLUSTER}{more}}}] #!\n", f"deliver[0].{field}", says)


@pytest.mark.parametrize(("lines", "field", "says"), ADDED)
def test_a_wrong_addition_is_refused_with_line_and_field(tmp_path, lines, field, says):
    assert_refused(tmp_path, f"{GOOD}{lines}\n", field, says)


def test_every_key_that_is_not_a_section_has_a_refusal():
    of_mirrors = (said.partition(": ")[0] for *_, said in OF_MIRRORS + COPY_REFUSED + OF_TABLES)
    fields = [*(field for *_, field, _ in ONE_VALUE + ADDED), *of_mirrors]
    tried = {re.sub(r"\[\d+\]", "", field) for field in fields}
    sections = {key.rpartition(".")[0] for key in all_keys()}
    assert {key for key in all_keys() if key not in sections} - tried - {"ingest.spark.conf"} == set()
