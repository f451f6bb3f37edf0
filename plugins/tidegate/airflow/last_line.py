"""The last line of a failed task's log: what happened, where, and the command to run.

Airflow 2.11 logs the traceback, then "Marking task as ...", then the task's callbacks, then a folded group with the
traceback once more. So the line comes from a callback. It is set on the object that runs, never on the DAG: a task that
announces a callback has its deaths handled by the DAG processor instead of the scheduler.
"""

from __future__ import annotations

import errno
import re

from airflow.models.baseoperator import BaseOperator
from airflow.utils.context import Context
from airflow.utils.state import TaskInstanceState

from tidegate.airflow import failures
from tidegate.core.base.errors import (
    GOES_ON,
    Alarm,
    BatchRefused,
    CatalogueError,
    JobFailed,
    JobKilled,
    LedgerError,
    NotReady,
    SourceError,
    SpecError,
    StorageError,
    TidegateError,
    WrongRevision,
)
from tidegate.core.base.wording import first_line, in_one_line

LONGEST = 900
"""Most characters of the error; the traceback above has all of it."""

ENDED = (
    "ended from outside: marked or cleared by somebody, or its worker is being stopped. Its files stay in a "
    "directory of their own that no one reads"
)

_FOREIGN = (
    (r"sqlalchemy|psycopg2", "a database", "`airflow db check` asks Airflow's, `tidegate doctor` the ledger's"),
    (r"confluent_kafka|cimpl", "Kafka", "`tidegate doctor {pipeline}` asks the brokers"),
    (r"pyhive|thrift|TCLIService", "Hive", "`tidegate doctor {pipeline}` asks Hive"),
    (r"pyiceberg", "Iceberg", "`tidegate doctor {pipeline}` asks the catalogue"),
    (r"hdfs_native|pyarrow", "HDFS", "`tidegate doctor {pipeline}` asks the filesystem"),
)  # fmt: skip
"""Libraries whose errors can pass an adapter: pattern, name, what to do."""

_DISK = {
    errno.ENOSPC: "free space there",
    errno.EDQUOT: "raise the quota, or free space there",
    errno.EACCES: "give Airflow's user the right to it",
    errno.EPERM: "give Airflow's user the right to it",
    errno.EROFS: "mount it writable",
    errno.EMFILE: "raise the limit of open files of Airflow's worker (ulimit -n)",
    errno.ENOMEM: "give the worker more memory, or run fewer tasks at a time on it",
}


def arm(task: BaseOperator) -> None:
    """Make `task`, which is about to run here, end a failed try with its line. Other callbacks come before it."""
    for name in ("on_retry_callback", "on_failure_callback"):
        present = getattr(task, name) or []
        present = list(present) if isinstance(present, list | tuple) else [present]
        if what_to_do not in present:
            setattr(task, name, [*present, what_to_do])


def what_to_do(context: Context) -> None:
    """Write the line to the task's log: Airflow's callback."""
    task, error = context["task"], context.get("exception")
    about = getattr(task, "about", "")
    task.log.error("%s", failed(context, about, error))
    if context["ti"].state != TaskInstanceState.UP_FOR_RETRY and getattr(task, "of", "") != "window":
        failures.note(context, *_in_short(context, about, error))


def _in_short(context: Context, about: str, error: BaseException | str | None) -> tuple[str, str]:
    """The error in one line, and what to do."""
    what, advice, command = explained(error, context["ti"].dag_id.rpartition(".")[0], about)
    return what, "; ".join(filter(None, (advice, to_run(context, advice, command))))


def failed(context: Context, about: str, error: BaseException | str | None) -> str:
    """The line of a failed try. `about`: the batch or window of its work."""
    ti = context["ti"]
    pipeline = ti.dag_id.rpartition(".")[0]
    what, advice, command = explained(error, pipeline, about)
    parts = [f"{subject(context, about)} failed: {what}"]
    if ti.state == TaskInstanceState.UP_FOR_RETRY:
        at = ti.next_retry_datetime().strftime("%H:%M:%SZ")
        parts.append(f"try {ti.try_number} of {ti.max_tries + 1}; the next one begins by itself at about {at}")
        known = command in advice or "`tidegate " in advice
        parts.append("if it goes on failing: " + "; ".join(filter(None, (advice, "" if known else f"run: {command}"))))
        return "; ".join(parts)
    if advice:
        parts.append(f"what to do: {advice}")
    return "; ".join([*parts, to_run(context, advice, command)])


def to_run(context: Context, advice: str, command: str) -> str:
    """The commands of the line, but one that the advice names."""
    commands = [command] if command and command not in (advice or "") else []
    return f"run: {' ; then: '.join([*commands, clear(context)])}"


def terminated(context: Context, about: str) -> str:
    """The line of a try that got SIGTERM."""
    return f"{subject(context, about)} was {ENDED}; to have it run again: {clear(context)}"


def subject(context: Context, about: str) -> str:
    """Subject of the line: task, and batch or window."""
    ti = context["ti"]
    return f"{ti.dag_id} {ti.task_id}" + (f", {about}" if about else "")


def clear(context: Context) -> str:
    """The command that runs this task again; what comes after it in its DAG too."""
    ti, at = context["ti"], context["dag_run"].execution_date.isoformat().replace("+00:00", "Z")
    later = " --downstream" if ti.task_id in ("plan", "write", "ready") else ""
    return f"airflow tasks clear {ti.dag_id} -t '^{ti.task_id}$'{later} -s {at} -e {at} --yes"


def explained(error: BaseException | str | None, pipeline: str, about: str = "") -> tuple[str, str, str]:
    """The error in one line, the advice ("" without any), and the command that shows more."""
    error = _original(error)
    window = _window_in(about)
    look = f"tidegate explain {pipeline} {window}" if window else f"tidegate status {pipeline}"
    ask = f"tidegate doctor {pipeline}"
    if isinstance(error, TidegateError):
        advice = in_one_line(error.advice).removesuffix(f"; {GOES_ON}")  # the line says so itself
        what, advice = (text.replace("<pipeline>", pipeline) for text in (_what(error), advice))
        return what, advice, _command(error, pipeline, look, ask)
    if isinstance(error, MemoryError):
        advice = (
            "give the worker more memory, or lower ingest.max_records, ingest.task_buffer or archive.merge.local_size"
        )
        return "this process had no memory left", advice, ask
    if isinstance(error, OSError):
        return _cut(f"{type(error).__name__}: {error}"), _disk_advice(error), ask
    if isinstance(error, BaseException):
        kind = type(error)
        for modules, whose, advice in _FOREIGN:
            if re.match(modules, kind.__module__):
                return _cut(f"{whose}: {first_line(error)}"), advice.format(pipeline=pipeline), ask
        if kind.__name__ == "TaskDeferralError":
            return (
                _cut(f"the wait in the triggerer ended: {first_line(error)}"),
                "is a triggerer alive? `tidegate doctor`",
                ask,
            )
        if kind.__name__ == "AirflowTaskTerminated":  # it says `Task received SIGTERM signal`
            return ENDED, "", look
        if kind.__module__.startswith("airflow."):  # its own: an expired wait, a state that was set from outside
            return _cut(in_one_line(str(error)) or kind.__name__), "", look
        where = f"{kind.__name__}: {first_line(error)}"
        return _cut(where), "this is a defect: report it with the traceback above", look
    return _cut(in_one_line(str(error or "no reason was given"))), "", look


def _command(error: TidegateError, pipeline: str, look: str, ask: str) -> str:
    if isinstance(error, SpecError):
        in_the_file = error.where or error.field  # else the YAML is valid, and the ledger says what it contradicts
        return "tidegate spec validate" if in_the_file else f"tidegate status {pipeline}"
    if isinstance(error, WrongRevision):
        return "tidegate db revision"
    if isinstance(error, BatchRefused):
        return f"tidegate status {pipeline}"  # its dirty rows are in no table yet: `tidegate dirty` has others
    if isinstance(error, Alarm):
        return f"tidegate repair {pipeline}"
    if isinstance(error, NotReady):
        return look
    if isinstance(error, JobFailed | LedgerError | SourceError | CatalogueError) and error.retry:
        return ask
    if isinstance(error, StorageError) or type(error).__name__ == "ConnectionMissing":
        return ask
    return look


def _original(error: BaseException | str | None) -> BaseException | str | None:
    """The error before `in_airflow_terms` translated it."""
    if isinstance(error, BaseException) and isinstance(error.__context__, TidegateError):
        return error.__context__
    return error


def _what(error: TidegateError) -> str:
    """The message without its advice; only the last line of a job's output."""
    message = str(error.args[0]) if error.args else type(error).__name__
    first, *more = message.splitlines() or [""]
    words = [line.removeprefix("  | ") for line in more if line.startswith("  | ")]
    if words:
        first = first.removesuffix("; its last words:")
        if isinstance(error, JobKilled):  # what it wrote before says nothing of that, except how it ran out of memory
            words = [w for w in words if "memory" in w.lower()]
        return _cut(": ".join(filter(None, (first, _telling(words)))))
    return _cut(in_one_line(message))


def _telling(words: list[str]) -> str:
    """The line that says most: the last of an exception or an error, else the last that is not a mere log line."""
    named = [w for w in words if re.search(r"^\s*(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception)\b| ERROR ", w)]
    other = [w for w in words if not re.search(r" (?:INFO|WARN|DEBUG) |^Setting default log level|^To adjust", w)]
    return in_one_line((named or other or [""])[-1])


def _disk_advice(error: OSError) -> str:
    known = _DISK.get(error.errno or 0)
    if known is None:
        return ""
    place = f" ({error.filename})" if error.filename else ""
    return f"{known}{place}"


def _window_in(about: str) -> str:
    return about.removeprefix("window ") if about.startswith("window ") else ""


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."
