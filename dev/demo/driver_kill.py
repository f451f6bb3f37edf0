"""Kills a Spark driver at the worst moment: a data file is closed, the receipt is not written.

Nothing in the job helps. The driver's Python process is stopped as soon as its attempt's directory holds a file; its
workers go on without it, and the receipt, which the driver writes last, cannot come. Once a data file is complete, the
driver gets SIGKILL. Should the driver have been stopped before its workers had work, it goes on in small steps.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dev.demo.tables import Place as Folder
from dev.stack.processes import Identity
from tidegate.core.target.paths import RECEIPT

_PARQUET = b"PAR1"
_LEAST_FILE = 12
_LOOK_S = 0.002
_STEP_S = 0.05
T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """What to look for: a script, and where its attempts lie below the work directory. `patience_s`: how long its
    workers may go on while the driver is stopped; 0 for a job that has none."""

    script: str
    attempts: str
    patience_s: float


LANDING = Job("land.py", "tmp", 2.0)
MERGE = Job("rewrite.py", "apply", 0.0)
"""Of a mirror; it has no workers: it runs in small steps until a file is closed."""


class KillMissed(Exception):
    """The moment did not come, or was over before the driver could be stopped."""


@dataclass(frozen=True)
class Killed:
    """What the dead attempt left: `files` are relative to its directory, the complete ones in `closed`."""

    pid: int
    attempt: Folder
    files: tuple[str, ...]
    closed: tuple[str, ...]

    @property
    def bytes(self) -> int:
        return sum((self.attempt / f).stat().st_size for f in self.files)


def kill_next_driver(workdir: Folder, timeout_s: float, job: Job = LANDING) -> Killed:
    """Wait for the next driver that works below `workdir` and kill it. Raises KillMissed."""
    deadline = time.monotonic() + timeout_s
    driver, attempt = _wait(lambda: _driver(workdir, job), deadline, "no Spark driver was started")
    _wait(lambda: _files(attempt), deadline, f"no file appeared in {attempt}")
    with _stopped(driver):
        while not _soon(lambda: _closed(attempt), job.patience_s):
            if time.monotonic() > deadline or (attempt / RECEIPT).exists():
                raise KillMissed(f"no file was closed before the receipt in {attempt}")
            driver.signal(signal.SIGCONT)
            time.sleep(_STEP_S)
            driver.signal(signal.SIGSTOP)
        if (attempt / RECEIPT).exists():
            raise KillMissed(f"{attempt} has a receipt already: the driver was stopped too late")
        driver.signal(signal.SIGKILL)
    _wait(lambda: not driver.alive, deadline, f"process {driver.pid} did not end")
    if (attempt / RECEIPT).exists():
        raise KillMissed(f"{attempt} has a receipt: the driver was killed too late")
    closed = tuple(_closed(attempt))  # first: its workers may write on for a moment
    return Killed(driver.pid, attempt, tuple(_files(attempt)), closed)


@contextmanager
def _stopped(driver: Identity) -> Iterator[None]:
    """A process that is stopped and forgotten would hold its task for ever: whatever happens, it goes on or is dead."""
    driver.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        driver.signal(signal.SIGCONT)


def _driver(workdir: Folder, job: Job) -> tuple[Identity, Folder] | None:
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            argv = Path("/proc", name, "cmdline").read_bytes().decode(errors="replace").split("\0")
            if not _is_driver(argv, job.script):
                continue
            plan = next((a for a in argv if str(workdir) in a and a.endswith(".json")), None)
            if plan is not None:
                attempt = workdir / job.attempts / Path(plan).name.removesuffix(".json")
                return Identity.of(int(name)), attempt
        except OSError:
            continue
    return None


def _is_driver(argv: list[str], script: str) -> bool:
    """The Python process, not the JVM or the shell before it, which name the same script."""
    return Path(argv[0]).name.startswith("python") and any(Path(a).name == script for a in argv[1:3])


def _files(attempt: Folder) -> list[str]:
    return sorted(str(f.relative_to(attempt)) for f in attempt.rglob("*") if f.is_file())


def _closed(attempt: Folder) -> list[str]:
    return [name for name in _files(attempt) if _is_complete(attempt / name)]


def _is_complete(file: Folder) -> bool:
    """A Parquet file ends with its magic once its footer is written, not before."""
    try:
        with file.open("rb") as content:
            if content.read(len(_PARQUET)) != _PARQUET or file.stat().st_size < _LEAST_FILE:
                return False
            content.seek(-len(_PARQUET), os.SEEK_END)
            return content.read() == _PARQUET
    except FileNotFoundError:  # renamed since it was listed
        return False


def _soon(look: Callable[[], T], seconds: float) -> T | None:
    try:
        return _wait(look, time.monotonic() + seconds, "")
    except KillMissed:
        return None


def _wait(look: Callable[[], T | None], deadline: float, otherwise: str) -> T:
    while not (found := look()):
        if time.monotonic() > deadline:
            raise KillMissed(otherwise)
        time.sleep(_LOOK_S)
    return found
