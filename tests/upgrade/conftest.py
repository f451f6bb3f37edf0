"""0.1.0's code, and what it leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.upgrade import release


@pytest.fixture(scope="session")
def old_checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """0.1.0, as its commit has it."""
    return release.checkout(tmp_path_factory.mktemp("old"))


@pytest.fixture(scope="session")
def left_behind(old_checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ledger, catalogue and files of `scene.live`, made by 0.1.0."""
    folder = tmp_path_factory.mktemp("made by 0.1.0") / "left"
    release.run(old_checkout, "scene.py", folder)
    return folder
