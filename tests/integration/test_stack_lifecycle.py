"""A stack of real parts comes up, goes down and leaves no process, however its owner ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import create_engine, text

from dev.stack.cli import stack as commands
from dev.stack.errors import PartDied, StackError
from dev.stack.processes import RUN_MARK, sweep
from dev.stack.stack import Stack
from dev.stack.state import State

_OWNER = """
import sys, time
from pathlib import Path
from dev.stack.stack import Stack
with Stack(Path(sys.argv[1]), parts=("kafka", "postgres")):
    print("up", flush=True)
    time.sleep(600)
"""


def processes_of(root: Path) -> list[int]:
    """Living processes of the last run of the stack at `root`, by their mark."""
    mark = f"{RUN_MARK}={State.load(root).run_id}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except (OSError, ValueError):
            continue
    return found


def wait_until_gone(root: Path, timeout_s: float = 120.0) -> None:
    """Fail with the processes that are left."""
    deadline = time.monotonic() + timeout_s
    while left := processes_of(root):
        if time.monotonic() > deadline:
            names = [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")[:120] for pid in left]
            pytest.fail(f"left behind: {names}")
        time.sleep(0.05)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A stack's folder; what a failed test leaves running is ended."""
    yield tmp_path / "stack"
    run_id = State.load(tmp_path / "stack").run_id
    if run_id:
        sweep(run_id)


def test_up_and_down_keep_data_ports_and_passwords(root: Path) -> None:
    parts = ("kafka", "postgres")
    with Stack(root, parts=parts) as first:
        assert Stack(root).status().ok
        assert len(processes_of(root)) >= 4  # two parts under their keepers
        with create_engine(first.ledger_url).begin() as connection:
            connection.execute(text("CREATE TABLE kept AS SELECT 42 AS answer"))
        with pytest.raises(StackError, match=f"belongs to process {os.getpid()}|in use by process"):
            run_elsewhere(root, "down")
    assert processes_of(root) == []
    assert not Stack(root).status().ok
    assert not (root / "env").exists()
    with Stack(root, parts=parts) as second:
        assert (second.kafka_bootstrap, second.ledger_url) == (first.kafka_bootstrap, first.ledger_url)
        with create_engine(second.ledger_url).connect() as connection:
            assert connection.execute(text("SELECT answer FROM kept")).scalar() == 42
    Stack(root).wipe()
    assert [path.name for path in root.iterdir()] == ["lock"]


def run_elsewhere(root: Path, command: str) -> None:
    """`python -m dev.stack COMMAND` in another process; raises StackError with what it said."""
    argv = [sys.executable, "-m", "dev.stack", command, "--root", str(root)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240, check=False)
    if done.returncode:
        raise StackError(done.stderr)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_no_process_outlives_the_owner(root: Path, number: int) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # a run in the background may have been started with SIGINT ignored, which children inherit
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"up\n"
        assert processes_of(root)
        owner.send_signal(number)
        assert owner.wait(120) != 0
        wait_until_gone(root)
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()
    with Stack(root, parts=("postgres",)) as info:  # the data is usable at once
        create_engine(info.ledger_url).connect().close()


def test_an_owner_killed_while_starting_leaves_nothing(root: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", _OWNER, str(root)], stdout=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 120
        while not State.load(root).processes:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        owner.kill()
        owner.wait()
        wait_until_gone(root)
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()


def test_commands_start_show_and_end_a_daemon_stack(root: Path) -> None:
    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(commands, [words[0], "--root", str(root), *words[1:]])
        return done.exit_code, done.stdout

    assert run("status")[0] == 1
    assert run("up", "--parts", "postgres")[0] == 0
    keepers = State.load(root).alive()  # not every process: PostgreSQL starts and ends some by itself
    assert keepers
    assert run("up", "--parts", "postgres")[0] == 0  # nothing to do
    assert State.load(root).alive() == keepers
    code, out = run("status", "--json")
    status = json.loads(out)
    assert code == 0
    assert status["ok"] is True
    assert [part["name"] for part in status["parts"]] == ["postgres"]
    assert status["info"]["ledger_url"].startswith("postgresql://")
    assert "export AIRFLOW_CONN_TIDEGATE_LEDGER=" in run("env")[1]
    for identity in State.load(root).alive().values():
        identity.signal(signal.SIGKILL)
    wait_until_gone(root)
    code, out = run("status")
    assert code == 1
    assert "postgres   DOWN" in out
    assert run("up", "--parts", "postgres")[0] == 0  # a dead part is started again
    assert run("status")[0] == 0
    assert run("down")[0] == 0
    assert processes_of(root) == []
    assert run("status")[0] == 1
    assert run("down")[0] == 0


def test_a_part_that_cannot_start_ends_the_others(root: Path) -> None:
    (root / "kafka" / "data").mkdir(parents=True)
    (root / "kafka" / "data" / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=other\n")
    with pytest.raises(PartDied, match=r"kafka ended while starting; its last words: .*\(log: .*kafka\.log\)") as died:
        Stack(root, parts=("kafka", "postgres")).up()
    assert "\n" not in str(died.value)
    assert processes_of(root) == []
    assert not Stack(root).status().ok


def test_a_bad_port_is_one_clear_line(root: Path) -> None:
    done = CliRunner().invoke(commands, ["up", "--root", str(root), "--port", "kafka=no"])
    assert done.exit_code == 2
    assert "expected PART=PORT" in done.output
