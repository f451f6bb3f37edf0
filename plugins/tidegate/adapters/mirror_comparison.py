"""Keyed tables compared with their batches by a child process: see `spark_jobs/handlers/mirror.py`."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate.adapters.child import ByChild, Child
from tidegate.core.base.plain import from_plain, to_plain
from tidegate.core.batch.jobs import ApplyPlan, dumps_plan
from tidegate.core.copy.checksums import Sums, TableKeys
from tidegate.core.mirror.comparison import Compared
from tidegate.core.mirror.jobs import Bucket, EventFile, Position


class TableProcess(ByChild):
    """Table reader (`workflow.audit.keyed.TableReader`) by `spark_jobs/handlers/mirror.py`, which puts the events into
    a folder of this process."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def __init__(self, user: str | None = None, secrets: Mapping[str, str] | None = None) -> None:
        advice = (
            "install tidegate[worker] (pyarrow, numpy) beside this command. The events of all batches wait in TMPDIR "
            "meanwhile: it needs about twice the space of their files"
        )
        self._child = Child("mirror", advice, user=user, work="comparing the table", secrets=secrets)

    def close(self) -> None:
        """Remove the folder, too; the next `begin` makes another one."""
        super().close()
        self._remove_folder()

    def _remove_folder(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
        self._folder = None

    def begin(self, plan: ApplyPlan, buckets: Sequence[int]) -> None:
        self._remove_folder()
        self._folder = tempfile.TemporaryDirectory(prefix="tidegate-audit-")
        mine = replace(plan, attempt_dir=f"file://{self._folder.name}")
        self._ask({"plan": dumps_plan(mine), "buckets": list(buckets)})

    def events(self, files: Sequence[EventFile]) -> str:
        answer = self._ask({"events": [[f.batch_id, f.uri, f.rows, f.bytes, f.n] for f in files]})
        return str(answer["unread"])

    def compare(self, bucket: Bucket, below: Position | None = None) -> Compared:
        files = [[f.uri, f.rows, f.bytes] for f in bucket.files]
        source = {} if below is None else {"below": list(below)}
        return from_plain(Compared, self._ask({"bucket": [bucket.number, files], **source}))

    def greatest(self, files: Sequence[EventFile]) -> Position | None:
        """`workflow.copy.standing.Greatest`."""
        found = self._ask({"greatest": [f.uri for f in files]})["position"]
        return None if found is None else (found[0], found[1], found[2])

    def within(self, keys: Sequence[TableKeys]) -> None:
        self._ask({"within": to_plain(keys)})

    def sums(self, bucket: Bucket) -> Sums:
        files = [[f.uri, f.rows, f.bytes] for f in bucket.files]
        return from_plain(Sums, self._ask({"sums": [bucket.number, files]}))
