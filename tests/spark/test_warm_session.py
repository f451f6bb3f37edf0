"""Warm sessions without Spark: a stand-in for spark-submit runs the real session, with work that does as told."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tidegate.core.base.errors import JobFailed, JobKilled
from tidegate.spark import warm_session
from tidegate.spark.warm_session import Patience, WarmLauncher, end_sessions

ROOT = Path(__file__).parents[2]
# As spark-submit does, it waits for a driver below it, whose arguments it has too.
SUBMIT = f"""#!{sys.executable}
import json, os, subprocess, sys, time
if "--driver" not in sys.argv:
    sys.exit(subprocess.call([sys.executable, __file__, "--driver", *sys.argv[1:]]))
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "plugins")!r}]
from pathlib import Path
from spark_jobs.engine.failures import refuse
from spark_jobs.session import Session, Terms
folder, identity, idle, batches, log = sys.argv[-5:]
seen = Path(__file__).parent

def run(request):
    plan, secrets = request["plan"], request["secrets"]
    print("working on", plan, flush=True)
    (seen / f"{{plan}}.began").write_text(json.dumps([request, secrets and Path(secrets).read_text()]))
    if plan == "refused":
        raise refuse("field price: 1e999", retry=False)
    if plan == "unlucky":
        raise refuse("no such temporary file", retry=True)
    if plan == "broken":
        raise RuntimeError("the gateway is gone")
    if plan == "death":
        os._exit(3)
    if plan == "long-with-worker":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", __file__])
    while plan.startswith("long") and not (seen / f"{{plan}}.go").exists():
        time.sleep(0.01)
    (seen / f"{{plan}}.ended").touch()
    return f"{{plan}} done by {{os.getpid()}}"

print("ends:", Session(Terms(folder, identity, float(idle), int(batches), log), run, lambda: True).serve(), flush=True)
"""


class Cold:
    def __init__(self) -> None:
        self.plans: list[str] = []

    def run(self, plan_path: str) -> None:
        self.plans.append(plan_path)


class HastyOnce:
    """Who stands still is given up soon; a session that is new may take its time on a busy machine."""

    def __init__(self, patience: Patience) -> None:
        self._patience, self._answers = patience, [0.3]

    @property
    def answer(self) -> float:
        return self._answers.pop() if self._answers else self._patience.answer

    def __getattr__(self, name: str) -> float:
        return getattr(self._patience, name)


class Host:
    """A machine with a folder for sessions; `say` of its launchers goes to `said`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.said, self.cold = folder, [], Cold()
        self.binary = folder / "spark-submit"
        self.binary.write_text(SUBMIT)
        self.binary.chmod(0o755)
        self.sessions = folder / "s"
        self.patience = Patience(answer=120.0, busy=120.0, silence=120.0, start=120.0)

    def launcher(self, **other: object) -> WarmLauncher:
        given: dict = {"folder": self.sessions, "patience": self.patience} | other
        return WarmLauncher(self.said.append, [str(self.binary), "--master", "local"], self.cold, **given)

    def run(self, plan: str, **other: object) -> int:
        """The session's pid, as its work tells it."""
        self.launcher(**other).run(plan)
        assert self.said[-1].startswith(f"{plan} done by ")
        return int(self.said[-1].split()[-1])

    def start(self, plan: str, launcher: WarmLauncher | None = None) -> tuple[threading.Thread, list[BaseException]]:
        """A plan that a thread runs; returns when the session works on it."""
        errors: list[BaseException] = []

        def run() -> None:
            try:
                (launcher or self.launcher()).run(plan)
            except BaseException as e:
                errors.append(e)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        until(lambda: (self.folder / f"{plan}.began").exists() or errors)
        return thread, errors

    def go(self, plan: str) -> None:
        (self.folder / f"{plan}.go").touch()

    def processes(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if str(self.binary) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found


@pytest.fixture
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    made = Host(tmp_path_factory.mktemp("h"))
    yield made
    for process in made.processes():
        process.kill()


def until(look: Callable[[], object], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, "it did not become so"
        time.sleep(0.01)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_one_session_serves_tasks_one_after_another_and_is_nobodys_child(host: Host) -> None:
    first = host.run("1")
    assert [host.run("2"), host.run("3")] == [first, first]
    assert psutil.Process(first).parent().ppid() not in (os.getpid(), first)
    assert os.getsid(first) != os.getsid(0)
    assert "working on 3" in host.said
    assert not host.cold.plans


def test_its_folder_is_private_and_secrets_travel_in_a_file_that_is_gone_afterwards(host: Host) -> None:
    driver = host.run("1", secrets={"sasl.password": "s3cret"}, user="etl")
    request, secrets = json.loads((host.folder / "1.began").read_text())
    assert json.loads(secrets) == {"sasl.password": "s3cret"}
    assert request["user"] == "etl"
    assert not Path(request["secrets"]).exists()
    assert "s3cret" not in json.dumps([request, host.said, *(p.cmdline() for p in host.processes())])
    (place,) = host.sessions.iterdir()
    assert {stat.S_IMODE(p.stat().st_mode) for p in (host.sessions, place)} == {0o700}
    assert host.run("2") == driver
    assert json.loads((host.folder / "2.began").read_text())[0]["secrets"] is None


def test_a_folder_that_others_can_enter_is_refused(host: Host) -> None:
    host.sessions.mkdir(mode=0o755)
    with pytest.raises(JobFailed, match="only this user") as caught:
        host.run("1")
    assert not caught.value.retry


def test_a_path_that_no_socket_can_have_is_refused(host: Host) -> None:
    with pytest.raises(JobFailed, match="too long") as caught:
        host.run("1", folder=host.folder / ("x" * 90))
    assert not caught.value.retry


def test_a_refused_plan_fails_with_its_last_words_and_the_session_goes_on(host: Host) -> None:
    first = host.run("1")
    with pytest.raises(JobFailed, match="field price: 1e999"):
        host.launcher().run("refused")
    assert host.run("2") == first


@pytest.mark.parametrize(("plan", "says"), [("broken", "the gateway is gone"), ("unlucky", "no such temporary file")])
def test_after_an_error_that_may_be_the_sessions_own_the_next_plan_gets_a_new_one(
    host: Host, plan: str, says: str
) -> None:
    first = host.run("1")
    with pytest.raises(JobFailed, match=says):
        host.launcher().run(plan)
    assert host.run("2") != first
    until(lambda: len(host.processes()) == 2)


def test_a_session_that_dies_fails_its_plan_and_is_replaced(host: Host) -> None:
    first = host.run("1")
    with pytest.raises(JobFailed, match="ended while it worked") as caught:
        host.launcher().run("death")
    assert caught.value.retry
    assert "on the plan and said nothing, as if killed by signal 9 (SIGKILL); its last words" in str(caught.value)
    assert "working on death" in str(caught.value)
    second = host.run("2")
    os.kill(second, signal.SIGKILL)  # between two plans
    assert len({first, second, host.run("3")}) == 3


def test_who_finds_it_busy_waits_a_moment_and_then_runs_a_job_of_its_own(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.run("1")
    thread, errors = host.start("long")
    host.launcher(patience=replace(host.patience, busy=0.2)).run("2")
    assert host.cold.plans == ["2"]
    looks, connect = [], warm_session._connect
    monkeypatch.setattr(warm_session, "_connect", lambda path: (looks.append(path), connect(path))[1])
    patient = threading.Thread(target=host.launcher().run, args=("3",))
    patient.start()
    until(lambda: len(looks) > 2)  # so it was busy at least twice
    host.go("long")
    thread.join(120)
    patient.join(120)
    assert not errors
    assert host.cold.plans == ["2"]
    assert (host.folder / "3.ended").exists()


def test_a_session_that_stands_still_is_given_up_and_what_it_does_on_waking_is_its_own_plan_only(host: Host) -> None:
    first = host.run("1")
    thread, errors = host.start("long", host.launcher(patience=replace(host.patience, silence=1.5)))
    os.kill(first, signal.SIGSTOP)
    thread.join(120)
    assert [type(e) for e in errors] == [JobFailed]
    assert "silent" in str(errors[0])
    second = host.run("2")
    assert second != first
    host.go("long")
    os.kill(first, signal.SIGCONT)
    until(lambda: (host.folder / "long.ended").exists())
    until(lambda: gone(first))
    assert host.run("3") == second  # the one that woke did not take its name away


def test_one_that_stood_still_when_it_was_called_never_begins_the_plan(host: Host) -> None:
    first = host.run("1")
    os.kill(first, signal.SIGSTOP)
    second = host.run("2", patience=HastyOnce(host.patience))
    assert "stands still" in " ".join(host.said)
    began = (host.folder / "2.began").stat().st_mtime_ns
    os.kill(first, signal.SIGCONT)
    until(lambda: gone(first))
    assert (host.folder / "2.began").stat().st_mtime_ns == began
    assert second != first


def test_other_code_makes_the_session_end_and_a_new_one_start(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    first = host.run("1")
    monkeypatch.setattr(warm_session, "_version", lambda name: "another")
    second = host.run("2")
    assert second != first
    assert host.run("3") == second
    until(lambda: len(host.processes()) == 2)


def test_without_work_and_after_enough_plans_nothing_is_left(host: Host) -> None:
    first = host.run("1", idle_s=1.5)  # its first task must find it in this time
    until(lambda: not host.processes())
    (place,) = host.sessions.iterdir()
    assert not (place / "socket").exists()
    second = host.run("2", batches=2)
    assert host.run("3", batches=2) == second
    until(lambda: not host.processes())
    assert host.run("4") not in (first, second)


def test_all_sessions_can_be_told_to_end(host: Host) -> None:
    assert end_sessions(host.sessions) == 0
    host.run("1")
    thread, errors = host.start("long")
    assert end_sessions(host.sessions) == 1
    host.go("long")
    thread.join(120)
    assert not errors
    until(lambda: not host.processes())


def test_a_session_that_cannot_start_says_why(host: Host) -> None:
    host.binary.write_text("#!/bin/sh\necho 'no such master'; exit 1\n")
    with pytest.raises(JobFailed, match="no such master") as caught:
        host.run("1")
    assert caught.value.retry


def test_tasks_that_begin_together_start_one_session(host: Host) -> None:
    launchers = [host.launcher() for _ in range(4)]
    threads = [threading.Thread(target=one.run, args=(str(n),)) for n, one in enumerate(launchers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len({line.split()[-1] for line in host.said if " done by " in line}) == 1
    assert sum(line.startswith("starting") for line in host.said) == 1


def test_a_kill_ends_the_session_with_all_that_is_below_it(host: Host) -> None:
    launcher = host.launcher()
    thread, errors = host.start("long-with-worker", launcher)
    until(lambda: len(host.processes()) == 3)
    launcher.kill()
    thread.join(120)
    assert [type(e) for e in errors] == [JobKilled]
    assert not host.processes()
    assert not (host.folder / "long-with-worker.ended").exists()


def test_who_hangs_up_before_naming_a_plan_has_changed_nothing(host: Host) -> None:
    first = host.run("1")
    (place,) = host.sessions.iterdir()
    caller = warm_session._connect(place / "socket")
    assert caller is not None
    assert caller.greet(warm_session.code_identity(), 10.0) == "ready"
    caller.close()
    patience = replace(host.patience, busy=60.0)
    assert host.run("4", patience=patience) == first
    assert sorted(p.name for p in host.folder.glob("*.began")) == ["1.began", "4.began"]
