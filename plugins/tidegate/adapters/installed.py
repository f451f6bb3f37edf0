"""Installed versions of libraries, and every copy of tidegate that Airflow could import."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable, Mapping
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from tidegate import __version__
from tidegate.core.doctor.rules import Place


def python_version() -> str:
    """Version such as `3.11.7`."""
    return platform.python_version()


def versions(names: Iterable[str]) -> Mapping[str, str | None]:
    """Versions by distribution; None for a missing one."""
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def own_version() -> str:
    """Version of the sources that are imported here: a copied folder has no distribution to ask."""
    return __version__


def host_platform() -> str:
    """Processor and C library of this Python, such as `x86_64, glibc`."""
    return f"{os.uname().machine}, {'musl' if 'musl' in EXTENSION_SUFFIXES[0] else 'glibc'}"


def places(plugins_folder: Path | None) -> list[Place]:
    """Folders of all copies: the imported one first, then a wheel, and a copy in Airflow's plugins folder."""
    here = Path(__file__).resolve().parents[1]
    wheel = _wheel()
    candidates = [here, *([wheel] if wheel else []), *([plugins_folder / "tidegate"] if plugins_folder else [])]
    found: dict[Path, Place] = {}
    for package in (p.resolve() for p in candidates):
        if package in found or not (package / "__init__.py").is_file():
            continue
        of_wheel = wheel is not None and package == wheel.resolve()
        kind, version = ("wheel", versions(["tidegate"])["tidegate"]) if of_wheel else ("plugins", None)
        found[package] = Place(kind, str(package), version or "copy", digest(package), used=package == here)
    return list(found.values())


def digest(package: Path) -> str:
    """Digest of a copy's Python sources."""
    total = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        total.update(str(file.relative_to(package)).encode() + b"\0" + file.read_bytes())
    return total.hexdigest()


def _wheel() -> Path | None:
    """Folder of an installed distribution's package; None for an editable one."""
    try:
        files = metadata.distribution("tidegate").files or ()
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if str(file) == "tidegate/__init__.py":
            return Path(str(file.locate())).parent
    return None
