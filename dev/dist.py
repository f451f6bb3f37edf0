"""`make dist`: what a release consists of, in `dist/`.

- the wheels, for schedulers, workers, triggerer and web server: one for each platform (x86-64 and arm64, glibc and
  musl), each with the C library, built here by zig's compiler. A wheel without the library is made only when asked
  for: `--without-library`.
- the workers' archive: all that Spark executors on other machines import beside Spark itself, at the versions of
  requirements.lock; for hosts with this Python and of this platform, or of the one that `--workers` names. Spark
  brings it to them (`[tidegate] spark_worker_archive`), so nothing is installed there.
- SHA256SUMS
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import shutil
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from dev import bootstrap, wheels
from dev.wheels import PLATFORMS, Platform

LEFT_OUT = ("pyspark",)
"""Executors have their own Spark's."""
PLATFORM_FILE = "tidegate_platform"
"""In the workers' archive: what it was made for, so that an executor of another kind can say so."""
_UV_PLATFORMS = {"glibc": "{}-manylinux_2_28", "musl": "{}-unknown-linux-musl"}
"""How uv calls them; 2.28 is the oldest glibc that wheels of PyArrow and others serve."""


def main(arguments: Sequence[str]) -> int:
    """Build all into the folder that is named, else `dist/` of the checkout."""
    asked = _parser().parse_args(arguments)
    workers = next((p for p in PLATFORMS if str(p) == asked.workers), wheels.here())
    try:
        for made in build(asked.folder.absolute(), workers, asked.mode):
            bootstrap.say(f"{made}, {made.stat().st_size / 1e6:,.1f} MB")
    except bootstrap.SetupError as error:
        print(f"make dist: {error}", file=sys.stderr)
        return 1
    if asked.mode == "without":
        bootstrap.say("the wheel has no C library, as asked: jobs that use it take about seven times the CPU")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make dist", description="the wheels and the archive for executors")
    parser.add_argument("folder", nargs="?", type=Path, default=bootstrap.CHECKOUT / "dist")
    parser.add_argument("--workers", choices=list(map(str, PLATFORMS)), help="the executors' platform; else this one")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--here", dest="mode", action="store_const", const="here", default="all",
                       help="one wheel, for machines like this one, by its own C compiler")  # fmt: skip
    modes.add_argument("--without-library", dest="mode", action="store_const", const="without",
                       help="one wheel for every platform, without the C library")  # fmt: skip
    return parser


def build(target: Path, workers: Platform, mode: str = "all") -> list[Path]:
    """The files made. What an earlier build left in `target` is removed. Raises SetupError."""
    if mode == "here" and workers != wheels.here():
        raise bootstrap.SetupError(f"--here builds for {wheels.here()}, and the executors' platform is {workers}")
    uv = _uv(bootstrap.install_installer())
    with tempfile.TemporaryDirectory(prefix="tidegate-dist-") as folder:
        work = Path(folder)
        built = wheel_files(work / "wheels", mode)
        fitting = built.get(workers) or built.get(None)
        if fitting is None:
            raise bootstrap.SetupError(
                f"no wheel is built for {workers}; make dist ARGS=--here builds for this machine, with its own compiler"
            )
        packages = work / "packages"
        _install(uv, fitting, packages, workers)
        version = fitting.name.split("-")[1]
        archive = work / f"tidegate-worker-{version}-{_python_tag()}-{_system(workers)}.tar.gz"
        bootstrap.say("packing the workers' archive ...")
        pack(packages, archive)
        return _move([*built.values(), archive], target)


def wheel_files(out: Path, mode: str = "all") -> dict[Platform | None, Path]:
    """Build the wheels into the folder, by platform; None: of every platform. Raises SetupError, with nothing of a
    wheel left that lacks its library."""
    installer = bootstrap.install_installer()
    uv = _uv(installer)
    shutil.rmtree(bootstrap.CHECKOUT / "build", ignore_errors=True)  # else files that are gone would be packed again
    with tempfile.TemporaryDirectory(prefix="tidegate-wheels-") as folder:
        work = Path(folder)
        base = wheels.base_wheel(work / "base", installer, uv)
        shutil.rmtree(bootstrap.CHECKOUT / "build", ignore_errors=True)
        if mode == "without":
            return {None: wheels.put_in(base, None, ("any",), out)}
        if mode == "here":
            library, here = wheels.build_here(work, uv, installer), wheels.here()
            return {here: wheels.put_in(base, library, (f"linux_{here.machine}",), out)}
        env = wheels.zig(uv, installer)
        libraries = {p: wheels.cross_build(p, work / str(p), env) for p in PLATFORMS}
        return {p: wheels.put_in(base, library, p.tags, out) for p, library in libraries.items()}


def _uv(installer: Path) -> list[str]:
    return [str(installer / "bin" / "uv"), "--no-progress", "--no-config"]


def worker_requirements() -> list[str]:
    """Of the wheel's extra `worker`."""
    extras = tomllib.loads((bootstrap.CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return [named for named in extras["worker"] if not named.startswith(LEFT_OUT)]


def _install(uv: list[str], built: Path, packages: Path, workers: Platform) -> None:
    place = ["pip", "install", "--python", str(bootstrap.PYTHON), "--target", str(packages)]
    if workers != wheels.here():
        place += ["--python-platform", _UV_PLATFORMS[workers.libc].format(workers.machine), "--only-binary", ":all:"]
    lock = bootstrap.CHECKOUT / "requirements.lock"
    named = worker_requirements()
    try:
        bootstrap.step("installing the workers' packages", [*uv, *place, "--constraints", str(lock), *named])
    except bootstrap.SetupError as error:
        if workers == wheels.here():
            raise
        raise bootstrap.SetupError(
            f"{error}; for executors on another platform every package needs a wheel of that platform. What to do: "
            f"make dist ARGS=--here on a machine with {workers}"
        ) from error
    bootstrap.step("installing tidegate", [*uv, *place, "--no-deps", "--offline", str(built)])
    for name in ("bin", "include", ".lock"):  # scripts and headers: nobody calls them in an executor
        shutil.rmtree(packages / name, ignore_errors=True)
    (packages / PLATFORM_FILE).write_text(f"{_python_tag()} {workers}\n")


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


def _python_tag() -> str:
    return f"cp{sys.version_info[0]}{sys.version_info[1]}"


def _system(workers: Platform) -> str:
    return f"{'musl' if workers.libc == 'musl' else ''}linux_{workers.machine}"


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
