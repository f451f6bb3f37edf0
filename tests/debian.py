"""Programs and libraries from Debian's packages, for this processor and another one, unpacked and not installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

APT = Path("/etc/apt")


def unpacked(folder: Path, processor: str, names: Sequence[str]) -> Path:
    """A folder with the packages' files, as under `/`. `processor` is Debian's word: `amd64`, `arm64`. Skips the test
    where there is no apt. Needs a network, no rights."""
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        pytest.skip("no Debian here, whose packages bring an emulator and the other platforms' C libraries")
    state, packages, root = folder / "apt", folder / "packages", folder / "root"
    for made in (state / "lists/partial", state / "cache/archives/partial", packages, root):
        made.mkdir(parents=True)
    (state / "status").touch()  # nothing is installed
    options = {
        "APT::Architecture": processor, "APT::Architectures": processor, "Dir::State": state,
        "Dir::State::lists": state / "lists", "Dir::State::status": state / "status", "Dir::Cache": state / "cache",
    }  # fmt: skip
    apt = ["apt-get", "-q", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
    for command in (["update"], ["download", *names]):
        done = subprocess.run([*apt, *command], cwd=packages, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
    for package in packages.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(root)], check=True, capture_output=True)
    return root
