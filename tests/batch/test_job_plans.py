"""Plans of jobs: one type for each kind, in the plain form that 0.1.0 wrote and reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidegate.core.batch.jobs import (
    ApplyPlan,
    IngestPlan,
    JobPlan,
    MergePlan,
    RedrivePlan,
    ReopenPlan,
    ReplayPlan,
    dumps_plan,
    loads_plan,
)

PART = (
    '{"batch_id":7,"clock_ms":5,"floor":{"closed":[],"low_ms":0,"reroute_ms":null},"pinned":null,'
    '"ranges":[{"end":3,"partition":0,"start":0,"topic":"t"}],"rules_version":3,"sources":[]}'
)
ENTRY = (
    '{"bytes":9,"checksum":1,"kind":"data","max_event_ms":null,"min_event_ms":null,'
    '"partitions":[{"max_offset":1,"min_offset":0,"partition":0,"rows":2}],"path":"f","rows":2,"values":[],"window_ms":0}'
)
SOURCE = f'{{"batch_id":0,"entry":{ENTRY},"uris":["f"]}}'
MERGE = f'[{{"columns":null,"sources":[{SOURCE}],"stem":"m"}}]'


def text(**says: str) -> str:
    """As 0.1.0 wrote it: every field of every kind."""
    whole = {
        "attempt": '"a"', "attempt_dir": '"file:///a"', "batch_id": "0", "bootstrap": "{}", "copies": "[]",
        "epoch": "2", "known": '{"values":[],"windows":[]}', "late": "[]", "merges": "[]", "mode": '""', "nonce": '"n"',
        "parts": "[]", "pipeline": "{}", "rules_version": "3", "spec_version": "4", "targets": "[]", "topic": '"t"',
        "topic_id": '""', "window_ms": "null",
    } | says  # fmt: skip
    return "{" + ",".join(f'"{name}":{value}' for name, value in sorted(whole.items())) + "}"


READ = {"bootstrap": '{"bootstrap.servers":"b"}', "topic_id": '"id"', "parts": f"[{PART}]"}
TARGET = '{"attempt":"a","attempt_dir":"d","epoch":1,"nonce":"n","parts":[0],"taken":[],"window_ms":0}'
COPY = f'{{"columns":null,"source":{SOURCE},"wanted":[[1,0]],"window_ms":0}}'
WRITTEN: dict[type[JobPlan], str] = {
    IngestPlan: text(mode='"ingest"', batch_id="7", **READ),
    RedrivePlan: text(mode='"redrive"', batch_id="7", **READ),
    ReplayPlan: text(mode='"replay"', window_ms="0", targets=f"[{TARGET}]", copies=f"[{COPY}]", **READ),
    MergePlan: text(mode='"merge"', window_ms="0", merges=MERGE),
    ReopenPlan: text(
        mode='"reopen"', window_ms="0", merges=MERGE, late=MERGE, known='{"values":[[["s","a"]]],"windows":[[0,[0]]]}'
    ),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_what_0_1_0_wrote_is_a_job_of_its_kind_and_is_written_as_it_was(kind: type[JobPlan]) -> None:
    plan = loads_plan(WRITTEN[kind])
    assert type(plan) is kind
    assert dumps_plan(plan) == WRITTEN[kind]


APPLY = text(
    mode='"apply"', first="2", last="3", key='["id"]', buckets="64", purged_below="[1,2,0]",
    events='[{"batch_id":2,"bytes":9,"rows":4,"uri":"e"}]',
    base='[{"files":[{"bytes":9,"rows":4,"uri":"f"}],"number":7}]',
    columns='[{"name":"_bucket","of":"","type":"int"},{"name":"id","of":"id","type":"bigint"}]',
    fields='[["_bucket",1],["id",2]]', target_file_size="100",
)  # fmt: skip


def test_the_plan_of_an_apply_keeps_its_form() -> None:
    plan = loads_plan(APPLY)
    assert isinstance(plan, ApplyPlan)
    assert dumps_plan(plan) == APPLY
    assert (plan.purged_below, plan.fields, plan.base[0].files[0].rows) == ((1, 2, 0), (("_bucket", 1), ("id", 2)), 4)


def changed(kind: type[JobPlan], **says: Any) -> str:
    return json.dumps({**json.loads(WRITTEN[kind]), **says})


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (
            changed(MergePlan, mode="odd"),
            r"mode .odd., this release knows ingest, .*, reopen, apply",
        ),
        (changed(MergePlan, deletes=[]), r"unknown \['deletes'\]: a newer release wrote it"),
        (changed(MergePlan, deletes=None), r"unknown \['deletes'\]: a newer release wrote it"),
        (changed(MergePlan, parts=json.loads(f"[{PART}]")), r"MergePlan: unknown \['parts'\]"),
        (changed(IngestPlan, late=json.loads(MERGE)), r"IngestPlan: unknown \['late'\]"),
        ('{"attempt":"a"}', "not a plan of a job: 'mode'"),
        ("[]", "not a plan of a job"),
        ("{", "Expecting"),
        (changed(IngestPlan, mode=["ingest"]), "not a plan of a job"),
    ],
)
def test_a_plan_is_carried_out_as_it_was_meant_or_not_at_all(written: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        loads_plan(written)
