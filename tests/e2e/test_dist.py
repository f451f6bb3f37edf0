"""`make dist` whole: a wheel for each platform, whose library then runs there. `make test-install` runs it (minutes).

The emulator of arm64, its Python and the C libraries come from Debian's packages and are not installed. A program that
reads recorded messages by the library has to see the same columns, byte by byte, on every platform; the tests that
compare the library with the row rules run in an arm64 Python that imports everything from the workers' archive.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from random import Random

import pytest

from dev import bootstrap, dist, elf, wheels
from dev.wheels import PLATFORMS, Platform
from tests.avro_recording import recorded_avro
from tests.debian import unpacked
from tests.json_differential import CASES
from tests.worker.test_engine_native_library import _recorded
from tidegate import __version__

CHECKOUT = Path(__file__).parents[2]
NATIVE, ARM = (next(p for p in PLATFORMS if str(p) == name) for name in ("x86_64-glibc", "aarch64-glibc"))
ARM_PYTHON = [
    "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libc6", "libgcc-s1", "libstdc++6", "zlib1g",
    "libexpat1", "libssl3", "libffi8", "libbz2-1.0", "liblzma5", "libsqlite3-0", "libuuid1", "libcrypt1", "musl",
]  # fmt: skip
pytestmark = pytest.mark.skipif(
    os.environ.get("TIDEGATE_INSTALL") != "network" or wheels.here() != NATIVE,
    reason="needs a network and minutes, on x86-64 with glibc: make test-install",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` makes, with the archive for executors on arm64."""
    target = tmp_path_factory.mktemp("dist")
    dist.build(target, ARM)
    return target


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Debian's files: the emulator and musl for this processor, and those of an arm64 machine."""
    return (
        unpacked(tmp_path_factory.mktemp("here"), "amd64", ["qemu-user-static", "musl"]),
        unpacked(tmp_path_factory.mktemp("arm64"), "arm64", ARM_PYTHON),
    )


def wheel_of(built: Path, platform: Platform) -> Path:
    return built / f"tidegate-{__version__}-py3-none-{'.'.join(platform.tags)}.whl"


def library_of(built: Path, platform: Platform, folder: Path) -> Path:
    with zipfile.ZipFile(wheel_of(built, platform)) as wheel:
        (name,) = [n for n in wheel.namelist() if n.endswith(".so")]
        return Path(shutil.move(wheel.extract(name, folder / "wheel"), folder / "_native.so"))


def runner(roots: tuple[Path, Path], platform: Platform) -> list[str]:
    """What a program of the platform is run by."""
    here, arm = roots
    if platform.machine == "aarch64":
        return [str(here / "usr/bin/qemu-aarch64-static"), "-L", str(arm)]
    return [str(here / "lib/ld-musl-x86_64.so.1")] if platform.libc == "musl" else []


def test_each_platform_reads_the_same_from_the_same_bytes(
    built: Path, roots: tuple[Path, Path], tmp_path: Path, rng: Random
) -> None:
    recordings = {name: _recorded(name, rng, 1_500) for name in CASES} | {"avro": recorded_avro(rng, 1_500)}
    for name, content in recordings.items():
        (tmp_path / name).write_bytes(content)
    installer = bootstrap.install_installer()
    env = wheels.zig([str(installer / "bin" / "uv")], installer)
    seen = {}
    for platform in PLATFORMS:
        library = library_of(built, platform, tmp_path / str(platform))
        found = elf.read(library)
        wheels.check(library, platform)
        assert (found.machine, found.glibc() <= (2, 17)) == (platform.machine, True)
        if shutil.which("readelf"):
            said = subprocess.run(["readelf", "-hVW", str(library)], capture_output=True, text=True, check=True).stdout
            assert {"x86_64": "X86-64", "aarch64": "AArch64"}[platform.machine] in said
            assert set(found.versions) == set(re.findall(r"Name: (\S+)  Flags", said))
        link = ["-L.", "-l:_native.so", "-Wl,-rpath,$ORIGIN", "-o", "replay"]
        source = str(CHECKOUT / "tests/native/replay.c")
        command = [*env["CC"].split(), "-target", platform.target, "-dynamic", "-std=gnu11", "-O1", source, *link]
        subprocess.run(command, cwd=library.parent, env={**os.environ, **env}, check=True, capture_output=True)
        program = [*runner(roots, platform), str(library.parent / "replay"), *recordings]
        seen[str(platform)] = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert len(set(seen.values())) == 1, seen
    assert int(seen[str(NATIVE)]) > 0


@pytest.mark.parametrize("module", ["json_differential", "wire_differential"])
def test_arm64_executors_read_what_the_row_rules_read(
    built: Path, roots: tuple[Path, Path], tmp_path: Path, module: str
) -> None:
    (archive,) = built.glob("tidegate-worker-*-cp311-linux_aarch64.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "archive", filter="data")
    (tmp_path / "checkout").mkdir()
    for name in ("tests", "docs"):
        (tmp_path / "checkout" / name).symlink_to(CHECKOUT / name)
    pure = next(p for p in sys.path if p.endswith("site-packages"))  # what only tests import; all in Python
    path = [tmp_path / "archive", tmp_path / "checkout", CHECKOUT / "tests", pure]
    python = [*runner(roots, ARM), str(roots[1] / "usr/bin/python3.11")]
    done = subprocess.run(
        [*python, "-m", f"tests.{module}", "--messages", "3000"],
        env={"PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1_800,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "'sure'" in done.stdout
