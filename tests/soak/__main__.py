"""`python -m tests.soak`: run the kill soak, or go on with the one that was interrupted. Exit code 0: it passed."""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
from pathlib import Path

from dev.stack.errors import StackError
from dev.stack.locks import file_lock
from dev.stack.places import Places
from dev.stack.processes import sweep
from tests.soak.course import Bounds, Course


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make soak ARGS=...", description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000, help="to produce in all (10 million)")
    parser.add_argument("--kills", type=int, default=500, help="to reach in all (500)")
    parser.add_argument("--minutes", type=float, help="end this run after that time, whatever was reached")
    parser.add_argument("--every", type=float, default=12.0, help="mean seconds between two random kills (12)")
    parser.add_argument("--spark", type=float, default=1.0, help="share of the jobs that real Spark runs (1)")
    parser.add_argument("--seed", type=int, help="of the victims and moments; random, printed, without it")
    parser.add_argument("--fresh", action="store_true", help="forget the soak in the state folder and begin anew")
    parser.add_argument("--state", type=Path, default=Places.of_checkout().own / "soak", help="the state folder")
    asked = parser.parse_args(arguments)
    root: Path = asked.state.absolute()
    root.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(2**32)
    try:
        with file_lock(root.parent / f"{root.name}.lock", wait=False, busy=f"another soak uses {root}"):
            if asked.fresh:
                _forget(root)
            bounds = Bounds(asked.records, asked.kills, asked.minutes, asked.every, asked.spark)
            return Course(root, bounds, seed).run()
    except StackError as e:
        print(e, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: the same command goes on from here")
        return 130


def _forget(root: Path) -> None:
    mark = root / "mark"
    if mark.exists():
        sweep(mark.read_text())
    shutil.rmtree(root)
    root.mkdir()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
