"""Packages that are unpacked: another distribution's come with all that they need, and what went wrong is said."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from dev.stack import debian
from dev.stack.errors import StackError


class Apt:
    """Stands for the programs; `fails`: a word of the command that does."""

    def __init__(self, fails: str = "") -> None:
        self.fails, self.commands = fails, list[list[str]]()

    def __call__(self, command: list[str], cwd: Path, **_: Any) -> subprocess.CompletedProcess[str]:
        self.commands.append([str(word) for word in command])
        failed = bool(self.fails) and self.fails in command
        if "install" in command or "download" in command:
            (cwd / "a.deb").touch()
        return subprocess.CompletedProcess(command, int(failed), "", "E: nothing of that name\n")


@pytest.fixture
def apt(monkeypatch: pytest.MonkeyPatch) -> Apt:
    made = Apt()
    monkeypatch.setattr(debian, "is_here", lambda: True)
    monkeypatch.setattr(subprocess, "run", made)
    return made


def test_packages_of_the_machine_s_own_distribution_come_alone(apt: Apt, tmp_path: Path) -> None:
    assert debian.unpacked(tmp_path / "mine", ["one", "two"], "amd64") == tmp_path / "mine"
    update, download, unpack = apt.commands
    assert update[-1] == "update"
    assert download[-3:] == ["download", "one", "two"]
    assert "sourcelist" not in " ".join(download)
    assert unpack[:2] == ["dpkg", "-x"]
    assert (tmp_path / "mine").is_dir()
    assert not (tmp_path / "mine.new").exists()
    debian.unpacked(tmp_path / "mine", ["one"])
    assert len(apt.commands) == 3


def test_packages_of_sid_come_with_what_they_need(apt: Apt, tmp_path: Path) -> None:
    debian.unpacked(tmp_path / "sid", ["one"], "amd64", debian.SID)
    update, install, _ = apt.commands
    assert install[-2:] == ["install", "one"]
    assert {"--download-only", "--no-install-recommends"} <= {*install}
    assert any(word.startswith("Dir::Etc::sourcelist=") for word in update)
    assert "signed-by" in debian.SID


@pytest.mark.parametrize(("sources", "says"), [("", "another Debian than 12"), (debian.SID, "sid changes daily")])
def test_what_cannot_be_had_is_said_and_leaves_nothing(apt: Apt, tmp_path: Path, sources: str, says: str) -> None:
    apt.fails = "install" if sources else "download"
    with pytest.raises(StackError, match=f"{says}.*nothing of that name"):
        debian.unpacked(tmp_path / "x", ["one"], "amd64", sources)
    assert not (tmp_path / "x").exists()
