"""Runs one program and guarantees that its whole process tree ends: with the keeper, and with the keeper's owner.

    python keeper.py [--owner PID:START] [--unroot] --log FILE --signal N --grace SECONDS -- PROGRAM ARGUMENT...

Why a process of its own: Airflow, Spark and PostgreSQL start children that leave their process group, and an owner
killed by SIGKILL can clean up nothing. The keeper is a child subreaper, so every orphan of the tree becomes its
child and cannot escape; it watches its owner through a pidfd, so the owner's death by any signal ends the tree; and
the program gets SIGKILL from the kernel (PR_SET_PDEATHSIG) should the keeper itself be killed.

Only the standard library, and nothing of this package: it must start in milliseconds.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWUSER = 0x10000000
NOBODY = 65534
OWNER_POLL_S = 0.5
_libc = ctypes.CDLL(None, use_errno=True)


def start_ticks(pid: int) -> int | None:
    """The kernel's start time of a living process (clock ticks since boot), or None; zombies don't live."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def parents() -> dict[int, int]:
    """pid -> parent's pid, of every process there is."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    found[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
    return found


def descendants(root: int) -> list[int]:
    """Every process below `root`, nearest first, of those the oldest first: below a keeper that is its program.

    Not the one with the lowest number: numbers begin again, and the keeper's children are also its orphans."""
    tree = parents()
    found, edge = [], {root}
    while edge:
        edge = {pid for pid, parent in tree.items() if parent in edge}
        found += sorted(edge, key=lambda pid: (start_ticks(pid) or sys.maxsize, pid))
    return found


def leave_root() -> None:
    """Stop being root in the eyes of a program that refuses it, without creating a user or changing file owners.

    In a user namespace of its own the process is `nobody` and outside still the same user, so it may still enter
    folders that only root may. Where namespaces are forbidden it becomes `nobody` for real.
    """
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(CLONE_NEWUSER) == 0:
        _write("/proc/self/uid_map", f"{NOBODY} {user} 1")
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/gid_map", f"{NOBODY} {group} 1")
        return
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


class Keeper:
    """One program under guard; `run` returns when nothing of its tree is left."""

    def __init__(
        self, command: list[str], log: str, stop: tuple[int, float], owner: tuple[int, int] | None, unroot: bool
    ) -> None:
        self._command, self._log, self._owner, self._unroot = command, log, owner, unroot
        self._stop_signal, self._grace_s = stop
        self._pid = 0
        self._code: int | None = None
        self._asked = False  # somebody wants the end
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)

    def run(self) -> int:
        """Start, guard, end; returns the program's exit code (128 + signal when one ended it)."""
        signal.set_wakeup_fd(self._wake_write)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._pid = self._start()
        self._guard()
        if self._code is None:
            self._ask_to_end()
        self._end_the_rest()
        return self._code if self._code is not None else 0

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._asked = True

    def _start(self) -> int:
        out = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        keeper = os.getpid()

        def prepare() -> None:
            if self._unroot:
                leave_root()
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # after the change of user, which clears it
            if os.getppid() != keeper:
                os._exit(1)

        process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=prepare, start_new_session=True
        )
        os.close(out)
        return process.pid

    def _guard(self) -> None:
        waiting = select.poll()
        waiting.register(self._wake_read, select.POLLIN)
        watch = self._watch_owner()
        if watch is not None:
            waiting.register(watch, select.POLLIN)
        while True:
            self._reap()
            if self._code is not None or self._asked or not self._owner_lives():
                return
            waiting.poll(None if self._owner is None or watch is not None else OWNER_POLL_S * 1000)
            self._drain()

    def _watch_owner(self) -> int | None:
        if self._owner is None:
            return None
        try:
            return os.pidfd_open(self._owner[0])
        except (AttributeError, OSError):
            return None  # an old kernel: poll

    def _owner_lives(self) -> bool:
        return self._owner is None or start_ticks(self._owner[0]) == self._owner[1]

    def _drain(self) -> None:
        try:
            os.read(self._wake_read, 1024)
        except BlockingIOError:
            pass

    def _reap(self) -> bool:
        """Collect what has ended; False when no child is left at all."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._pid:
                code = os.waitstatus_to_exitcode(status)
                self._code = code if code >= 0 else 128 - code

    def _ask_to_end(self) -> None:
        self._asked = False  # asked once more, it skips the grace
        os.kill(self._pid, self._stop_signal)
        self._wait(self._grace_s, lambda: self._code is not None)

    def _end_the_rest(self) -> None:
        while self._reap():
            for pid in descendants(os.getpid()):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            self._wait(0.2, lambda: False)

    def _wait(self, seconds: float, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + seconds
        while self._reap() and not done() and not self._asked and time.monotonic() < deadline:
            select.select([self._wake_read], [], [], min(0.1, seconds))
            self._drain()


def main(arguments: list[str]) -> int:
    """See the module's docstring."""
    split = arguments.index("--")
    options, command = arguments[:split], arguments[split + 1 :]
    named = dict(itertools.pairwise(options))
    owner = None
    if "--owner" in named:
        pid, _, ticks = named["--owner"].partition(":")
        owner = (int(pid), int(ticks))
    stop = (int(named["--signal"]), float(named["--grace"]))
    return Keeper(command, named["--log"], stop, owner, "--unroot" in options).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
