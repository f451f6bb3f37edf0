"""Mutation score of `tidegate.core`: how many small changes of its code its unit tests notice.

    python -m tests.mutants.core_score                       all of it, recorded in core_score.json
    python -m tests.mutants.core_score --changed             files that are not as recorded; nothing is recorded
    python -m tests.mutants.core_score --only batch/planning one file, to work on its tests
    python -m tests.mutants.core_score --only ... --tests tests/core/test_core_planning.py   by these alone: soon
    python -m tests.mutants.core_score --only ... --record   the same, and the record of these files is made anew
    python -m tests.mutants.core_score --only ... --survivors  the same files as the run before: what it did not kill

An interrupted full run goes on where it stopped as long as neither the code nor the tests change. What survives is
written below `.tidegate/mutation`, with file, line and difference. A file's record stands as long as the file does: a
test more notices no mutant less.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORE = ROOT / "plugins/tidegate/core"
RECORD = Path(__file__).with_name("core_score.json")
STAGES = ROOT / ".tidegate/mutation"
TESTS = (
    "tests/core/test_*.py",
    "tests/batch/test_job_plans.py",
    "tests/worker/test_merge_rules.py",
)
HELPERS = ("tests/core/conftest.py", "tests/core_*.py", "tests/zone_windows.py")
HERE = Path(__file__).parent / "mutmut_child.py"

_STATUS = {0: "survived", 1: "killed", 3: "killed", 5: "untested", 33: "untested", 36: "killed", 255: "killed"}
"""mutmut's exit codes; a time-out counts as noticed."""

_CONFTEST = """\
import functools
import random
import sys

import hypothesis
import pytest

hypothesis.settings.register_profile(
    "mutants",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=40,
    phases=[hypothesis.Phase.generate],  # the smallest example of what a mutant breaks is nobody's need
    suppress_health_check=list(hypothesis.HealthCheck),  # a busy machine is no killed mutant
)
hypothesis.settings.load_profile("mutants")


@functools.cache
def remembering() -> list:
    modules = [module for name, module in sys.modules.items() if name.startswith("tidegate.core")]
    return [found for module in modules for found in vars(module).values() if hasattr(found, "cache_clear")]


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    for function in remembering():  # what the test before, or a process without the mutant, has computed hides it
        function.cache_clear()


@pytest.fixture
def rng() -> random.Random:
    return random.Random(1)
"""
"""The same examples for every mutant; the repository's own conftest.py would bring all its fixtures with it."""

_WITHOUT = ("cacheprovider", "randomly", "unraisableexception", "threadexception")
"""Plugins of pytest: what they do at the end of each run (five garbage collections) takes longer than most tests."""


@dataclass(frozen=True)
class Score:
    """`untested`: in functions that no core test calls; `left`: not tried, for want of time."""

    hash: str
    mutants: int
    killed: int
    survived: int
    untested: int
    left: int = 0

    @property
    def percent(self) -> float:
        tried = self.mutants - self.left
        return 100.0 if not tried else round(100 * self.killed / tried, 1)


def hash_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def recorded() -> dict[str, Score]:
    if not RECORD.exists():
        return {}
    return {name: Score(**values) for name, values in json.loads(RECORD.read_text())["modules"].items()}


def record(scores: Mapping[str, Score]) -> None:
    """Record what was measured to its end; files that are no longer there are forgotten."""
    there = {_name(p) for p in _modules()}
    known = recorded() | {name: s for name, s in scores.items() if not s.left}
    modules = {name: asdict(s) for name, s in sorted(known.items()) if name in there}
    RECORD.write_text(json.dumps({"tests": TESTS, "modules": modules}, indent=1) + "\n")


def changed() -> list[str]:
    """Core modules that are not as they were when the score was recorded."""
    known = recorded()
    return [n for p in _modules() if (n := _name(p)) not in known or known[n].hash != hash_of(p)]


def _modules() -> list[Path]:
    return [p for p in sorted(CORE.rglob("*.py")) if p.stem != "__init__"]


def _name(module: Path) -> str:
    """Such as `batch/planning`."""
    return str(module.relative_to(CORE).with_suffix(""))


def test_files(only: Iterable[str]) -> list[Path]:
    """The tests that are to notice, and what they import. `only`: these files alone; fewer tests notice no more."""
    return sorted({p for pattern in (*(only or TESTS), *HELPERS) for p in ROOT.glob(pattern)})


def measure(
    modules: Iterable[str],
    seconds: float | None,
    stage: Path,
    jobs: int = 2,
    tests: Iterable[str] = (),
    survivors: bool = False,
) -> dict[str, Score]:
    """Try the mutants of these modules, for at most `seconds`. `tests`: as `only` of `test_files`. `survivors`: those
    alone that the stage's last run did not kill, and those of functions that have changed since."""
    modules = sorted(modules)
    _prepare(stage, modules, test_files(tests), survivors)
    command = [sys.executable, str(HERE), "run", "--max-children", str(jobs)]
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    env |= {"TIDEGATE_TEST_SEED": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with open(stage / "mutmut.log", "w") as log:
        child = subprocess.Popen(command, cwd=stage, env=env, stdout=log, stderr=log, start_new_session=True)
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    scores = {name: _score(stage, name) for name in modules}
    broken = child.returncode > 0 and all(s.left == s.mutants for s in scores.values())
    if broken or not any(s.mutants for s in scores.values()):
        raise RuntimeError(f"mutmut tried nothing:\n{_said(stage)[-3000:]}")
    return scores


def _prepare(stage: Path, modules: list[str], tests: list[Path], survivors: bool) -> None:
    """A copy of the sources and of the tests that matter; kept while both are the same, so that a run can go on."""
    parts = [*(ROOT / "plugins/tidegate").rglob("*.py"), *tests, HERE]
    key = hashlib.sha256("".join(f"{p.relative_to(ROOT)} {hash_of(p)}\n" for p in sorted(parts)).encode())
    key.update(f"{modules} {_CONFTEST}".encode())
    stamp = stage / "of"
    if stamp.exists() and stamp.read_text() == key.hexdigest():
        return
    if survivors:
        _keep_killed(stage)
    else:
        shutil.rmtree(stage, ignore_errors=True)
    (stage / "tests/unit").mkdir(parents=True)
    shutil.copytree(ROOT / "plugins/tidegate", stage / "src/tidegate", ignore=shutil.ignore_patterns("__pycache__"))
    for test in tests:
        shutil.copy(test, stage / "tests/unit")
    only = "".join(f"\n    src/tidegate/core/{name}.py" for name in modules)
    (stage / "tests/conftest.py").write_text(_CONFTEST)
    (stage / "setup.cfg").write_text(
        f"[mutmut]\nsource_paths=src\nonly_mutate={only}\n"
        "pytest_add_cli_args_test_selection=tests/unit\n"
        "pytest_add_cli_args=" + "".join(f"\n    -p\n    no:{plugin}" for plugin in _WITHOUT) + "\n"
    )
    stamp.write_text(key.hexdigest())


def _keep_killed(stage: Path) -> None:
    """Leave of the last run which mutants it killed; mutmut itself forgets those of functions that have changed."""
    for gone in ("src", "tests", "mutants/tests"):
        shutil.rmtree(stage / gone, ignore_errors=True)
    (stage / "mutants/mutmut-stats.json").unlink(missing_ok=True)
    for meta in (stage / "mutants").rglob("*.meta"):
        said = json.loads(meta.read_text())
        codes = said["exit_code_by_key"]
        said["exit_code_by_key"] = {k: c if _status(c) == "killed" else None for k, c in codes.items()}
        meta.write_text(json.dumps(said))


def _said(stage: Path) -> str:
    """What mutmut printed, without the lines in which it only turned its wheel."""
    lines = re.split(r"[\r\n]+", (stage / "mutmut.log").read_text())
    return "\n".join(line for line in lines if not re.match(r"\s*[\u2800-\u28ff] ", line))


def _codes(stage: Path, name: str) -> dict[str, int | None]:
    """mutmut's exit code for each mutant; None: not tried yet. A port has nothing that could run."""
    meta = stage / f"mutants/src/tidegate/core/{name}.py.meta"
    codes = json.loads(meta.read_text())["exit_code_by_key"] if meta.exists() else {}
    ports = tuple(f".xǁ{port}ǁ" for port in _ports((stage / f"src/tidegate/core/{name}.py").read_text()))
    return {key: code for key, code in codes.items() if not any(port in key for port in ports)}


def _ports(source: str) -> list[str]:
    """Classes of a module that only say what an adapter has to have."""
    found = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    return [node.name for node in found if any(isinstance(b, ast.Name) and b.id == "Protocol" for b in node.bases)]


def _score(stage: Path, name: str) -> Score:
    count: Counter[str] = Counter()
    for code in _codes(stage, name).values():
        count[_status(code)] += 1
    return Score(
        hash_of(stage / f"src/tidegate/core/{name}.py"), count.total(), count["killed"], count["survived"],
        count["untested"], count["left"],
    )  # fmt: skip


def _status(code: int | None) -> str:
    """A field of `Score`."""
    if code is None:
        return "left"
    return _STATUS.get(code, "killed" if code < 0 else "survived")


def survivors(stage: Path, modules: Iterable[str]) -> str:
    """File, line and difference of each mutant that no test noticed."""
    names = [k for m in modules for k, code in _codes(stage, m).items() if code == 0]
    if not names:
        return ""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, str(HERE), "show"], input="\n".join(names), cwd=stage, env=env, capture_output=True, text=True
    )
    return done.stdout or done.stderr


def table(scores: dict[str, Score]) -> str:
    lines = [f"{'module':<24}{'mutants':>8}{'killed':>8}{'survived':>9}{'untested':>9}{'left':>6}{'score':>8}"]
    total = Score(
        "",
        *(sum(getattr(s, f) for s in scores.values()) for f in ("mutants", "killed", "survived", "untested", "left")),
    )
    for name, s in [*sorted(scores.items()), ("all", total)]:
        if s.mutants:
            lines.append(
                f"{name:<24}{s.mutants:>8}{s.killed:>8}{s.survived:>9}{s.untested:>9}{s.left:>6}{s.percent:>7}%"
            )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--changed", action="store_true", help="only files that are not as recorded")
    parser.add_argument("--only", nargs="*", help="these modules; nothing is recorded without --record")
    parser.add_argument("--record", action="store_true", help="record these modules, and leave others as they are")
    parser.add_argument("--tests", nargs="*", default=(), help="with these test files alone")
    parser.add_argument("--survivors", action="store_true", help="only what the run before did not kill")
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    modules = changed() if options.changed else options.only or [_name(p) for p in _modules()]
    if not modules:
        print("no core file has changed since the score was recorded")
        return 0
    full = not options.changed and not options.only
    stage = STAGES / ("full" if full else "some")
    scores = measure(modules, options.seconds, stage, options.jobs, options.tests, options.survivors)
    print(table(scores))
    listed = survivors(stage, modules)
    (stage / "survivors.txt").write_text(listed)
    print(f"what survived: {stage / 'survivors.txt'}" if full else listed)
    left = sum(s.left for s in scores.values())
    if left:
        print(f"{left} mutants were not tried: run it again")
    if full or options.record:
        record(scores)
    return 0


if __name__ == "__main__":
    sys.exit(main())
