"""A process whose thread stands still in a call is ended, one that computes is not."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from spark_jobs.handlers.still import watched


def test_who_waits_for_what_never_comes_is_ended() -> None:
    ended, words = threading.Event(), list[str]()

    def end(said: str) -> None:
        words.append(said)
        ended.set()

    with watched(0.2, "sending to shop", end):
        assert ended.wait(60)
    assert words == ["sending to shop stood still for 0 s: given up"]


def test_who_computes_is_left_alone() -> None:
    """For five times as long as the limit, by its own clock."""
    words, until = list[str](), time.thread_time() + 1.0
    with watched(0.2, "sending to shop", words.append):
        while time.thread_time() < until:
            sum(range(10_000))
    assert words == []


def test_a_process_that_hangs_in_a_system_call_says_so_and_ends() -> None:
    hangs = "import os; from spark_jobs.handlers.still import watched\nwith watched(0.2, 'sending'): os.read(0, 1)"
    with subprocess.Popen([sys.executable, "-c", hangs], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.read().decode() == "sending stood still for 0 s: given up\n"
        assert process.wait() == 1
