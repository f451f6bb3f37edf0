"""Explore the model: every scenario with the whole protocol, then with one rule taken out at a time.

    python -m tests.model [NAME ...] [--seconds N] [--fixed-only] [--no-trace]
    python -m tests.model --walk [NAME ...] [--seconds N]

The exit status is 1 if the whole protocol violates a promise somewhere.
"""

from __future__ import annotations

import argparse
import sys

from tests.model.scenarios import SCENARIOS, WALKS, build, run


def main() -> int:
    """Explore what the arguments name, and print a line and the shortest trace of each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios; all if none is given")
    parser.add_argument("--seconds", type=int, default=120, help="at most, for each exploration")
    parser.add_argument("--fixed-only", action="store_true", help="the whole protocol only, no rule taken out")
    parser.add_argument("--no-trace", action="store_true", help="no traces of rules taken out")
    parser.add_argument("--walk", action="store_true", help="random walks with every actor and every fault at once")
    parser.add_argument("--seed", type=int, default=20261121, help="of the random walks")
    options = parser.parse_args()
    return _walks(options) if options.walk else _breadth_first(options)


def _walks(options: argparse.Namespace) -> int:
    bad = 0
    for name in options.names or WALKS:
        model = build(**WALKS[name])
        result = model.walk(seed=options.seed, walks=10**9, seconds=options.seconds, steps=400)
        _show(name, "random walks", result, traced=True)
        bad += result.verdict == "VIOLATION"
    return int(bad > 0)


def _breadth_first(options: argparse.Namespace) -> int:
    bad = 0
    for name in options.names or SCENARIOS:
        result = run(name, None, options.seconds)
        _show(name, "the whole protocol", result, traced=True)
        bad += result.verdict == "VIOLATION"
        for label in () if options.fixed_only else SCENARIOS[name][1]:
            _show(name, label, run(name, label, options.seconds), traced=not options.no_trace)
    return int(bad > 0)


def _show(name: str, label: str, result, traced: bool) -> None:
    print(f"{name:22s} {label:52s} {result.line()}", flush=True)
    for step in result.trace if traced else ():
        print("      ", _brief(step))


def _brief(step: str) -> str:
    step = step.replace("('z', ", "(job ").replace("frozenset", "")
    return step if len(step) < 118 else step[:115] + "..."


if __name__ == "__main__":
    sys.exit(main())
