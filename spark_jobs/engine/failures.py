"""Reports an exception: in `failure.json`, and as the job's last line."""

from __future__ import annotations

from spark_jobs.executor import WRONG_PLATFORM
from tidegate.core.base.errors import TidegateError
from tidegate.core.base.plain import dumps
from tidegate.core.base.storage import Storage
from tidegate.core.files.failure import JobError, refuse
from tidegate.core.files.receipt import Failure
from tidegate.core.target.paths import FAILURE, join

__all__ = ["JobError", "died", "from_exception", "last_line", "refuse", "reported"]

_LOST = {
    "Python worker exited unexpectedly": "a Python worker of the job died",
    "ExecutorLostFailure": "the job lost an executor",
}
"""By Spark's words for it."""
_MEMORY = (
    "unless somebody killed it, memory ran out: `journalctl -k` on its host names what the kernel killed, YARN says "
    "which container was too large; raise spark.executor.memoryOverhead (local master: give the worker or its "
    "container more memory), or lower ingest.max_records"
)

_FULL = "No space left on device"
"""In the words of Java and of Python. A table's own filesystem says so by a StorageError."""
_SPACE = (
    "free space on the disk of that path; the job's own is spark.local.dir (else /tmp) on the hosts of its driver and "
    "workers: `spark.local.dir` in ingest.spark.conf names a larger one; the next try goes on by itself"
)


def from_exception(error: BaseException) -> Failure:
    """Failure to report for any exception; unknown ones are worth another try."""
    if isinstance(error, JobError):
        return error.failure
    if isinstance(error, TidegateError):
        return Failure(str(error.args[0]) if error.args else type(error).__name__, error.advice, retry=error.retry)
    for line in str(error).splitlines():
        if WRONG_PLATFORM in line:
            what, _, advice = line[line.index(WRONG_PLATFORM) :].partition("; what to do: ")
            return Failure(what, advice, retry=False)
    text = " ".join(str(error).split())
    lost = died(text)
    if lost is not None:
        return Failure(lost, _MEMORY, retry=True)
    if _FULL in text:
        at = text.index(_FULL)
        return Failure(f"a disk is full: {text[max(0, at - 200) : at + 200]}", _SPACE, retry=True)
    text = text[:1000]
    return Failure(f"{type(error).__name__}: {text}" if text else type(error).__name__, retry=True)


def died(error: str) -> str | None:
    """What Spark's words for a task's failure say of a process that died; None for any other failure."""
    text = " ".join(error.split())
    for words, what in _LOST.items():
        if words in text:
            return f"{what}: {text[text.index(words) :][:300]}"
    return None


def reported(storage: Storage, attempt_dir: str, error: Exception) -> JobError:
    """`error` as a JobError, written to `failure.json` if that can be."""
    failure = from_exception(error)
    try:
        storage.write_new(join(attempt_dir, FAILURE), dumps(failure).encode())
    except Exception:  # the failure itself is what the caller has to hear of
        pass
    return JobError(failure)


def last_line(failure: Failure) -> str:
    """The failure as one line for people and for the task's log, with what to do about it there."""
    return f"{said(failure)}; what to do: {failure.advice}" if failure.advice else said(failure)


def said(failure: Failure) -> str:
    """What went wrong in one line, for who has an advice of his own."""
    place = [
        f"{name} {value}"
        for name, value in (
            ("partition", failure.partition),
            ("offset", failure.offset),
            ("field", failure.field),
        )
        if value is not None
    ]
    return f"{failure.what} ({', '.join(place)})" if place else failure.what
