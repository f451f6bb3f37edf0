"""Whole jobs on a real broker: in this process, and through spark-submit."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import confluent_kafka
import duckdb
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from engine_fixtures import DAY_ONE, all_rows, attempt_path, event, job_plan, pipeline

from dev.stack.java import find_java
from dev.stack.places import Places
from dev.stack.spark import recommended_conf
from dev.stack.topics import create_topic
from spark_jobs.engine.failures import JobError
from spark_jobs.engine.job import run_plan
from tests.real_kafka import eventually
from tidegate.core.base.offsets import Interval, OffsetRange
from tidegate.core.base.plain import from_plain, loads, to_plain
from tidegate.core.batch.jobs import IngestPlan, dumps_plan
from tidegate.core.files.receipt import DATA, DIRTY, Failure, Receipt, arithmetic_errors
from tidegate.core.spec.pipeline import RAW_PARTS, Column, EventTime, Format, Pipeline
from tidegate.sources.kafka.control import KafkaSource
from tidegate.storage import LocalStorage

ROOT = Path(__file__).parents[2]
ODD = [b"", b"a\nb\r\n", b'{"at":1}{"at":2}', b"\xff\x00", None, b"\xef\xbb\xbf{}"]


@pytest.fixture
def topic(kafka) -> tuple[dict[str, str], str]:
    settings = {"bootstrap.servers": kafka.kafka_bootstrap}
    name = f"engine-{uuid.uuid4().hex[:12]}"
    wanted = NewTopic(name, 2, 1, config={"retention.ms": "-1", "max.message.bytes": "20000000"})
    create_topic(settings, wanted)
    return settings, name


def produce(settings: dict[str, str], name: str, partition: int, values: list[bytes | None]) -> None:
    producer = Producer(settings | {"message.max.bytes": "20000000"})
    for value in values:
        producer.produce(name, value, b"key", partition, timestamp=DAY_ONE)
    assert producer.flush(60) == 0


def plan_of(tmp_path: Path, topic: tuple[dict[str, str], str], **changes: object) -> IngestPlan:
    """Everything that the topic holds now."""
    settings, name = topic
    spec = pipeline(tmp_path)
    spec = replace(spec, source=replace(spec.source, topic=name, gaps="allow", **changes))
    state = KafkaSource(settings, spec.source.isolation).look(name)
    plan = job_plan(spec, [])
    ranges = tuple(OffsetRange(name, p, o.log_start, o.last_stable_offset) for p, o in sorted(state.partitions.items()))
    return replace(
        plan, topic=name, topic_id=state.topic_id, bootstrap=settings, parts=(replace(plan.parts[0], ranges=ranges),)
    )


def check_coordinates(plan: IngestPlan, receipt: Receipt) -> None:
    """Every planned offset is in exactly one file or in a gap."""
    met = [(r["_partition"], r["_offset"]) for kind in (DATA, DIRTY) for r in all_rows(plan, receipt, kind)]
    met += [(r.range.partition, o) for r in receipt.ranges for g in r.gaps for o in range(g.start, g.end)]
    assert sorted(met) == [(r.partition, o) for r in plan.parts[0].ranges for o in range(r.start, r.end)]


def marked(settings: dict[str, str], name: str) -> bool:
    """Whether no transaction is open any more: its marker is written after the producer has been answered."""
    partitions = KafkaSource(settings, "read_committed").look(name).partitions.values()
    return all(p.last_stable_offset == p.high_watermark for p in partitions)


def test_transactions_leave_gaps_and_odd_bytes_shift_nothing(topic, tmp_path):
    settings, name = topic
    produce(settings, name, 0, [event(count=1), *ODD, event(count=2)])
    for finish in ("abort_transaction", "commit_transaction"):
        producer = Producer(settings | {"transactional.id": uuid.uuid4().hex})
        producer.init_transactions(30)
        producer.begin_transaction()
        for i in range(3):
            producer.produce(name, event(count=10 + i), partition=0)
        producer.flush(30)
        getattr(producer, finish)(30)
        eventually(lambda: marked(settings, name))
    produce(settings, name, 0, [event(count=3)])
    produce(settings, name, 1, [event(count=4)] * 3)
    plan = plan_of(tmp_path, topic)
    receipt = run_plan(plan, LocalStorage())
    assert arithmetic_errors(receipt, plan.parts[0].ranges, "allow") == []
    # 8 records, 3 aborted and their marker, 3 committed and their marker, 1 record
    assert receipt.ranges[0].gaps == (Interval(8, 12), Interval(15, 16))
    mine = [r["count"] for r in all_rows(plan, receipt, DATA) if r["_partition"] == 0]
    assert mine == [1, 2, 10, 11, 12, 3]
    assert [r["raw_value"] for r in all_rows(plan, receipt, DIRTY)] == ODD
    check_coordinates(plan, receipt)

    again = run_plan(replace(plan, attempt_dir=plan.attempt_dir + "2"), LocalStorage())
    assert again.ranges == receipt.ranges
    assert sum(f.checksum for f in again.files) == sum(f.checksum for f in receipt.files)


def test_raw_records_come_with_their_headers(topic, tmp_path):
    settings, name = topic
    sent = [
        (None, b"v0", None),
        (b"k", None, []),
        (b"", b"", [("h", b"\x00\xff"), ("h", None), ("", b"")]),
        (b"\xff", b"a\nb", [("\u00fc" * 300, b"x" * 5000)]),
    ]
    producer = Producer(settings)
    for key, value, headers in sent:
        producer.produce(name, value, key, 0, timestamp=DAY_ONE, headers=headers)
    assert producer.flush(60) == 0
    columns = tuple(Column(name=part, type=types[0], path=f"$.{part}") for part, types in RAW_PARTS.items())
    plan = plan_of(tmp_path, topic)
    raw = replace(
        from_plain(Pipeline, plan.pipeline),
        format=Format("raw"), columns=columns, event_time=EventTime(None), partition_by=("date", "hour"),
    )  # fmt: skip
    receipt = run_plan(replace(plan, pipeline=to_plain(raw)), LocalStorage())
    found = all_rows(plan, receipt, DATA)
    assert [(r["key"], r["value"]) for r in found] == [(key, value) for key, value, _ in sent]
    headers = [None if r["headers"] is None else [(h["name"], h["value"]) for h in r["headers"]] for r in found]
    assert headers == [h or None for _, _, h in sent]  # Kafka does not tell no headers from none


MANY = 100


def test_a_header_whose_name_is_no_text_stops_nothing(topic, tmp_path):
    """Nor does it end the process: Python forgets to look at the client's error where a call has been made often."""
    settings, name = topic
    produce(settings, name, 0, [b"before"] * MANY)
    _produce_with_header(settings, name, b"\xff\xfe")
    produce(settings, name, 0, [b"after"])
    plan = plan_of(tmp_path, topic)
    columns = (
        Column(name="value", type="binary", path="$.value"),
        Column(name="headers", type=RAW_PARTS["headers"][0], path="$.headers"),
    )
    raw = replace(
        from_plain(Pipeline, plan.pipeline),
        format=Format("raw"), columns=columns, event_time=EventTime(None), partition_by=("date", "hour"),
    )  # fmt: skip
    receipt = run_plan(replace(plan, pipeline=to_plain(raw)), LocalStorage())
    found = sorted((r["_offset"], r["value"], r["headers"]) for r in all_rows(plan, receipt, DATA))
    before = [(n, b"before", None) for n in range(MANY)]
    assert found == [*before, (MANY, b"value", [{"name": None, "value": None}]), (MANY + 1, b"after", None)]


def _produce_with_header(settings: dict[str, str], topic: str, header: bytes) -> None:
    """By the C library itself: its Python side takes text only."""
    (library,) = Path(confluent_kafka.__file__).parents[1].glob("confluent_kafka.libs/librdkafka-*.so*")
    c, pointer, size, error = (
        ctypes.CDLL(str(library)),
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.create_string_buffer(512),
    )
    for function in (c.rd_kafka_conf_new, c.rd_kafka_new, c.rd_kafka_headers_new):
        function.restype = pointer
    conf = pointer(c.rd_kafka_conf_new())
    for key, value in settings.items():
        assert c.rd_kafka_conf_set(conf, key.encode(), value.encode(), error, size(len(error))) == 0
    client = pointer(c.rd_kafka_new(0, conf, error, size(len(error))))
    headers = pointer(c.rd_kafka_headers_new(size(1)))
    assert c.rd_kafka_header_add(headers, header, ctypes.c_ssize_t(len(header)), b"v", ctypes.c_ssize_t(1)) == 0
    # tags of the variable arguments: 1 topic, 3 partition, 4 value, 7 flags (2: copy), 8 timestamp, 10 headers, 0 end
    sent = c.rd_kafka_producev(client, 1, topic.encode(), 3, ctypes.c_int32(0), 4, b"value", size(5), 7, 2,
                               8, ctypes.c_int64(DAY_ONE), 10, headers, 0)  # fmt: skip
    assert (sent, c.rd_kafka_flush(client, 30_000)) == (0, 0)
    c.rd_kafka_destroy(client)


def test_uncommitted_records_are_read_only_if_the_spec_says_so(topic, tmp_path):
    settings, name = topic
    producer = Producer(settings | {"transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, event(count=1), partition=0)
    producer.flush(30)
    assert run_plan(plan_of(tmp_path / "a", topic), LocalStorage()).read_rows == 0
    assert run_plan(plan_of(tmp_path / "b", topic, isolation="read_uncommitted"), LocalStorage()).read_rows == 1
    producer.abort_transaction(30)


def test_a_record_larger_than_a_fetch_arrives(topic, tmp_path):
    settings, name = topic
    produce(settings, name, 1, [event(count=1), event(count=2, filler="x" * 12_000_000), event(count=3)])
    plan = plan_of(tmp_path, topic)
    receipt = run_plan(plan, LocalStorage())
    assert [r["count"] for r in all_rows(plan, receipt, DATA)] == [1, 2, 3]


def test_a_recreated_topic_is_noticed(topic, tmp_path):
    settings, name = topic
    produce(settings, name, 0, [event()])
    plan = replace(plan_of(tmp_path, topic), topic_id="another")
    with pytest.raises(JobError, match="planned was another"):
        run_plan(plan, LocalStorage())


def submit(plan: IngestPlan, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    uri = f"file://{tmp_path}/plan.json"
    LocalStorage().write_new(uri, dumps_plan(plan).encode())
    return spark_submit(tmp_path, str(ROOT / "spark_jobs" / "land.py"), uri)


def spark_submit(tmp_path: Path, *application: str, path: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """`path` comes first on PYTHONPATH."""
    conf = [f"--conf={k}={v}" for k, v in recommended_conf(Places.of_checkout()).items()]
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]", *conf]
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "PYTHONPATH": os.pathsep.join([*path, str(ROOT), str(ROOT / "plugins")]),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_DIRS": str(tmp_path / "spark"),
    }
    return subprocess.run(
        [*command, *application],
        capture_output=True, text=True, env=environment, timeout=240, cwd=tmp_path,
    )  # fmt: skip


def test_spark_submit(topic, tmp_path):
    settings, name = topic
    count = 60_000  # two tasks
    produce(settings, name, 0, [event(count=i, site=f"s{i % 3}") for i in range(count)])
    produce(settings, name, 1, [*ODD, event(count=1)])
    plan = plan_of(tmp_path / "table", topic)
    done = submit(plan, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    receipt = loads(Receipt, (attempt_path(plan) / "_receipt.json").read_bytes())
    assert arithmetic_errors(receipt, plan.parts[0].ranges, "forbid") == []
    assert (receipt.ranges[0].data, receipt.ranges[1].dirty) == (count, len(ODD))
    assert {f.path.split("part-")[1][:5] for f in receipt.files} == {"00000", "00001"}
    listed = sorted(str(p.relative_to(attempt_path(plan))) for p in attempt_path(plan).rglob("*.parquet"))
    assert listed == [f.path for f in receipt.files]
    files = [str(attempt_path(plan) / f.path) for f in receipt.files if f.kind == DATA]
    query = "select count(*), count(distinct (_partition, _offset)), min(_kafka_ts)::varchar from read_parquet(?)"
    with duckdb.connect() as connection:
        assert connection.execute(query, [files]).fetchall() == [(count + 1, count + 1, "2013-01-05 00:00:00+00")]


def test_spark_submit_says_why_it_failed(topic, tmp_path):
    settings, name = topic
    produce(settings, name, 0, [event()])
    plan = plan_of(tmp_path / "table", topic)
    spec = plan.pipeline | {"format": {"type": "json", "unknown_fields": "fail"}}
    produce(settings, name, 0, [event(odd=1)])
    ranges = (OffsetRange(name, 0, 0, 2),)
    done = submit(replace(plan, pipeline=spec, parts=(replace(plan.parts[0], ranges=ranges),)), tmp_path)
    assert done.returncode == 1
    # spark-submit passes both of its Python driver's streams on to its own standard output
    assert done.stdout.strip().splitlines()[-1].startswith("tidegate: unknown field 'odd'"), done.stdout
    failure = loads(Failure, (attempt_path(plan) / "failure.json").read_bytes())
    assert (failure.field, failure.partition, failure.offset, failure.retry) == ("odd", 0, 1, False)
    assert not (attempt_path(plan) / "_receipt.json").exists()


IN_TURN = """
import sys, time
from spark_jobs import land
from spark_jobs.engine.failures import last_line
from spark_jobs.engine.failures import JobError
from tidegate.storage import for_uri
from tidegate.core.batch.jobs import loads_plan

context = land.new_context("plans in turn")
for uri in sys.argv[1:]:
    began = time.monotonic()
    try:
        print(land.carry_out(loads_plan(for_uri(uri).read(uri)), for_uri(uri), context, for_uri))
    except JobError as e:
        print("refused after", round(time.monotonic() - began), "seconds:", last_line(e.failure))
context.stop()
"""
FATE = """
import os, signal, sys, time
done = 0

def meet(event, arguments):
    global done
    if event != "open" or not isinstance(arguments[0], str) or arguments[1] != "xb":
        return
    if "part-00001-" not in arguments[0]:
        return
    if "/held/" in arguments[0]:
        time.sleep(600)
    done += 1
    if done == 3:
        try:
            open({mark!r}, "x").close()
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

if any(word == "spark_jobs.daemon" for word in sys.orig_argv):
    sys.addaudithook(meet)
"""


def test_a_killed_worker_costs_one_try_and_a_failure_for_good_ends_the_job(topic, tmp_path):
    """Two plans in one driver. A worker of the first dies by `kill -9` with files written. A task of the second meets a
    field that nobody knows, while the other would take ten minutes."""
    settings, name = topic
    for partition in (0, 1):
        produce(settings, name, partition, [event(count=i, site=f"s{i % 4}") for i in range(400)])
    plan = plan_of(tmp_path / "killed", topic)
    spec = from_plain(Pipeline, plan.pipeline)
    spec = replace(spec, ingest=replace(spec.ingest, task_records=401))
    killed = replace(plan, pipeline=to_plain(spec))
    produce(settings, name, 0, [event(odd=1)])
    held = plan_of(tmp_path / "held", topic)
    strict = replace(spec, format=replace(spec.format, unknown_fields="fail"))
    held = replace(held, pipeline=to_plain(replace(strict, sink=from_plain(Pipeline, held.pipeline).sink)))
    uris = []
    for plan in (killed, held):
        uris.append(plan.attempt_dir + ".json")
        LocalStorage().write_new(uris[-1], dumps_plan(plan).encode())
    (tmp_path / "sitecustomize.py").write_text(FATE.format(mark=str(tmp_path / "died")))
    (tmp_path / "in_turn.py").write_text(IN_TURN)
    done = spark_submit(tmp_path, str(tmp_path / "in_turn.py"), *uris, path=[str(tmp_path)])
    said = done.stdout + done.stderr
    assert (tmp_path / "died").exists(), said[-3000:]
    assert "; Spark runs it again, try 2 of 4" in said, said[-3000:]

    receipt = loads(Receipt, (attempt_path(killed) / "_receipt.json").read_bytes())
    assert arithmetic_errors(receipt, killed.parts[0].ranges, "forbid") == []
    check_coordinates(killed, receipt)
    assert len({f.path.split("part-")[1][:5] for f in receipt.files}) == 2
    there = {str(p.relative_to(attempt_path(killed))) for p in attempt_path(killed).rglob("*.parquet")}
    left = there - {f.path for f in receipt.files}
    assert left, "of the attempt that was killed"
    assert {path.split("part-")[1][:5] for path in left} == {"00001"}

    (line,) = [line for line in said.splitlines() if line.startswith("refused after")]
    assert "unknown field 'odd'" in line
    assert int(line.split()[2]) < 60, line
    failure = loads(Failure, (attempt_path(held) / "failure.json").read_bytes())
    assert (failure.field, failure.partition, failure.offset, failure.retry) == ("odd", 0, 400, False)
    assert not (attempt_path(held) / "_receipt.json").exists()


def test_secrets_come_in_a_file_and_stay_out_of_sight(topic, tmp_path, monkeypatch):
    settings, name = topic
    produce(settings, name, 0, [event()])
    secrets = tmp_path / "secrets.json"
    secrets.write_text(json.dumps({"sasl.password": "hunter2", "bootstrap.servers": settings["bootstrap.servers"]}))
    monkeypatch.setenv("TIDEGATE_SECRETS_FILE", str(secrets))
    plan = replace(plan_of(tmp_path / "table", topic), bootstrap={"bootstrap.servers": "127.0.0.1:1"})
    receipt = run_plan(plan, LocalStorage())
    assert receipt.rows == 1
    secrets.write_text('{"sasl.password": hunter2}')
    with pytest.raises(JobError, match="secrets file") as e:
        run_plan(replace(plan, attempt_dir=plan.attempt_dir + "2"), LocalStorage())
    assert "hunter2" not in str(e.value.failure)
