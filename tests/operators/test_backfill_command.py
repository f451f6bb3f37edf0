"""`tidegate backfill` on a real scheduler: from its own process, interrupted, killed, and beside the schedule."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import threading
from typing import Any

import pytest

from tests.operators.harness import LONG_S, Lane, Rig
from tests.operators.test_backfill_literal import HOURS, WHOLE, heed_ctrl_c, marker, published


class Tidegate:
    """`tidegate backfill`, begun."""

    def __init__(self, rig: Rig, lane: Lane, first: int, last: int, *words: str, terminal: bool = False) -> None:
        args = [
            "tidegate",
            "backfill",
            lane.name,
            "-s",
            lane.hour(first).isoformat(),
            "-e",
            lane.hour(last).isoformat(),
        ]
        self._shown, theirs = pty.openpty() if terminal else (-1, subprocess.PIPE)
        self._process = subprocess.Popen(
            [*args, "--poll", "1s", *words], env=rig.info.env | {"TERM": "xterm"}, cwd=rig.lake, text=True,
            stdout=subprocess.PIPE, stderr=theirs, start_new_session=True, preexec_fn=heed_ctrl_c,
        )  # fmt: skip
        self._screen: list[bytes] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        if terminal:
            os.close(theirs)
            self._reader.start()

    def _read(self) -> None:
        try:
            while data := os.read(self._shown, 65536):
                self._screen.append(data)
        except OSError:  # the other end is closed
            os.close(self._shown)

    @property
    def screen(self) -> str:
        """What a terminal has shown; of a command that has ended, all of it."""
        if self._process.poll() is not None:
            self._reader.join(60)
        return b"".join(self._screen).decode(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self._process.pid, number)

    def ended(self) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        try:
            out, err = self._process.communicate(timeout=LONG_S * 2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        return self._process.returncode, out, err or ""

    def json(self) -> tuple[int, dict[str, Any]]:
        """Exit code and the document."""
        code, out, err = self.ended()
        assert out.count("\n") == 1, (out, err)
        return code, json.loads(out)


@pytest.mark.skipif(not WHOLE, reason="part of make test-operators")
def test_a_range_partly_done_is_filled_interrupted_and_rebuilt(rig: Rig) -> None:
    topic = rig.topic("tg_fill", HOURS + 3)
    [lane] = rig.add(Lane("tg_fill", topic, max_active_runs=4))
    lane.land(HOURS + 1)
    lane.publish(0)

    code, _, err = Tidegate(rig, lane, 0, HOURS - 1).ended()
    assert code == 1
    assert "tg_fill.archive is paused" in err
    code, found = Tidegate(rig, lane, 0, HOURS - 1, "--dry-run", "--json").json()
    assert (code, found["counts"]) == (0, {"done": 1, "create": HOURS - 1})

    # killed while hour 2 is being published: its run goes on, as the scheduler's
    lane.hive.hold(marker(lane, 2))
    command = Tidegate(rig, lane, 0, HOURS - 1, "--unpause", "--at-once", "2")
    rig.wait_task(lane.archive, lane.scheduled(2), "publish", "running")
    command.signal(signal.SIGKILL)
    assert command.ended()[0] == -signal.SIGKILL
    lane.hive.release()
    rig.wait_run(lane.archive, lane.scheduled(2), "success")
    command = Tidegate(rig, lane, 0, HOURS - 1, terminal=True)
    assert command.ended()[:2] == (0, f"{HOURS} of {HOURS} windows are published\n")
    assert f"{HOURS}/{HOURS}" in command.screen
    assert published(rig, lane) == dict.fromkeys(range(HOURS), 1)
    rig.check_settled(lane)

    # a window that is not ready is no reason to wait, and the range is not done
    code, out, _ = Tidegate(rig, lane, 0, HOURS).ended()
    assert code == 1
    assert "1 not ready" in out

    # rebuilt: Ctrl-C in the middle, then the rest; what was rebuilt is not rebuilt again
    command = Tidegate(rig, lane, 0, 2, "--replay", "--unpause", "--at-once", "1")
    rig.wait_run(lane.replay, lane.scheduled(0), "success")
    command.signal(signal.SIGINT)
    code, _, err = command.ended()
    assert code == 130
    assert "interrupted: " in err
    code, out, err = Tidegate(rig, lane, 0, 2, "--replay").ended()
    assert (code, out) == (0, "3 of 3 windows are rebuilt\n"), err
    assert "going on with the replay" in err
    tries = rig.airflow("SELECT run_id, try_number FROM task_instance WHERE dag_id = :d", d=lane.replay)
    assert dict(tries) == {lane.scheduled(n): 1 for n in range(3)}
    rig.check_settled(lane)

    # the schedule goes on
    lane.land(1)
    rig.eventually("the next hour is published", lambda: HOURS in published(rig, lane))


@pytest.mark.skipif(not WHOLE, reason="part of make test-operators")
def test_an_hour_that_fails_is_named(rig: Rig) -> None:
    topic = rig.topic("tg_fail", HOURS + 1)
    [lane] = rig.add(Lane("tg_fail", topic, max_active_runs=4))
    lane.land(3)
    lane.hive.cut()
    code, out, _ = Tidegate(rig, lane, 0, 1, "--unpause").ended()
    assert code == 1
    assert "2 failed: " in out
    assert "(failed: publish); fix it, run this again" in out
    lane.hive.mend()
    code, found = Tidegate(rig, lane, 0, 1, "--json").json()
    assert (code, found["done"]) == (0, True)
    rig.check_settled(lane)
