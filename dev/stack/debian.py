"""Programs and libraries from Debian's packages, unpacked and not installed: needs a network, no rights."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from dev.stack.errors import StackError

_PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64"}
_DOWNLOAD_S = 300.0
SID = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian sid main\n"
"""The distribution that packages enter first: what is not in a release yet. It changes daily."""


def is_here() -> bool:
    """Whether this machine has Debian's tools."""
    return bool(shutil.which("apt-get") and shutil.which("dpkg"))


def unpacked(folder: Path, names: Sequence[str], processor: str | None = None, sources: str = "") -> Path:
    """`folder`, with the packages' files as under `/`; it is renamed into place when it is whole, and then stays.

    `processor` is Debian's word (`amd64`, `arm64`), None: this machine's. `sources`: another distribution than the
    machine's (`SID`): what its packages need comes from it too, the C library first. Raises StackError."""
    if folder.is_dir():
        return folder
    if not is_here():
        raise StackError(f"{names[0]} comes from Debian's packages: there is no apt-get or no dpkg here")
    processor = processor or _PROCESSORS.get(platform.machine(), platform.machine())
    work = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(work, ignore_errors=True)
    state, packages, root = work / "apt", work / "packages", work / "root"
    for made in (state / "lists/partial", state / "cache/archives/partial", packages, root):
        made.mkdir(parents=True)
    (state / "status").touch()  # nothing is installed
    options = {
        "APT::Architecture": processor, "APT::Architectures": processor, "Dir::State": state,
        "Dir::State::lists": state / "lists", "Dir::State::status": state / "status", "Dir::Cache": state / "cache",
    }  # fmt: skip
    apt = ["apt-get", "-q", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
    commands = [["update"], ["download", *names]]
    if sources:
        (work / "sources.list").write_text(sources)
        here = {"Dir::Etc::sourcelist": work / "sources.list", "Dir::Etc::sourceparts": "-"}
        apt += (word for key, value in here.items() for word in ("-o", f"{key}={value}"))
        apt += ["-o", f"Dir::Cache::archives={packages}", "--no-install-recommends", "--yes", "--download-only"]
        commands = [["update"], ["install", *names]]
        (packages / "partial").mkdir()
    for command in commands:
        _run([*apt, *command], packages, sources)
    for package in packages.glob("*.deb"):
        _run(["dpkg", "-x", str(package), str(root)], packages, sources)
    root.rename(folder)
    shutil.rmtree(work)
    return folder


def _run(command: Sequence[str], cwd: Path, sources: str) -> None:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, errors="replace", timeout=_DOWNLOAD_S)
    except subprocess.TimeoutExpired:
        raise StackError(f"{command[0]} {command[-1]} took longer than {_DOWNLOAD_S:.0f} s") from None
    if done.returncode:
        words = " | ".join(done.stderr.strip().splitlines()[-3:])
        why = "network? sid changes daily: try again tomorrow" if sources else "network? another Debian than 12?"
        raise StackError(f"{command[0]} {command[-1]} failed ({why}): {words}")
