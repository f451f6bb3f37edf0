"""mutmut without its changes of words: `run ...` is its own command; `show` prints the mutants named on standard input.

Messages are for people: a test that holds their every letter is no test of a rule. Runs in the stage's folder.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from mutmut.mutation import mutators


def main() -> None:
    mutators.mutation_operators[:] = [  # type: ignore[index]
        (kind, change) for kind, change in mutators.mutation_operators if change is not mutators.operator_string
    ]
    if sys.argv[1] == "show":
        _show([line.strip() for line in sys.stdin if line.strip()])
        return
    from mutmut.__main__ import cli

    _collect_once()
    gc.disable()  # a mutant is tried in a fork, which would copy all that a collection looks at
    cli()


def _collect_once() -> None:
    """Each mutant's process runs tests that its parent has collected: that takes longer than most tests."""
    import pytest
    from _pytest.runner import runtestprotocol
    from mutmut.runners.harness import PytestRunner
    from mutmut.state import state
    from mutmut.utils.file_utils import change_cwd
    from mutmut.workers.isolation import ForkRunner, run_in_fork

    class Collected:
        items: dict[str, pytest.Item]

        def pytest_runtestloop(self, session: pytest.Session) -> bool:
            self.items = {item.nodeid: item for item in session.items}
            session.config._tmp_path_factory.getbasetemp()  # one for all
            session.config._cleanup_stack.pop_all()  # fixtures of pytest's own are needed longer than its session
            return True

    collected = Collected()

    def run(runner: PytestRunner, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        with change_cwd("mutants"):
            for test in tests or collected.items:
                reports = runtestprotocol(collected.items[test], log=False, nextitem=None)
                if any(report.failed for report in reports):
                    return 1
        return 0

    def clean(runner: ForkRunner, tests: Iterable[str]) -> int:
        with change_cwd("mutants"):
            runner.test_runner.execute_pytest(
                ["-p", "no:capture", "-p", "no:logging", "--basetemp=../tmp", "tests/unit"], plugins=[collected]
            )
        assert state().duration_by_test.keys() <= collected.items.keys()
        return run_in_fork(runner.test_runner.run_tests, mutant_name=None, tests=tests)

    PytestRunner.run_tests = run
    ForkRunner.run_clean_tests = clean
    ForkRunner.run_forced_fail = lambda runner: run_in_fork(runner.test_runner.run_forced_fail)


def _show(names: list[str]) -> None:
    from mutmut.mutation.diff_apply import find_mutant, get_diff_for_mutant

    for name in names:
        diff = get_diff_for_mutant(name).splitlines()[2:]
        path = Path(str(find_mutant(name).path))
        changed = [line for line in diff if line[:1] in "+-" and line.strip("+- ")]
        print(f"{path}:{_line(path, name, diff)}: {name.rsplit('.', 1)[1]}")
        print("\n".join(f"    {line}" for line in changed))


def _line(path: Path, name: str, diff: list[str]) -> int | str:
    """Where the first changed line is: its place in the function, added to where the function begins."""
    source = path.read_text().splitlines()
    function = re.sub(r"__mutmut_\d+$", "", name.rsplit(".", 1)[1]).split("ǁ")[-1].removeprefix("x_")
    starts = [i for i, line in enumerate(source, 1) if re.match(rf"\s*def {re.escape(function)}\b", line)]
    at = 0
    for line in diff:
        hunk = re.match(r"@@ -(\d+)", line)
        if hunk:
            at = int(hunk.group(1))
        elif line.startswith("-"):
            return starts[0] + at - 1 if starts else "?"
        else:
            at += 1
    return "?"


if __name__ == "__main__":
    main()
