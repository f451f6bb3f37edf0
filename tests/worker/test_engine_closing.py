"""Files are closed side by side, and a close that fails is not lost: no receipt without it."""

from __future__ import annotations

import threading

import pytest
from engine_fixtures import event, job_plan, pipeline, serving

from spark_jobs.engine.failures import JobError
from spark_jobs.engine.job import run_plan
from tidegate.core.base.errors import StorageError
from tidegate.core.target.paths import RECEIPT
from tidegate.storage import LocalStorage

TOPIC = {0: [(n, event(site=site)) for n, site in enumerate(("AA", "B6", "DL", "UA"))]}


class Files(LocalStorage):
    """`at_close` is called with the path before a file is closed."""

    def __init__(self, at_close) -> None:
        self._at_close = at_close

    def open_new(self, path):
        file = super().open_new(path)
        at_close = self._at_close

        class Watched:
            closed = False

            def __getattr__(self, name):
                return getattr(file, name)

            def close(self):
                if not self.closed:
                    self.closed = True
                    at_close(path)
                    file.close()

        return Watched()


def test_files_are_closed_side_by_side(tmp_path):
    together = threading.Barrier(4)  # broken, and an error, unless all four are being closed at once
    plan = job_plan(pipeline(tmp_path), [(0, 0, 4)])
    receipt = run_plan(plan, Files(lambda path: together.wait(30)), open_reader=serving(TOPIC))
    assert receipt.rows == 4


def test_a_file_that_cannot_be_closed_is_no_data(tmp_path):
    def fail(path: str) -> None:
        if "site=DL" in path:
            raise StorageError("the last block was not acknowledged")

    plan = job_plan(pipeline(tmp_path), [(0, 0, 4)])
    with pytest.raises(JobError, match="last block") as failed:
        run_plan(plan, Files(fail), open_reader=serving(TOPIC))
    assert failed.value.failure.retry
    assert not LocalStorage().exists(f"{plan.attempt_dir}/{RECEIPT}")
