"""Starting, recognising and ending the stack's processes.

A process is known by its pid *and* the kernel's start time, so a pid that was used again is never signalled. All
processes of one `up` also carry TIDEGATE_STACK_RUN in their environment: what a keeper could not end (it was killed
itself), the sweep finds by that mark. Names are never looked at.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dev.stack import keeper
from dev.stack.errors import PartDied, StackError

RUN_MARK = "TIDEGATE_STACK_RUN"
LOCALE = {"LC_ALL": "C.UTF-8"}
"""Java opens no file whose name it cannot spell: under LANG=C that is every partition value beyond ASCII."""
_KEEPER = Path(keeper.__file__)


@dataclass(frozen=True)
class Identity:
    """A process that is or was: pid and start time in clock ticks since boot."""

    pid: int
    ticks: int

    @classmethod
    def of(cls, pid: int) -> Identity:
        """Raises StackError when there is no such living process."""
        ticks = keeper.start_ticks(pid)
        if ticks is None:
            raise StackError(f"process {pid} has ended already")
        return cls(pid, ticks)

    @classmethod
    def parse(cls, text: str) -> Identity:
        """Inverse of str(): `pid:ticks`."""
        pid, _, ticks = text.partition(":")
        return cls(int(pid), int(ticks))

    def __str__(self) -> str:
        return f"{self.pid}:{self.ticks}"

    @property
    def alive(self) -> bool:
        """False for a zombie and for another process with the same pid."""
        return keeper.start_ticks(self.pid) == self.ticks

    def signal(self, number: int) -> None:
        """Send a signal if the process is still the one meant."""
        if self.alive:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return


@dataclass(frozen=True)
class Program:
    """Command to run, and how to ask it to end before it is killed."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    stop_signal: int = signal.SIGTERM
    grace_s: float = 10.0
    unroot: bool = False


@dataclass(frozen=True)
class Running:
    """A program under its keeper."""

    name: str
    keeper: Identity
    log: Path

    @property
    def alive(self) -> bool:
        """True while the program or anything of its tree lives."""
        return self.keeper.alive

    def wait_ready(self, ready: Callable[[], bool], timeout_s: float) -> None:
        """Poll until ready() is true. Raises PartDied when the program ends or the time is up."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            _reap(self.keeper.pid)
            if not self.alive:
                raise PartDied(self.name, "ended while starting", self.log)
            if time.monotonic() > deadline:
                raise PartDied(self.name, f"was not ready after {timeout_s:.0f} s", self.log)
            time.sleep(0.1)


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """Starts programs under keepers; `owner` is the process whose death ends them, None for a daemon stack."""

    run_id: str
    logs: Path
    owner: Identity | None
    on_start: Callable[[Running], None]
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)  # held, or Python warns of their being lost
    closed: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, name: str, program: Program) -> Running:
        """Start in the background; its output is appended to `<logs>/<name>.log`."""
        with self.lock:
            if self.closed.is_set():
                raise StackError(f"{name} was not started: the stack is ending")
            process, log = self._spawn(name, program)
            self.children.append(process)
            ticks = keeper.start_ticks(process.pid)
            if ticks is None:
                raise PartDied(name, "ended at once", log)
            running = Running(name, Identity(process.pid, ticks), log)
            self.on_start(running)
        return running

    def close(self) -> None:
        """Start nothing more; everything that was started has been told to `on_start` when this returns."""
        with self.lock:
            self.closed.set()

    def run(self, name: str, program: Program, timeout_s: float) -> None:
        """Run to its end. Raises PartDied when it fails or takes longer than that."""
        process, log = self._spawn(name, program)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise PartDied(name, f"took longer than {timeout_s:.0f} s", log) from None
        finally:
            ticks = keeper.start_ticks(process.pid)
            if ticks is not None:
                end_all([Identity(process.pid, ticks)], grace_s=1)
        if code:
            raise PartDied(name, f"failed with exit code {code}", log)

    def _spawn(self, name: str, program: Program) -> tuple[subprocess.Popen[bytes], Path]:
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{name}.log"
        argv = [
            sys.executable, "-I", "-S", str(_KEEPER), *(("--owner", str(self.owner)) if self.owner else ()),
            *(("--unroot",) if program.unroot else ()), "--log", str(log), "--signal", str(int(program.stop_signal)),
            "--grace", str(program.grace_s), "--", *program.argv,
        ]  # fmt: skip
        with open(log, "ab") as out:  # the keeper's own last words, should it fail to start the program
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=program.cwd or self.logs,
                env={**inherited(os.environ), **LOCALE, **program.env, RUN_MARK: self.run_id}, start_new_session=True,
            )  # fmt: skip
        return process, log


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """Environment that a part inherits: all but settings of some other Airflow."""
    return {name: value for name, value in environ.items() if not name.startswith("AIRFLOW_")}


def end_all(keepers: Iterable[Identity], grace_s: float) -> None:
    """Ask keepers to end their trees, all at once; after grace_s seconds kill what is left, trees included."""
    asked = [one for one in keepers if one.alive]
    for one in asked:
        one.signal(signal.SIGTERM)
    if _all_gone(asked, grace_s):
        return
    trees = [Identity.of(pid) for one in asked if one.alive for pid in keeper.descendants(one.pid) if _lives(pid)]
    for one in [*asked, *trees]:
        one.signal(signal.SIGKILL)
    _all_gone([*asked, *trees], 5.0)


def sweep(run_id: str) -> list[int]:
    """Kill every process that carries this run's mark, this process excepted; returns their pids."""
    found = []
    while marked := [one for one in _marked(run_id) if one.pid != os.getpid()]:
        for one in marked:
            one.signal(signal.SIGKILL)
        found += [one.pid for one in marked if one.pid not in found]
        _all_gone(marked, 5.0)
    return found


def _marked(run_id: str) -> list[Identity]:
    mark = f"{RUN_MARK}={run_id}".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        ticks = keeper.start_ticks(int(name))
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                marked = mark in file.read().split(b"\0")
        except OSError:
            continue
        if marked and ticks is not None:
            found.append(Identity(int(name), ticks))
    return found


def _lives(pid: int) -> bool:
    return keeper.start_ticks(pid) is not None


def _all_gone(processes: Sequence[Identity], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while True:
        for one in processes:
            _reap(one.pid)
        if not any(one.alive for one in processes):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)


def _reap(pid: int) -> None:
    """Collect our child that has ended; a no-op for other people's processes."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
