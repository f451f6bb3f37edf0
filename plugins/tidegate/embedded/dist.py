"""`make dist`: what a release consists of, in `dist/`.

- the wheel: for schedulers, workers, triggerer and web server
- the workers' archive: all that Spark executors on other machines import beside Spark itself, at the versions of
  requirements.lock; for hosts with this Python, system and processor. Spark brings it to them
  (`[tidegate] spark_worker_archive`), so nothing is installed there.
- SHA256SUMS
"""

from __future__ import annotations

import gzip
import hashlib
import os
import platform
import shutil
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tidegate.embedded import bootstrap

LEFT_OUT = ("pyspark",)
"""Executors have their own Spark's."""


def main(arguments: Sequence[str]) -> int:
    """Build both into the folder that is named, else `dist/` of the checkout."""
    target = Path(arguments[0]) if arguments else bootstrap.CHECKOUT / "dist"
    try:
        for made in build(target.absolute()):
            bootstrap.say(f"{made}, {made.stat().st_size / 1e6:,.1f} MB")
    except bootstrap.SetupError as error:
        print(f"make dist: {error}", file=sys.stderr)
        return 1
    return 0


def build(target: Path) -> list[Path]:
    """The files made. What an earlier build left in `target` is removed. Raises SetupError."""
    uv = _uv(bootstrap.install_installer())
    with tempfile.TemporaryDirectory(prefix="tidegate-dist-") as folder:
        work = Path(folder)
        built = wheel(work / "wheel")
        packages = work / "packages"
        _install(uv, built, packages)
        archive = work / f"tidegate-worker-{built.name.split('-')[1]}-{_place()}.tar.gz"
        bootstrap.say("packing the workers' archive ...")
        pack(packages, archive)
        return _move([built, archive], target)


def wheel(out: Path) -> Path:
    """Build it into the folder; needs no network. Raises SetupError."""
    installer = bootstrap.install_installer()
    shutil.rmtree(bootstrap.CHECKOUT / "build", ignore_errors=True)  # else files that are gone would be packed again
    command = [*_uv(installer), "build", "--wheel", "--offline", "--no-build-isolation"]
    env = {"PYTHONPATH": str(installer), **bootstrap.own_compiler()}
    place = ["--python", str(bootstrap.PYTHON), "--out-dir", str(out)]
    bootstrap.step("building the wheel", [*command, *place, str(bootstrap.CHECKOUT)], env)
    shutil.rmtree(bootstrap.CHECKOUT / "build", ignore_errors=True)
    return next(out.glob("*.whl"))


def _uv(installer: Path) -> list[str]:
    return [str(installer / "bin" / "uv"), "--no-progress", "--no-config"]


def worker_requirements(pyproject: Path = bootstrap.CHECKOUT / "pyproject.toml") -> list[str]:
    """Of the wheel's extra `worker`."""
    extras = tomllib.loads(pyproject.read_text())["project"]["optional-dependencies"]
    return [named for named in extras["worker"] if not named.startswith(LEFT_OUT)]


def _install(uv: list[str], built: Path, packages: Path) -> None:
    place = ["pip", "install", "--python", str(bootstrap.PYTHON), "--target", str(packages)]
    lock = bootstrap.CHECKOUT / "requirements.lock"
    named = worker_requirements()
    bootstrap.step("installing the workers' packages", [*uv, *place, "--constraints", str(lock), *named])
    bootstrap.step("installing tidegate", [*uv, *place, "--no-deps", "--offline", str(built)])
    for name in ("bin", "include", ".lock"):  # scripts and headers: nobody calls them in an executor
        shutil.rmtree(packages / name, ignore_errors=True)


def pack(packages: Path, archive: Path, level: int = 6) -> None:
    """A tar.gz of the folder's content; sorted, without times and owners: equal content gives equal bytes."""
    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", level, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for path in sorted(packages.rglob("*")):
            if "__pycache__" not in path.parts:
                tar.add(path, path.relative_to(packages), recursive=False, filter=_anonymous)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def _place() -> str:
    return f"cp{sys.version_info[0]}{sys.version_info[1]}-{platform.system().lower()}_{platform.machine()}"


def _move(made: list[Path], target: Path) -> list[Path]:
    target.mkdir(parents=True, exist_ok=True)
    for old in (*target.glob("tidegate-*"), target / "SHA256SUMS"):
        old.unlink(missing_ok=True)
    found = [Path(shutil.move(path, target / path.name)) for path in made]
    sums = target / "SHA256SUMS"
    sums.write_text("".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in found))
    return [*found, sums]


if __name__ == "__main__":
    os.umask(0o022)
    raise SystemExit(main(sys.argv[1:]))
