"""`make dist`: the wheels' content, and that none is made without its library unless asked for."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dev import bootstrap, dist, elf, wheels
from dev.wheels import PLATFORMS, Platform
from spark_jobs.engine import native
from tidegate import __version__

LIBRARY = next(Path(native.__file__).parent.glob("_native*.so"), None)
needs_library = pytest.mark.skipif(LIBRARY is None, reason="no C library here")
INFO = f"tidegate-{__version__}.dist-info"
INSTALL = dist._install


# ---------------------------------------------------------------- what a library asks for


@needs_library
def test_a_library_s_headers_are_read() -> None:
    assert LIBRARY is not None
    found = elf.read(LIBRARY)
    assert found.machine == os.uname().machine
    assert found.needs == ("libc.so.6",) or found.needs == ("libc.so",)
    if shutil.which("readelf") and found.versions:
        said = subprocess.run(["readelf", "-V", str(LIBRARY)], capture_output=True, text=True, check=True).stdout
        assert set(found.versions) == set(re.findall(r"Name: (\S+)  Flags", said))


@needs_library
def test_what_is_no_library_is_refused(tmp_path: Path) -> None:
    assert LIBRARY is not None
    file = tmp_path / "x.so"
    whole = LIBRARY.read_bytes()
    for content in (b"", b"\x7fELF\x01\x01" + bytes(100), whole[:40], whole[:2000], b"!<arch>"):
        file.write_bytes(content)
        with pytest.raises(elf.ElfError, match=r"x\.so"):
            elf.read(file)
        with pytest.raises(bootstrap.SetupError):
            wheels.check(file, PLATFORMS[0])


@pytest.mark.parametrize(
    ("library", "platform", "says"),
    [
        (elf.Library("x86_64", ("libc.so.6",), ("GLIBC_2.2.5", "GLIBC_2.14")), "x86_64-glibc", ""),
        (elf.Library("aarch64", ("libc.so.6",), ("GLIBC_2.17",)), "aarch64-glibc", ""),
        (elf.Library("x86_64", ("libc.so.6",), ("GLIBC_2.17", "GLIBC_2.4")), "aarch64-glibc", "it is for x86_64"),
        (elf.Library("x86_64", ("libc.so.6",), ("GLIBC_2.4", "GLIBC_2.33")), "x86_64-glibc", "it needs glibc 2.33"),
        (
            elf.Library("x86_64", ("libc.so.6", "libpython3.11.so.1.0"), ()),
            "x86_64-glibc",
            "needs libpython3.11.so.1.0",
        ),
        (elf.Library("x86_64", ("libc.so",), ()), "x86_64-musl", ""),
        (elf.Library("x86_64", ("libc.so.6",), ("GLIBC_2.4",)), "x86_64-musl", "it needs libc.so.6"),
    ],
)
def test_a_library_must_be_what_the_wheel_s_name_promises(
    monkeypatch: pytest.MonkeyPatch, library: elf.Library, platform: str, says: str
) -> None:
    monkeypatch.setattr(elf, "read", lambda path: library)
    asked = next(p for p in PLATFORMS if str(p) == platform)
    if not says:
        return wheels.check(Path("x.so"), asked)
    with pytest.raises(bootstrap.SetupError, match=re.escape(says)):
        wheels.check(Path("x.so"), asked)


# ---------------------------------------------------------------- the wheels


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A wheel as the build backend makes it on this machine, with a library that must not stay."""
    path = tmp_path / "base" / f"tidegate-{__version__}-cp311-cp311-linux_x86_64.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tidegate/__init__.py", "one = 1\n")
        wheel.writestr("spark_jobs/engine/native/_native.cpython-311-x86_64-linux-gnu.so", b"old")
        wheel.writestr(f"{INFO}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n\n")
        wheel.writestr(f"{INFO}/RECORD", "stale")
    return path


def test_each_platform_s_wheel_has_one_library_and_says_where_it_fits(base: Path, tmp_path: Path) -> None:
    library = tmp_path / "_native.so"
    library.write_bytes(b"new")
    names = set()
    for platform in PLATFORMS:
        made = wheels.put_in(base, library, platform.tags, tmp_path / "out")
        names.add(made.name)
        with zipfile.ZipFile(made) as wheel:
            files = {n: wheel.read(n) for n in wheel.namelist()}
            assert wheel.getinfo(wheels.PLACE).external_attr >> 16 == 0o100755
        assert [n for n in files if n.endswith(".so")] == [wheels.PLACE]
        assert files[wheels.PLACE] == b"new"
        said = files[f"{INFO}/WHEEL"].decode().splitlines()
        assert [line for line in said if line.startswith("Tag:")] == [f"Tag: py3-none-{t}" for t in platform.tags]
        assert said.count("Root-Is-Purelib: false") == 1
        record = [line.split(",") for line in files[f"{INFO}/RECORD"].decode().splitlines()]
        assert {path for path, *_ in record} == set(files)
        for path, digest, size in record[:-1]:
            wanted = base64.urlsafe_b64encode(hashlib.sha256(files[path]).digest()).decode().rstrip("=")
            assert (digest, int(size)) == (f"sha256={wanted}", len(files[path]))
        assert record[-1] == [f"{INFO}/RECORD", "", ""]
        again = wheels.put_in(base, library, platform.tags, tmp_path / "again")
        assert again.read_bytes() == made.read_bytes()
    assert names == {
        f"tidegate-{__version__}-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        f"tidegate-{__version__}-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.whl",
        f"tidegate-{__version__}-py3-none-musllinux_1_2_x86_64.whl",
        f"tidegate-{__version__}-py3-none-musllinux_1_2_aarch64.whl",
    }
    assert wheels.here() in PLATFORMS


# ---------------------------------------------------------------- without a compiler


@pytest.fixture
def building(tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None, bool], list[str]]:
    """Sets this machine's compiler (None: there is none) and whether zig can be had; the steps taken, and whose
    compiler built something: `own` or `zig`."""
    steps: list[str] = []

    def step(what: str, command: list[str], env: dict[str, str] | None = None) -> None:
        steps.append(what)
        if "-shared" not in command:
            return
        if command[0] not in ("zig", "works"):
            done = subprocess.run(command, capture_output=True, cwd=tmp_path)
            if done.returncode:
                raise bootstrap.SetupError(f"{what} failed")
            return
        Path(command[-1]).write_bytes(b"zig" if command[0] == "zig" else b"own")

    def use(own: str | None, zig: bool) -> list[str]:
        def packaged(uv: list[str], installer: Path) -> dict[str, str]:
            if not zig:
                raise bootstrap.SetupError("installing a C compiler failed: the package registry could not be reached")
            return {"CC": "zig cc"}

        monkeypatch.setattr(bootstrap, "compiler_here", lambda: [own] if own else [])
        monkeypatch.setattr(bootstrap, "packaged_compiler", packaged)
        return steps

    monkeypatch.setattr(bootstrap, "CHECKOUT", tmp_path)
    shutil.copy(Path(__file__).parents[2] / "pyproject.toml", tmp_path)
    monkeypatch.setattr(bootstrap, "install_installer", lambda: tmp_path)
    monkeypatch.setattr(bootstrap, "step", step)
    monkeypatch.setattr(wheels, "base_wheel", lambda out, installer, uv: base)
    monkeypatch.setattr(wheels, "check", lambda library, platform: None)
    monkeypatch.setattr(dist, "_install", lambda uv, built, packages, workers: packages.mkdir())
    return use


@pytest.mark.parametrize(
    ("own", "library"), [("works", b"own"), (None, b"zig"), ("false", b"zig"), ("true", b"zig")],
    ids=["its own compiler", "no compiler", "one that fails", "one that makes nothing"],
)  # fmt: skip
def test_a_wheel_for_this_machine_takes_zig_where_its_own_compiler_does_not_work(
    building: Callable, tmp_path: Path, own: str | None, library: bytes
) -> None:
    building(own, True)
    ((platform, made),) = dist.wheel_files(tmp_path / "out", "here").items()
    assert platform == wheels.here()
    assert made.name == f"tidegate-{__version__}-py3-none-linux_{os.uname().machine}.whl"
    assert zipfile.ZipFile(made).read(wheels.PLACE) == library


@pytest.mark.parametrize("own", [None, "false", "true"])
@pytest.mark.parametrize("flags", [[], ["--here"]], ids=["all", "here"])
def test_without_a_working_compiler_nothing_is_made(
    building: Callable, tmp_path: Path, capsys: pytest.CaptureFixture, own: str | None, flags: list[str]
) -> None:
    building(own, False)
    target = tmp_path / "dist"
    target.mkdir()
    (target / "tidegate-0.0.9-py3-none-any.whl").touch()  # of an earlier run
    assert dist.main([str(target), *flags]) == 1
    said = capsys.readouterr().err
    assert "the package registry could not be reached" in said
    assert "make dist ARGS=--without-library" in said
    assert [p.name for p in target.iterdir()] == ["tidegate-0.0.9-py3-none-any.whl"]


def test_a_wheel_without_a_library_must_be_asked_for(
    building: Callable, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    steps = building(None, False)
    target = tmp_path / "dist"
    assert dist.main([str(target), "--without-library"]) == 0
    assert steps == []
    assert "has no C library, as asked" in capsys.readouterr().out
    with zipfile.ZipFile(target / f"tidegate-{__version__}-py3-none-any.whl") as wheel:
        assert not [n for n in wheel.namelist() if n.endswith(".so")]
        assert b"Root-Is-Purelib: true\nTag: py3-none-any\n" in wheel.read(f"{INFO}/WHEEL")


def test_the_archive_is_of_the_executors_platform(building: Callable, tmp_path: Path) -> None:
    building(None, True)
    target = tmp_path / "dist"
    assert dist.main([str(target), "--workers", "aarch64-musl"]) == 0
    assert {p.name for p in target.iterdir()} == {
        *(f"tidegate-{__version__}-py3-none-{'.'.join(p.tags)}.whl" for p in PLATFORMS),
        f"tidegate-worker-{__version__}-cp311-musllinux_aarch64.tar.gz",
        "SHA256SUMS",
    }


def test_an_archive_whose_packages_lack_a_wheel_says_where_it_can_be_made(
    building: Callable, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    building(None, True)
    monkeypatch.setattr(dist, "_install", INSTALL)
    step = bootstrap.step

    def failing(what: str, command: list[str], env: dict[str, str] | None = None) -> None:
        if "workers' packages" in what:
            assert "--only-binary" in command
            raise bootstrap.SetupError("installing failed: duckdb has no usable wheels")
        step(what, command, env)

    monkeypatch.setattr(bootstrap, "step", failing)
    assert dist.main([str(tmp_path / "dist"), "--workers", "aarch64-musl"]) == 1
    said = capsys.readouterr().err
    assert "duckdb has no usable wheels; for executors on another platform every package needs a wheel" in said
    assert said.endswith("make dist ARGS=--here on a machine with aarch64-musl\n")
    assert not (tmp_path / "dist").exists()


def test_here_builds_for_no_other_platform(
    building: Callable, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    building("works", True)
    other = next(p for p in PLATFORMS if p != wheels.here())
    assert dist.main([str(tmp_path / "dist"), "--here", "--workers", str(other)]) == 1
    assert f"the executors' platform is {other}" in capsys.readouterr().err
    monkeypatch.setattr(wheels, "here", lambda: Platform("ppc64le", "glibc"))
    assert dist.main([str(tmp_path / "dist")]) == 1
    assert "no wheel is built for ppc64le-glibc; make dist ARGS=--here" in capsys.readouterr().err
    assert dist.main([str(tmp_path / "dist"), "--here"]) == 0
    assert (tmp_path / f"dist/tidegate-{__version__}-py3-none-linux_ppc64le.whl").exists()
