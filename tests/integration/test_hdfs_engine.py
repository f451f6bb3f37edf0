"""A job's files on HDFS: written by the engine, read by the audit's child."""

from __future__ import annotations

import io
import json
import uuid
from dataclasses import replace

import pytest
from engine_fixtures import event, job_plan, pipeline, serving

from dev.stack.info import StackInfo
from spark_jobs import child
from spark_jobs.engine.failures import JobError
from spark_jobs.engine.job import run_plan
from tidegate.core.batch.jobs import ReadPlan
from tidegate.core.target.paths import RECEIPT
from tidegate.storage import HdfsStorage, for_uri

SITES = ("a", "città", "x/y", "%2F", "")
TOPIC = {0: [(n, event(site=SITES[n % len(SITES)], count=n)) for n in range(500)]}


@pytest.fixture
def plan(hdfs: StackInfo) -> ReadPlan:
    location = f"{hdfs.hdfs_uri}/engine/{uuid.uuid4().hex}"
    spec = pipeline("unused")
    return job_plan(
        replace(spec, sink=replace(spec.sink, location=location, workdir=f"{location}/_tidegate")), [(0, 0, 500)]
    )


def told(uris: list[str]) -> list[dict]:
    sink = io.StringIO()
    assert child.main(["footers"], io.StringIO(json.dumps({"ask": uris}) + "\n"), sink) == 0
    return [json.loads(line)["answer"] for line in sink.getvalue().splitlines()]


def test_written_and_audited(plan):
    receipt = run_plan(plan, for_uri(plan.attempt_dir), open_reader=serving(TOPIC, size=250))
    assert (receipt.read_rows, receipt.rows, len(receipt.files)) == (500, 500, len(SITES))
    found = told([f"{plan.attempt_dir}/{file.path}" for file in receipt.files])
    assert [(f["rows"], f["bytes"], f["checksum"]) for f in found] == [
        (f.rows, f.bytes, f.checksum) for f in receipt.files
    ]
    (missing,) = told([f"{plan.attempt_dir}/gone.parquet"])
    assert "PathMissing" in missing["error"]


def test_a_worker_that_fails_leaves_no_receipt(plan):
    storage = HdfsStorage()
    storage.write_new(f"{plan.attempt_dir}/data/date=2013-01-05", b"a file where a directory should be")
    with pytest.raises(JobError, match="a file is where a directory should be"):
        run_plan(plan, storage, open_reader=serving(TOPIC, size=250))
    assert not storage.exists(f"{plan.attempt_dir}/{RECEIPT}")
