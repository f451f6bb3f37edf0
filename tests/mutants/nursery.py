"""Runs planted bugs, each in a process of its own that is forked from one which has everything loaded.

    python -m tests.mutants.nursery <ledger.db> < names of bugs, one a line > one JSON object a line

`ledger.db` is an empty, migrated ledger: what bugs change is not its schema. Of many bugs the happy path is gone by a
tenth, drawn by the run's seed (TIDEGATE_NIGHTLY=all: by each): it judges the bug and not the code.
"""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from tests.mutants.attacks import ATTACKS
from tests.mutants.bugs import BUGS
from tests.mutants.happy import happy_path
from tests.mutants.names import InvariantViolated
from tests.mutants.planting import Bug, Planted
from tests.mutants.quick import quick
from tests.mutants.stage import Stage

AT_ONCE = 2
CPU_SECONDS, SECONDS = 60, 900
FEW, SHARE = 10, 0.1


class TooLong(BaseException):
    """Not a kill: a bug must fail an invariant, not the clock."""


def main() -> None:
    waiting = [name.strip() for name in sys.stdin if name.strip()]
    quick(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:  # what is forked has the ledger's statements compiled
        happy_path(Stage(Path(folder)))
    each = len(waiting) < FEW or os.environ.get("TIDEGATE_NIGHTLY") == "all"
    running: dict[int, tuple[str, Any]] = {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            name = waiting.pop(0)
            result = tempfile.TemporaryFile("w+")  # noqa: SIM115  (open until its process has ended)
            pid = os.fork()
            if pid == 0:
                json.dump(_try(BUGS[name], each or _drawn(name)), result)
                result.flush()
                os._exit(0)
            running[pid] = (name, result)
        pid, status = os.wait()
        name, result = running.pop(pid)
        result.seek(0)
        text = result.read()
        told = json.loads(text) if text else {"error": f"the process ended with status {status}"}
        print(json.dumps({"bug": name, **told}), flush=True)


def _drawn(name: str) -> bool:
    return random.Random(f"{os.environ.get('TIDEGATE_TEST_SEED')}:{name}").random() < SHARE


def _try(bug: Bug, with_happy_path: bool) -> dict[str, Any]:
    """`happy`: why the happy path failed, if it did; `violated`, `detail`: the invariant that the attack broke;
    `never_called`: seams that the attack did not come by."""
    for kind in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(kind, _too_long)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    signal.alarm(SECONDS)
    started = time.monotonic()
    told: dict[str, Any] = {}
    folder = Path(tempfile.mkdtemp(prefix="planted-"))
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:
        happy = functools.partial(happy_path, swap=bug.swap, target=bug.target)
        with Planted(bug) as planted:
            parts = [("happy", happy)] if with_happy_path else []
            for part, trace in (*parts, ("attack", ATTACKS[bug.attack])):
                (folder / part).mkdir()
                planted.forget_calls()
                try:
                    trace(Stage(folder / part))
                except InvariantViolated as e:
                    told |= {"happy": str(e)} if part == "happy" else {"violated": e.name, "detail": e.detail}
                except BaseException:
                    told |= {part if part == "happy" else "error": traceback.format_exc()[-3000:]}
                if "happy" in told:
                    break
            told["never_called"] = planted.never_called()
    except BaseException:
        told["error"] = traceback.format_exc()[-3000:]
    signal.alarm(0)
    signal.setitimer(signal.ITIMER_PROF, 0)
    shutil.rmtree(folder, ignore_errors=True)
    return told | {"seconds": round(time.monotonic() - started, 2)}


def _too_long(*_: object) -> None:
    raise TooLong(f"not done after {CPU_SECONDS} s of work, or {SECONDS} s")


if __name__ == "__main__":
    main()
