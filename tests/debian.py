"""Debian's packages for a test: for this processor and another one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dev.stack import debian

APT = Path("/etc/apt")


def unpacked(folder: Path, processor: str, names: Sequence[str]) -> Path:
    """A folder with the packages' files, as under `/`. Skips the test where there is no apt."""
    if not debian.is_here():
        pytest.skip("no Debian here, whose packages bring an emulator and the other platforms' C libraries")
    return debian.unpacked(folder / "root", names, processor)
