"""Task processes, and the marks by which everything that they started can be found and ended."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from dev.stack.processes import RUN_MARK, Identity, sweep
from tests.soak.scene import python_path

GIVEN_UP, KILLED = -1, -2
"""What `Task.wait` says of a task that the scheduler was told to go on without, and of one that a signal has ended."""


class Task:
    """A started task with its output in a log of its own."""

    def __init__(self, number: int, what: str, subject: str, stop_at: str, log: Path) -> None:
        self.number, self.what, self.subject, self.stop_at, self.log = number, what, subject, stop_at, log
        self.identity = Identity(0, 0)
        self.code: int | None = None
        self._given_up = threading.Event()

    def give_up(self) -> None:
        """The scheduler takes the task for dead and goes on with its retry."""
        self._given_up.set()

    @property
    def ended(self) -> bool:
        return self.code is not None

    @property
    def words(self) -> str:
        """The end of its log."""
        return f"{self.what} {self.subject}: {self.log.read_text()[-4000:]}"

    def wait(self, timeout_s: float) -> int:
        """Its exit code, KILLED when a signal ended it, or GIVEN_UP, also after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while (code := self.code) is None:
            if self._given_up.is_set() or time.monotonic() > deadline:
                return GIVEN_UP
            time.sleep(0.005)
        return KILLED if code < 0 else code

    def wait_stopped(self, timeout_s: float = 240) -> None:
        """Until it has stopped itself. Raises AssertionError, with its log, when it ends or the time is up."""
        deadline = time.monotonic() + timeout_s
        while not is_stopped(self.identity):
            assert not self.ended, f"did not stop: {self.words}"
            assert time.monotonic() < deadline, f"did not stop: {self.words}"
            time.sleep(0.005)

    def signal(self, number: int) -> None:
        self.identity.signal(number)

    def kill(self) -> None:
        """SIGKILL; it has ended when this returns. What it started lives on."""
        self.signal(signal.SIGKILL)
        while self.identity.alive:
            time.sleep(0.005)


class Nursery:
    """Starts tasks; `close` ends everything that was ever started here, whoever has become its parent."""

    def __init__(self, scene: Path, logs: Path, run_mark: str) -> None:
        self._scene, self._logs, self._mark = scene, logs, run_mark
        logs.mkdir(parents=True, exist_ok=True)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Task] = {}
        self._living: dict[int, Task] = {}
        self._lock, self._told = threading.Lock(), threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.nursery"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=os.environ | {RUN_MARK: run_mark, "PYTHONPATH": python_path()}, start_new_session=True,
            cwd=Path(__file__).parents[2],
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(self, what: str, subject: str = "", stop_at: str = "", engine: str = "") -> Task:
        """`engine` other than the scene's, for a task that runs a job."""
        number = next(self._numbers)
        started = Task(number, what, subject, stop_at, self._logs / f"{run_name(self._mark)}-{number:05}-{what}.log")
        arguments = [str(self._scene), what, subject, *(["--stop-at", stop_at] if stop_at else [])]
        arguments += ["--engine", engine] if engine else []
        order = {"number": number, "log": str(started.log), "arguments": arguments}
        with self._told:
            self._waiting[number] = started
            with self._lock:
                assert self._process.stdin is not None
                self._process.stdin.write(json.dumps(order).encode() + b"\n")
                self._process.stdin.flush()
            if not self._told.wait_for(lambda: number not in self._waiting, 240):
                raise RuntimeError("the nursery started no task for four minutes")
        return started

    def close(self) -> None:
        sweep(self._mark)
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                pipe and pipe.close()
            except OSError:
                continue

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            with self._told:
                if "number" in told:
                    started = self._waiting.pop(told["number"])
                    # a child stays a zombie until its end is told: its start time can be read in any case
                    started.identity = Identity(told["pid"], _ticks(told["pid"]))
                    self._living[told["pid"]] = started
                    self._told.notify_all()
                elif told["pid"] in self._living:
                    self._living.pop(told["pid"]).code = told["code"]


def run_name(mark: str) -> str:
    return mark.rpartition("-")[2]


def _ticks(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return 0


def is_stopped(process: Identity) -> bool:
    """Whether a SIGSTOP has taken effect."""
    try:
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state in ("T", "t") and process.alive
