"""`land.py` by spark-submit: shared parts of all launchers, and the one that is a plain subprocess."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import psutil

from tidegate.adapters.worker_code import import_path, land_application
from tidegate.core.base.errors import JobFailed, JobKilled
from tidegate.spark.conf import SHORT_LIVED, is_yarn
from tidegate.spark.yarn import end_applications, tagged

SECRETS_FILE = "tidegate-secrets.json"
"""File that `--files` brings to driver and executors: librdkafka settings as one JSON object (engine.secrets)."""
LAST_WORDS = 20
"""Most lines of a job's output to quote in its error."""
_END_S = 5.0
_SHELLS_SAY = {128 + s: s for s in (signal.SIGKILL, signal.SIGTERM, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS)}
_EXIT_CODE = re.compile(r"exit(?:ed with| ?code(?: is)?)[: ]+(?:exitcode: *)?(\d+)\b", re.IGNORECASE)
"""Lines with an exit code: Spark's of its Python driver, YARN's of a container."""
_TROUBLE = re.compile(r"Error\b|Exception\b|^tidegate: | ERROR ")


class SubprocessLauncher:
    """Implements `core.batch.launcher.Launcher` for tests and the command line."""

    def __init__(
        self,
        say: Callable[[str], None],
        binary: str = "spark-submit",
        master: str = "local[2]",
        conf: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        py_files: str = "",
        user: str | None = None,
        options: Sequence[str] = (),
    ) -> None:
        """`say` gets the job's log, line by line; `env` comes on top of this process's environment;
        `user` is who asks HDFS; `options` are further words for spark-submit."""
        self._say, self._binary, self._master = say, binary, master
        self._conf, self._env, self._secrets = dict(conf or {}), dict(env or {}), dict(secrets or {})
        self._py_files, self._user, self._options = py_files, user, tuple(options)
        self._plan_path, self._tag = "", ""

    def run(self, plan_path: str) -> None:
        """Raises JobFailed."""
        self._plan_path = plan_path
        last: deque[str] = deque(maxlen=LAST_WORDS)
        with secrets_file(self._secrets) as files:
            conf = self._conf
            if is_yarn(self._master):
                self._tag = new_tag()
                conf = tagged(conf, self._tag)
            command = submit_command(self._binary, self._master, conf, self._py_files, self._options)
            command += ["--files", files] if files else []
            command += [str(land_application()), *application_arguments(plan_path, self._user)]
            job = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                env=os.environ | local_environment() | self._env,
            )  # fmt: skip
            try:
                for line in _lines(job.stdout or (), last):
                    self._say(line)
                code = job.wait()
            except BaseException:
                self.kill()
                raise
        if code:
            raise job_ended(code, last)

    def kill(self) -> None:
        """End the job's JVM and Python driver, and the application on YARN. One that survives can only write into its
        own attempt's directory."""
        end_processes(processes_of(self._plan_path))
        if self._tag:
            end_applications(self._tag, self._say, os.environ | self._env)


def submit_command(
    binary: str, master: str, conf: Mapping[str, str], py_files: str = "", options: Sequence[str] = ()
) -> list[str]:
    """Command of spark-submit, without an application. Raises JobFailed without that program."""
    settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    carried = ["--py-files", py_files] if py_files else []
    return [absolute_binary(binary), "--master", master, *settings, *options, *carried]


def new_tag() -> str:
    """A new tag, by which one job's application is found on YARN."""
    return f"tidegate-{uuid.uuid4().hex}"


def application_arguments(plan_path: str, user: str | None) -> list[str]:
    """Arguments of land.py and rewrite.py: the plan, and the user on HDFS, if it is another one."""
    return [plan_path, *([user] if user else [])]


def local_environment() -> dict[str, str]:
    """Environment of a driver on this machine: `import_path`, and a short life for the JVM in which spark-class builds
    the driver's command line."""
    found = import_path()
    return found if "SPARK_LAUNCHER_OPTS" in os.environ else found | {"SPARK_LAUNCHER_OPTS": SHORT_LIVED}


def absolute_binary(name: str) -> str:
    """Path of spark-submit. Raises JobFailed without one."""
    found = shutil.which(name)
    if found is None:
        raise JobFailed(
            f"no executable {name} on this worker",
            advice="set AIRFLOW__TIDEGATE__SPARK_BINARY to spark-submit's absolute path",
            retry=False,
        )
    return os.path.abspath(found)


def job_ended(code: int, last: Sequence[str], whose: str = "the Spark driver") -> JobFailed:
    """The error of a job whose process ended with this code: JobKilled where a signal ended it, or by its words the
    process that it watched."""
    sign = signal_of(code) or _signal_in(last)
    if sign is not None:
        return job_killed(f"{whose} was {_by(sign)}", last)
    name = "spark-submit" if whose == "the Spark driver" else whose
    return job_failed(f"{name} ended with exit code {code}", last)


def job_vanished(whose: str, when: str, last: Sequence[str]) -> JobFailed:
    """The error of a job whose process is gone and was not our child: its exit code is unknown."""
    sign = _signal_in(last)
    if sign is not None:
        return job_killed(f"{whose}'s driver was {_by(sign)} {when}", last)
    if any(_TROUBLE.search(line) for line in last):
        return job_failed(f"{whose} ended {when}", last)
    return job_killed(f"{whose} ended {when} and said nothing, as if killed by signal 9 (SIGKILL)", last)


def signal_of(code: int) -> signal.Signals | None:
    """The signal that ended a process. A shell, and spark-submit for its Python driver, say 128 and its number."""
    try:
        return signal.Signals(-code) if code < 0 else _SHELLS_SAY.get(code)
    except ValueError:
        return None


def _signal_in(last: Iterable[str]) -> signal.Signals | None:
    found = [int(m[1]) for line in last for m in _EXIT_CODE.finditer(line)]
    return next((_SHELLS_SAY[code] for code in found if code in _SHELLS_SAY), None)


def _by(sign: signal.Signals) -> str:
    return f"{'killed' if sign == signal.SIGKILL else 'ended'} by signal {int(sign)} ({sign.name})"


def job_killed(what: str, last: Iterable[str]) -> JobKilled:
    """The error with the lines that the job wrote before."""
    return JobKilled(_quoting(what, last))


def job_failed(what: str, last: Iterable[str], retry: bool = True) -> JobFailed:
    """The error with the job's own last words."""
    last = list(last)
    return JobFailed(_quoting(what, last) if last else f"{what} without a word", retry=retry)


def _quoting(what: str, last: Iterable[str]) -> str:
    words = "\n".join(f"  | {line}" for line in last)
    return f"{what}; its last words:\n{words}" if words else what


@contextmanager
def secrets_file(secrets: Mapping[str, str]) -> Iterator[str | None]:
    """A file for `--files`, readable by this user only and gone afterwards; None if there is nothing to hide."""
    if not secrets:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:  # 0700
        path = os.path.join(folder, SECRETS_FILE)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(dict(secrets), file)
        yield path


def processes_of(plan_path: str) -> list[psutil.Process]:
    """Our descendants with the plan in their arguments: JVM and Python driver.

    Ask before the JVM is killed: its orphaned driver is no descendant any more.
    """
    if not plan_path:
        return []
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if plan_path in process.cmdline():
                found.append(process)
        except psutil.Error:
            continue
    return found


def end_processes(processes: Iterable[psutil.Process]) -> None:
    """Send SIGTERM, then SIGKILL to those that stay."""
    processes = list(processes)
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            try:
                process.send_signal(sign)
            except psutil.NoSuchProcess:
                pass
        let_end(processes, _END_S)
        processes = [process for process in processes if _alive(process)]


def let_end(processes: Sequence[psutil.Process], seconds: float) -> None:
    """Return when all of them have ended, or after so long."""
    deadline = time.monotonic() + seconds
    while any(map(_alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)


def _alive(process: psutil.Process) -> bool:
    # psutil's own wait would take the exit code from the process's parent
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _lines(output: Iterable[str], last: deque[str]) -> Iterator[str]:
    for raw in output:
        line = raw.rstrip()
        if line:
            last.append(line)
            yield line
