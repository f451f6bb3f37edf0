"""The wheels of a release: one for each platform, each with the C library built for it.

The library needs nothing of Python's (it is called by ctypes), so one wheel of a platform serves every Python that the
project admits: `py3-none-<platform>`. All of them are the same wheel from the build backend, and differ in the library
that is put into it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import tomllib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from dev import bootstrap, elf

GLIBC = (2, 17)
"""The oldest glibc that the wheels load on (manylinux2014: 2012 and later)."""
PLACE = f"{bootstrap.NATIVE}/_native.so"
_LIBC = {"glibc": {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}, "musl": {"libc.so"}}
"""What a library may need of each."""
_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Platform:
    """A processor and a C library."""

    machine: str
    libc: str

    def __str__(self) -> str:
        return f"{self.machine}-{self.libc}"

    @property
    def target(self) -> str:
        """As zig's compiler calls it."""
        abi = "gnu." + ".".join(map(str, GLIBC)) if self.libc == "glibc" else "musl"
        return f"{self.machine}-linux-{abi}"

    @property
    def tags(self) -> tuple[str, ...]:
        """As the wheel's name and its metadata call it."""
        if self.libc == "musl":
            return (f"musllinux_1_2_{self.machine}",)
        return (f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{self.machine}", f"manylinux2014_{self.machine}")


PLATFORMS = tuple(Platform(machine, libc) for libc in ("glibc", "musl") for machine in ("x86_64", "aarch64"))


def here() -> Platform:
    """The platform of this process; it may be one that PLATFORMS lacks."""
    return Platform(os.uname().machine, "musl" if "musl" in EXTENSION_SUFFIXES[0] else "glibc")


def zig(uv: Sequence[str], installer: Path) -> dict[str, str]:
    """zig's compiler from the package registry; the environment that it runs in. Raises SetupError with what else
    could be done."""
    try:
        return bootstrap.packaged_compiler([*uv, "pip"], installer)
    except bootstrap.SetupError as error:
        raise bootstrap.SetupError(
            f"{error}; the compiler that builds for all platforms (zig, requirements-compiler.txt) could not be "
            "installed. What to do: make the package registry reachable; or make dist ARGS=--here (this machine's "
            "platform only, with its own C compiler); or make dist ARGS=--without-library (rows are the same, jobs "
            "take about seven times the CPU)"
        ) from error


def cross_build(platform: Platform, into: Path, env: dict[str, str]) -> Path:
    """The library for a platform, by zig. Raises SetupError, also if the library is not of that platform."""
    compiler = [*env["CC"].split(), "-target", platform.target]
    library = _compile(f"building the C library for {platform}", compiler, into, env)
    check(library, platform)
    return library


def build_here(into: Path, uv: Sequence[str], installer: Path) -> Path:
    """The library for this machine, by its own compiler, or by zig where that is missing or fails. Raises
    SetupError."""
    own = bootstrap.compiler_here()
    if own:
        try:
            return _compile("building the C library", own, into, {})
        except bootstrap.SetupError as error:
            bootstrap.say(f"{error}; going on with zig")
    env = zig(uv, installer)
    return _compile("building the C library with zig", env["CC"].split(), into, env)


def _compile(what: str, compiler: Sequence[str], into: Path, env: dict[str, str]) -> Path:
    extension = tomllib.loads((bootstrap.CHECKOUT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    flags, sources = extension[0]["extra-compile-args"], extension[0]["sources"]
    into.mkdir(parents=True, exist_ok=True)
    library = into / "_native.so"
    bootstrap.step(what, [*compiler, "-shared", "-fPIC", "-s", *flags, *sources, "-o", str(library)], env)
    if not library.exists():
        raise bootstrap.SetupError(f"{what}: {compiler[0]} ended with exit code 0 and left no library")
    return library


def check(library: Path, platform: Platform) -> None:
    """Raises SetupError if the library would not load wherever a wheel of the platform is installed."""
    try:
        found = elf.read(library)
    except elf.ElfError as error:
        raise bootstrap.SetupError(str(error)) from error
    wrong = []
    if found.machine != platform.machine:
        wrong.append(f"it is for {found.machine}")
    if more := sorted(set(found.needs) - _LIBC[platform.libc]):
        wrong.append(f"it needs {', '.join(more)}")
    if platform.libc == "glibc" and found.glibc() > GLIBC:
        wrong.append(f"it needs glibc {'.'.join(map(str, found.glibc()))}")
    if wrong:
        raise bootstrap.SetupError(f"the library built for {platform} is not of that platform: {'; '.join(wrong)}")


def base_wheel(out: Path, installer: Path, uv: Sequence[str]) -> Path:
    """The project's wheel from its build backend, without the library. Needs no network. Raises SetupError."""
    command = [*uv, "build", "--wheel", "--offline", "--no-build-isolation", "--python", str(bootstrap.PYTHON)]
    env = {"PYTHONPATH": str(installer), "CC": "false"}  # the library comes afterwards, one for each platform
    bootstrap.step("building the wheel", [*command, "--out-dir", str(out), str(bootstrap.CHECKOUT)], env)
    return next(out.glob("*.whl"))


def put_in(base: Path, library: Path | None, tags: Sequence[str], out: Path) -> Path:
    """A copy of the wheel that has the library and says these platforms. Equal input gives equal bytes."""
    name, version, *_ = base.name.split("-")
    made = out / f"{name}-{version}-py3-none-{'.'.join(tags)}.whl"
    info = f"{name}-{version}.dist-info"
    out.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(base) as source:
        files = {n: source.read(n) for n in source.namelist() if not n.endswith((".so", "/"))}
    del files[f"{info}/RECORD"]
    files[f"{info}/WHEEL"] = _metadata(files[f"{info}/WHEEL"].decode(), library is None, tags).encode()
    if library is not None:
        files[PLACE] = library.read_bytes()
    record = [f"{path},sha256={_digest(content)},{len(content)}" for path, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if path.endswith(".so") else 0o100644) << 16
            wheel.writestr(entry, content)
    return made


def _metadata(text: str, pure: bool, tags: Sequence[str]) -> str:
    kept = [line for line in text.splitlines() if line and not line.startswith(("Tag:", "Root-Is-Purelib:"))]
    ours = [f"Root-Is-Purelib: {str(pure).lower()}", *(f"Tag: py3-none-{tag}" for tag in tags)]
    return "\n".join([*kept, *ours, ""])


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
