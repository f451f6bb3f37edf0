"""The release that upgrades are tested from: its code, as the repository's history has it."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

COMMIT = "4ade367cc5a625667a145baaa02120e39e293fc2"
"""0.1.0, the first release."""
REVISION = "0006"
"""The schema revision of its ledgers."""
ROOT = Path(__file__).parents[2]


def checkout(folder: Path, root: Path = ROOT) -> Path:
    """The release's code, unpacked into `folder`. Fails the test where the history does not reach back to it, and skips
    it where there is no history at all, as in a source archive."""
    if not (root / ".git").exists():
        pytest.skip("no .git here, so that 0.1.0's code is out of reach: upgrades are tested in a clone")
    known = _git(root, "cat-file", "-e", f"{COMMIT}^{{commit}}")
    if known.returncode:
        pytest.fail(
            f"upgrades are tested from 0.1.0, commit {COMMIT}, which this clone lacks: git fetch --unshallow origin, "
            f"or git fetch origin {COMMIT} ({known.stderr.decode().strip()})",
            pytrace=False,
        )
    archive = _git(root, "archive", COMMIT, "plugins", "spark_jobs", "tests")
    assert archive.returncode == 0, archive.stderr.decode()
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return folder


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(["git", *arguments], cwd=root, env=env, capture_output=True, check=False)


def environment(code: Path) -> dict[str, str]:
    """Of a process that runs the release's code; neither Airflow's nor Tidegate's settings of this one. What it
    compiles the next one need not."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "TIDEGATE"))}
    return env | {"PYTHONPATH": f"{code}/plugins:{code}", "PYTHONDONTWRITEBYTECODE": ""}


def run(code: Path, script: str, *arguments: str | Path) -> None:
    """A script of this folder, in a process of the release."""
    command = [sys.executable, str(Path(__file__).with_name(script)), *map(str, arguments)]
    done = subprocess.run(command, env=environment(code), cwd=code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
