"""An executor that the workers' archive was not made for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dev import dist, wheels
from spark_jobs import executor
from spark_jobs.engine.failures import from_exception


def test_what_make_dist_writes_is_what_executors_look_for() -> None:
    assert dist.PLATFORM_FILE == executor.FILE
    assert executor.here() == f"{dist._python_tag()} {wheels.here()}"


def test_an_archive_of_this_platform_or_none_is_fine(tmp_path: Path) -> None:
    executor.check_archive(tmp_path)
    (tmp_path / executor.FILE).write_text(executor.here() + "\n")
    executor.check_archive(tmp_path)


def test_a_task_says_that_the_archive_is_of_another_platform_and_no_retry_helps(tmp_path: Path) -> None:
    package = Path(executor.__file__).parent
    (tmp_path / executor.FILE).write_text("cp311 s390x-glibc\n")
    with pytest.raises(ImportError, match="s390x-glibc") as raised:
        executor.check_archive(tmp_path)
    copied = tmp_path / "archive"
    (copied / "spark_jobs").mkdir(parents=True)
    for name in ("__init__.py", "executor.py"):
        (copied / "spark_jobs" / name).write_bytes((package / name).read_bytes())
    (copied / executor.FILE).write_text("cp311 s390x-glibc\n")
    done = subprocess.run(
        [sys.executable, "-c", "import spark_jobs.rewrite"], cwd=copied, capture_output=True, text=True
    )
    assert str(raised.value) in done.stderr
    told = (
        f"Job aborted due to stage failure: Task 0 failed: Traceback\n  File x\n{done.stderr}\n\tat org.apache.spark\n"
    )
    failure = from_exception(RuntimeError(told))
    assert failure.what == f"the workers' archive was made for cp311 s390x-glibc, this executor is {executor.here()}"
    assert failure.advice.startswith(f"make dist ARGS='--workers {wheels.here()}'")
    assert not failure.retry
