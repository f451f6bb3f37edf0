"""A launcher that hands plans to a long-lived Spark driver on this machine, and starts one on demand.

`spark_jobs/session.py` is the other side and describes the conversation. A session belongs to one user of this
machine and to one way of calling spark-submit; it takes one plan at a time. Nothing about a batch depends on it: a
session that dies or falls silent is a failed job, the next try has the next epoch and another directory.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.util
import json
import os
import select
import socket
import subprocess
import sys
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from tidegate.adapters.worker_code import land_application
from tidegate.core.base.errors import JobFailed
from tidegate.core.batch.launcher import Launcher
from tidegate.spark.connection import CLIENT, SparkConnection, private_folder, refused
from tidegate.spark.launcher import LAST_WORDS, end_processes, job_failed, job_vanished, secrets_file

SOCKET, LOCK = "socket", "starting"
_LAST_LINES_S = 5.0
_LONGEST_PATH = 100  # of a UNIX socket, about
_ENVIRONMENT = ("HADOOP_CONF_DIR", "JAVA_HOME", "KRB5CCNAME", "PYSPARK_PYTHON", "PYTHONPATH", "SPARK_CONF_DIR",
                "SPARK_HOME", "SPARK_LOCAL_DIRS", "SPARK_LOCAL_IP")  # fmt: skip
_LIBRARIES = ("pyspark", "pyarrow", "duckdb", "confluent-kafka", "hdfs-native", "obstore")
_DETACHED = 'log=$1; shift; "$@" >"$log" 2>&1 </dev/null & echo $!'


@dataclass(frozen=True)
class Patience:
    """Seconds. `answer`: a session that does not say in this time whether it is free stands still. `busy`: how long to
    wait for one that is. `silence`: without a sign of life for so long a plan is given up. `start`: of a new one."""

    answer: float = 20.0
    busy: float = 5.0
    silence: float = 60.0
    start: float = 180.0


class WarmLauncher:
    """Launcher by a warm session; where it has no time, `cold` starts a job (`core.batch.launcher.Launcher`)."""

    def __init__(
        self,
        say: Callable[[str], None],
        submit: Sequence[str],
        cold: Launcher,
        folder: Path,
        env: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        user: str | None = None,
        idle_s: float = 900.0,
        batches: int = 500,
        patience: Patience | None = None,
    ) -> None:
        """`submit` is the whole command of spark-submit without the application; `folder` is made for this user."""
        self._say, self._submit, self._cold, self._folder = say, tuple(submit), cold, folder
        self._env, self._secrets, self._user = dict(env or {}), dict(secrets or {}), user
        self._idle_s, self._batches, self._patience = idle_s, batches, patience or Patience()
        self._pids: list[int] = []
        self._mark = ""

    def run(self, plan_path: str) -> None:
        """Raises JobFailed."""
        place = self._place()
        self._pids, self._mark = [], str(place)  # the folder is an argument of the session's processes
        session = self._ready(place)
        if session is None:
            self._say("the warm session is busy: this plan gets a job of its own")
            self._cold.run(plan_path)
            return
        with session, secrets_file(self._secrets) as secrets:
            self._pids = session.pids
            session.send({"plan": plan_path, "user": self._user, "secrets": secrets})
            self._follow(session, place)

    def kill(self) -> None:
        """End the session that works for this launcher, with all its processes, or the job."""
        found = []
        for pid in self._pids:
            try:
                process = psutil.Process(pid)
                if self._mark in process.cmdline():
                    found += [process, *process.children(recursive=True)]
            except psutil.Error:
                continue
        end_processes(dict.fromkeys(found))
        if hasattr(self._cold, "kill"):
            self._cold.kill()

    def _place(self) -> Path:
        env = {name: (os.environ | self._env).get(name, "") for name in _ENVIRONMENT}
        key = hashlib.sha256(json.dumps([self._submit, env]).encode()).hexdigest()[:16]
        place = self._folder / key
        if len(str(place / SOCKET)) > _LONGEST_PATH:
            raise refused(
                f"{place}: too long for a socket", "set AIRFLOW__TIDEGATE__SPARK_SESSION_FOLDER to a short one"
            )
        for folder in (self._folder, place):
            private_folder(folder)
        return place

    def _ready(self, place: Path) -> _Session | None:
        """A session that waits for our plan, started if need be; None if it has no time."""
        busy_until = time.monotonic() + self._patience.busy
        started = False
        while True:
            session = _connect(place / SOCKET)
            answer = session.greet(code_identity(), self._patience.answer) if session else "absent"
            if session and answer == "ready":
                return session
            if session:
                session.close()
            if answer == "silent":
                self._say("the warm session stands still: another takes its place")
                _displace(place / SOCKET)
            if answer in ("busy", "leaving"):
                if time.monotonic() > busy_until and answer == "busy":
                    return None
                time.sleep(0.05)
            elif started:
                raise JobFailed("the warm session ended before it took the plan")
            else:
                with _only_starter(place / LOCK) as alone:
                    if alone:
                        self._start(place)
                        started = True
                if not alone and time.monotonic() > busy_until:
                    return None
                time.sleep(0.05)

    def _start(self, place: Path) -> None:
        """Start a session; returns when it listens. Raises JobFailed."""
        if (place / SOCKET).exists() and (listening := _connect(place / SOCKET)) is not None:
            listening.close()  # another task has just started one
            return
        for old in place.glob("log-*"):
            old.unlink(missing_ok=True)
        log = place / f"log-{uuid.uuid4().hex[:8]}"
        serve = str(land_application().with_name("serve.py"))
        words = [str(place), code_identity(), str(self._idle_s), str(self._batches), str(log)]
        self._say(f"starting a warm session; its log: {log}")
        began = time.monotonic()
        # in its own session and not our child: it must outlive this task, whose children are ended
        shell = subprocess.run(
            ["/bin/sh", "-c", _DETACHED, "sh", str(log), *self._submit, serve, *words],
            env=os.environ | self._env, cwd=place, start_new_session=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        process = int(shell.stdout)
        while (found := _connect(place / SOCKET)) is None:
            if not _lives(process):
                raise job_failed("the warm session ended while it started", _tail(log))
            if time.monotonic() - began > self._patience.start:
                end_processes([psutil.Process(process), *psutil.Process(process).children(recursive=True)])
                raise job_failed(f"the warm session was not ready after {self._patience.start:.0f} s", _tail(log))
            time.sleep(0.05)
        found.close()
        self._say(f"the warm session is ready after {time.monotonic() - began:.1f} s")

    def _follow(self, session: _Session, place: Path) -> None:
        heard = time.monotonic()
        words: deque[str] = deque(maxlen=LAST_WORDS)
        while True:
            message = session.receive(0.2)
            for line in session.new_lines():
                words.append(line)
                self._say(line)
            if message is None:
                if time.monotonic() - heard > self._patience.silence:
                    _displace(place / SOCKET)
                    what = f"the warm session has been silent for {self._patience.silence:.0f} s: it was given up"
                    raise job_failed(what, words)
                continue
            heard = time.monotonic()
            if message.get("is") == "done":
                self._say(str(message.get("said")))
                return
            if message.get("is") == "failed":
                raise job_failed("the plan failed in the warm session", [*words, str(message.get("said"))])
            if message.get("is") == "ended":
                raise self._died(session, words)

    def _died(self, session: _Session, words: deque[str]) -> JobFailed:
        """Error of a session that died; the JVM outlives its driver by a moment, and writes how that ended."""
        until = time.monotonic() + _LAST_LINES_S
        while any(map(_lives, session.pids)) and time.monotonic() < until:
            time.sleep(0.05)
        for line in session.new_lines():
            words.append(line)
            self._say(line)
        return job_vanished("the warm session", "while it worked on the plan", words)


class _Session:
    """Connection to a session. `pids` are its JVM and its Python driver, once it is ready."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._buffer = connection, b""
        self.pids: list[int] = []
        self._log: Path | None = None
        self._read = 0

    def greet(self, identity: str, answer_s: float) -> str:
        """State of the session: ready, busy, leaving, silent or absent."""
        try:
            self.send({"identity": identity})
        except JobFailed:
            return "absent"
        message = self.receive(answer_s)
        if message is None:
            return "silent"
        if message["is"] == "ready":
            self.pids = [int(pid) for pid in message["pids"]]
            self._log = Path(message["log"])
            self._read = self._log.stat().st_size if self._log.exists() else 0
        return "absent" if message["is"] == "ended" else str(message["is"])

    def send(self, message: Mapping[str, object]) -> None:
        """Send a message. Raises JobFailed when the session has gone."""
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError as e:
            raise JobFailed(f"the warm session has ended ({e})") from e

    def receive(self, seconds: float) -> dict[str, Any] | None:
        """The next message, `ended` when it hung up; None without one in this time."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            if not select.select([self._connection], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return None
            try:
                more = self._connection.recv(65536)
            except OSError:
                more = b""
            if not more:
                return {"is": "ended"}
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def new_lines(self) -> Iterator[str]:
        """New whole lines of Spark in the session's log."""
        try:
            with open(self._log or os.devnull, "rb") as file:
                file.seek(self._read)
                text = file.read()
        except OSError:
            return
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        yield from filter(None, map(str.rstrip, whole.decode(errors="replace").splitlines()))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> _Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def end_sessions(folder: Path) -> int:
    """Tell all of this user's sessions here to end, each after its present plan. Returns how many."""
    told = 0
    for path in folder.glob(f"*/{SOCKET}"):
        if (session := _connect(path)) is not None:
            told += session.greet("none", Patience.answer) == "leaving"
            session.close()
    return told


def refuse_cluster_mode(connection: SparkConnection) -> None:
    """Raises JobFailed (no retry) for a Spark connection whose drivers run elsewhere."""
    if connection.deploy_mode != CLIENT:
        name, mode = connection.conn_id, connection.deploy_mode
        advice = "set ingest.spark.session: per_batch, or the connection's deploy mode to client"
        raise refused(f"a warm session needs its driver on this machine; {name} has deploy mode {mode}", advice)


def code_identity() -> str:
    """Identity of the code and libraries that a session would load now; a session with another one is outdated."""
    found = [sys.version, sys.executable, *(_version(name) for name in _LIBRARIES)]
    for package in ("tidegate", "spark_jobs"):
        spec = importlib.util.find_spec(package)
        folders = list(spec.submodule_search_locations or ()) if spec else []
        for folder in folders or [str(land_application().parent)]:
            found += sorted(_code_below(folder))
    return hashlib.sha256("\n".join(found).encode()).hexdigest()


def _code_below(folder: str) -> Iterator[str]:
    """Each file of code, with size and time. Asked before each batch, so without a Path for each."""
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name.endswith((".py", ".so")):
                status = entry.stat()
                yield f"{entry.path}:{status.st_size}:{status.st_mtime_ns}"
            elif entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__":
                yield from _code_below(entry.path)


@functools.cache  # a process that has imported a library goes on with it; and it takes longer than all the rest
def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "none"


def _connect(path: Path) -> _Session | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(5.0)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    return _Session(connection)


def _displace(path: Path) -> None:
    """Hide a session that hangs; when it wakes, it sees so and ends."""
    path.unlink(missing_ok=True)


@contextmanager
def _only_starter(path: Path) -> Iterator[bool]:
    """Whether no other task is starting a session here; the kernel drops a dead task's lock."""
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _tail(log: Path) -> list[str]:
    try:
        return log.read_text(errors="replace").splitlines()[-LAST_WORDS:]
    except OSError:
        return []
