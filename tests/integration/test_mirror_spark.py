"""A merge into a keyed table as a Spark job: `land.py` on a plan of mode `apply`, through spark-submit."""

from __future__ import annotations

from pathlib import Path

from tests.integration.submitting import by_submit
from tests.mirror.files import OnDisk
from tests.mirror.histories import Event
from tidegate.core.base.plain import loads
from tidegate.core.batch.jobs import dumps_plan
from tidegate.core.mirror.balance import receipt_errors
from tidegate.core.mirror.counts import Counts, add_up
from tidegate.core.mirror.jobs import ApplyReceipt
from tidegate.storage.local import LocalStorage


def event(key: int, commit: int, batch: int) -> Event:
    return Event((key,), (commit, 0, 0), "u", (f"word {commit}", key), batch, key % 2, commit)


def test_spark_merges_events_into_a_keyed_table(tmp_path: Path) -> None:
    """Enough of them for several tasks of each step."""
    mirror, storage, said = OnDisk(tmp_path, buckets=8), LocalStorage(), list[str]()
    mirror.merge({1: [event(k, 1_000 + k, 1) for k in range(300)]})
    files = mirror.land(2, [event(k % 40_000, 9_000_000 + k, 2) for k in range(110_000)], files=3)
    plan = mirror.plan(files, 2, 2)
    storage.write_new(f"file://{tmp_path}/plans/apply.json", dumps_plan(plan).encode())
    by_submit(said.append).run(f"file://{tmp_path}/plans/apply.json")
    receipt = loads(ApplyReceipt, storage.read(f"{plan.attempt_dir}/_receipt.json"))
    assert any("merged 110,000 events: 39,700 inserted, 300 changed; wrote 40,000 rows of 8 buckets" in s for s in said)
    listing = {f.path: f.bytes for f in storage.list_files(plan.attempt_dir) or ()}
    assert receipt_errors(plan.events, plan.base, receipt, listing) == []
    assert add_up(b.counts for b in receipt.buckets) == Counts(inserted=39_700, changed=300, superseded=70_000)
    mirror.commit(plan, receipt)
    last = {k % 40_000: 9_000_000 + k for k in range(110_000)}
    assert {(e.key[0], e.position[0]) for e in mirror.standing()} == set(last.items())
