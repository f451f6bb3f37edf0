"""Keepers: whatever ends, and however, nothing of a program's process tree stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dev.stack import keeper
from dev.stack.errors import PartDied, StackError
from dev.stack.processes import Identity, Launcher, Program, Running, end_all, sweep

# A program that does all that makes a tree hard to end: ignores SIGTERM, and has a grandchild in a session of its own
# whose parent is gone. Each writes its pid.
_STUBBORN = """
import os, signal, sys, time
folder = sys.argv[1]
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def tell(name):
    with open(f"{folder}/.{name}", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"{folder}/.{name}", f"{folder}/{name}")
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        tell("grandchild")
        time.sleep(600)
    os._exit(0)
os.wait()
tell("program")
time.sleep(600)
"""


class Tree:
    """The stubborn program under a keeper."""

    def __init__(self, folder: Path, owner: Identity | None, run_id: str) -> None:
        self.launcher = Launcher(run_id=run_id, logs=folder / "logs", owner=owner, on_start=lambda running: None)
        program = Program([sys.executable, "-c", _STUBBORN, str(folder)], grace_s=0.3)
        self.running = self.launcher.start("stubborn", program)
        pids = [int(until(lambda name=name: _read(folder / name))) for name in ("program", "grandchild")]
        self.program, self.grandchild = (Identity.of(pid) for pid in pids)

    @property
    def gone(self) -> bool:
        """Nothing of the tree is left."""
        return not (self.running.alive or self.program.alive or self.grandchild.alive)


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def until(check: Callable[[], object], timeout_s: float = 120.0) -> object:
    """The first true answer of check()."""
    deadline = time.monotonic() + timeout_s
    while not (answer := check()):
        if time.monotonic() > deadline:
            pytest.fail("waited too long")
        time.sleep(0.02)
    return answer


def own_id() -> str:
    """Of a run: another test run on this machine sweeps its own."""
    return f"test-{os.urandom(8).hex()}"


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[bytes]]:
    """A process that can be killed in the place of the test run."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def tree(tmp_path: Path, owner: subprocess.Popen[bytes]) -> Iterator[Tree]:
    """A tree that belongs to `owner`."""
    run_id = own_id()
    yield Tree(tmp_path, Identity.of(owner.pid), run_id)
    sweep(run_id)


def test_ending_a_keeper_ends_its_whole_tree(tree: Tree) -> None:
    end_all([tree.running.keeper], grace_s=10)
    assert tree.gone


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_tree_ends_with_its_owner(tree: Tree, owner: subprocess.Popen[bytes], number: int) -> None:
    owner.send_signal(number)
    owner.wait()
    until(lambda: tree.gone)


def test_a_program_ends_with_its_killed_keeper_and_the_sweep_finds_the_rest(tree: Tree) -> None:
    tree.running.keeper.signal(signal.SIGKILL)
    until(lambda: not tree.program.alive)
    sweep(tree.launcher.run_id)
    assert tree.gone


def test_a_keeper_that_does_not_answer_is_killed_with_its_tree(tree: Tree) -> None:
    tree.running.keeper.signal(signal.SIGSTOP)
    end_all([tree.running.keeper], grace_s=0.2)
    assert tree.gone


def test_a_daemon_tree_survives_and_is_swept_by_its_mark_only(tmp_path: Path) -> None:
    run_id = own_id()
    tree = Tree(tmp_path, None, run_id)
    assert sweep(run_id[:-1]) == []
    assert tree.running.alive
    assert set(sweep(run_id)) >= {tree.program.pid, tree.grandchild.pid}
    assert tree.gone


def test_a_keepers_program_comes_first_though_numbers_have_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An orphan that the keeper took over later may have the lower number."""
    monkeypatch.setattr(keeper, "parents", lambda: {900: 1, 31_000: 900, 77: 900, 31_001: 31_000})
    monkeypatch.setattr(keeper, "start_ticks", {31_000: 5, 31_001: 6, 77: 9}.get)
    assert keeper.descendants(900) == [31_000, 77, 31_001]


def test_a_pid_that_was_used_again_is_not_signalled(owner: subprocess.Popen[bytes]) -> None:
    real = Identity.of(owner.pid)
    earlier = Identity(real.pid, real.ticks - 1)
    assert not earlier.alive
    earlier.signal(signal.SIGKILL)
    end_all([earlier], grace_s=0)
    assert real.alive
    assert Identity.parse(str(real)) == real


def test_a_zombie_does_not_live() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(StackError, match="has ended already"):
            Identity.of(child.pid)
    finally:
        child.wait()


def test_a_program_that_dies_is_quoted(tmp_path: Path) -> None:
    launcher = Launcher(run_id=own_id(), logs=tmp_path, owner=Identity.of(os.getpid()), on_start=lambda running: None)
    dying = Program([sys.executable, "-c", "import sys; print('no such topic'); sys.exit(3)"])
    with pytest.raises(PartDied, match=r"part failed with exit code 3; its last words: no such topic"):
        launcher.run("part", dying, timeout_s=30)
    with pytest.raises(PartDied, match=r"part .* at once|part ended while starting"):
        launcher.start("part", dying).wait_ready(lambda: False, timeout_s=30)


def test_a_program_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    started: list[Running] = []
    launcher = Launcher(run_id=own_id(), logs=tmp_path, owner=Identity.of(os.getpid()), on_start=started.append)
    slow = Program([sys.executable, "-c", "import time; time.sleep(600)"])
    with pytest.raises(PartDied, match="took longer than 0 s"):
        launcher.run("part", slow, timeout_s=0.3)
    assert sweep(launcher.run_id) == []


def test_a_closed_launcher_starts_nothing(tmp_path: Path) -> None:
    launcher = Launcher(run_id=own_id(), logs=tmp_path, owner=None, on_start=lambda running: None)
    launcher.close()
    with pytest.raises(StackError, match="the stack is ending"):
        launcher.start("part", Program([sys.executable, "-c", "import time; time.sleep(600)"]))
    assert sweep(launcher.run_id) == []
