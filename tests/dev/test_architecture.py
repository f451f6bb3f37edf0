"""The arrows between the parts, the planes, and the size of files: what docs/architecture.md promises."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.mutants import core_score

ROOT = Path(__file__).parents[2]
SOURCES = [p for top in ("plugins", "spark_jobs", "dags", "dev") for p in sorted((ROOT / top).rglob("*.py"))]


def test_the_arrows_between_packages() -> None:
    """import-linter, with the contracts in pyproject.toml."""
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_two_test_files_outside_of_packages_share_a_name() -> None:
    """pytest imports such files by their bare name: two of one name end the whole run, though each passes alone."""
    tests = [p for p in sorted((ROOT / "tests").rglob("*.py")) if not (p.parent / "__init__.py").exists()]
    twice = [name for name, n in Counter(p.name for p in tests if p.name != "conftest.py").items() if n > 1]
    assert not twice


def test_tests_of_the_core_need_nothing_but_the_core() -> None:
    """Changed code of the core is tried against them thousands of times (tests/mutants/core_score.py), in a folder that
    holds nothing else."""
    needed = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in core_score.test_files(())
        for name in re.findall(r"^(?:from|import) (tests\b[\w.]*)", path.read_text(), re.M)
    }
    assert needed == set()


def test_style() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "."], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_types() -> None:
    """mypy, with the packages and the rules in pyproject.toml."""
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_core_uses_the_standard_library_only() -> None:
    code = (
        "import sys, pkgutil, importlib, tidegate.core as core\n"
        "for m in pkgutil.walk_packages(core.__path__, 'tidegate.core.'): importlib.import_module(m.name)\n"
        "assert 'tidegate.core.batch.planning' in sys.modules\n"
        "extra = {n.split('.')[0] for n in sys.modules} - sys.stdlib_module_names - {'tidegate', '__main__'}\n"
        "extra = {n for n in extra if not n.startswith(('_', 'sitecustomize', 'usercustomize'))}\n"
        "print(sorted(extra))"
    )
    assert _run(code) == "[]"


@pytest.mark.parametrize(
    "module",
    [
        "tidegate.workflow.batch.ingest",
        "tidegate.workflow.publish.archive",
        "tidegate.workflow.replay.replay",
        "tidegate.workflow.maintain.reconcile",
        "tidegate.ledger",
        "tidegate.targets.hive.catalogue",
        "tidegate.sources.kafka.control",
        "tidegate.databases.mariadb.control",
        "tidegate.databases.postgresql.control",
        "tidegate.storage",
        "tidegate.files",
        "tidegate.changes",
        "tidegate.wiring",
        "tidegate.spec",
        "tidegate.cli.main",
    ],
)
def test_the_control_plane_imports_neither_worker_libraries_nor_airflow(module: str) -> None:
    unwanted = ("pyarrow", "duckdb", "pyspark", "airflow")
    assert _run(f"import sys, {module}\nprint([m for m in {unwanted} if m in sys.modules])") == "[]"


def test_names_of_our_code_in_docs_and_docstrings_exist() -> None:
    """Such as `core.window.cut.window_start`: whoever moves or renames it is told where it is named."""
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in [*SOURCES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
        for name in re.findall(r"`((?:core|workflow|spark_jobs)(?:\.\w+)+)(?:\(\))?`", path.read_text())
        if name not in AIRFLOWS and not _exists(name if name.startswith("spark_jobs") else f"tidegate.{name}")
    }
    assert missing == set()


AIRFLOWS = ("core.default_timezone", "core.parallelism")
"""Settings, which begin as our names do."""


def _exists(name: str) -> bool:
    parts = name.split(".")
    for i in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:i]))
        except ModuleNotFoundError:
            continue
        for part in parts[i:]:
            if not hasattr(found, part) and part not in getattr(found, "__annotations__", ()):
                return False
            found = getattr(found, part, None)
        return True
    return False


def test_files_can_be_seen_whole() -> None:
    long = {str(p.relative_to(ROOT)): n for p in SOURCES if (n := len(p.read_text().splitlines())) > 400}
    assert long == {}


def _run(code: str) -> str:
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
