"""A filesystem that is full, read-only, or somebody else's: what is said, and that nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.batch.test_bad_input import finish, place, refused, world
from tests.world import World, window
from tidegate.core.base.errors import StorageError, TidegateError
from tidegate.workflow.batch import ingest
from tidegate.workflow.publish import archive

__all__ = ["world"]  # fixtures


# ---------------------------------------------------------------- the filesystem


def _has_mount() -> bool:
    return os.geteuid() == 0 and shutil.which("mount") is not None


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """A filesystem of its own at `lake`, 256 KiB; call it with mount options to change them."""
    lake = tmp_path / "lake"
    lake.mkdir()
    made = ["mount", "-t", "tmpfs", "-o", "size=256k", "tidegate-test", str(lake)]
    if not _has_mount() or subprocess.run(made, capture_output=True).returncode:
        pytest.skip("only root may mount a filesystem")
    yield lambda options: subprocess.run(["mount", "-o", f"remount,{options}", str(lake)], check=True)
    subprocess.run(["umount", "-l", str(lake)], check=True)


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


TASKS: dict[str, Callable[[World], object]] = {
    "write": lambda w: ingest.write(w.context(), "r1"),
    "land": lambda w: ingest.land(w.context(), "r1"),
    "publish": lambda w: archive.publish(w.context(), window(0)),
}


@pytest.mark.parametrize("task", TASKS)
def test_a_read_only_disk_stops_a_task_with_its_name(disk: Callable[[str], None], world: World, task: str) -> None:
    for before in list(TASKS)[: list(TASKS).index(task)]:
        TASKS[before](world)
    disk("ro")
    refused(StorageError, lambda: TASKS[task](world), retry=False, says="read-only", do="mount it writable")
    disk("rw")
    finish(world)


@pytest.mark.parametrize("task", TASKS)
def test_a_full_disk_stops_a_task_and_space_heals_it(disk: Callable[[str], None], world: World, task: str) -> None:
    for before in list(TASKS)[: list(TASKS).index(task)]:
        TASKS[before](world)
    ballast = world.folder / "lake/ballast"
    fill(ballast)
    with pytest.raises(TidegateError) as caught:
        TASKS[task](world)
    assert caught.value.retry
    assert "no space left on the filesystem" in str(caught.value)
    ballast.unlink()
    finish(world)


def test_a_disk_that_fills_up_in_the_middle_of_a_job(disk: Callable[[str], None], world: World) -> None:
    """With a little more space each time the attempt fails as one, until one is whole."""
    failed: list[TidegateError] = []
    for kilobytes in range(16, 96, 8):
        disk(f"size={kilobytes}k")
        try:
            ingest.write(world.context(), "r1")
            break
        except TidegateError as e:
            failed.append(e)
        shutil.rmtree(place(world, "tmp"), ignore_errors=True)
    assert failed
    assert all(e.retry and "no space left" in str(e) for e in failed), failed
    disk("size=1m")
    finish(world)


_AS_NOBODY = """
import os, sys
from tidegate.storage.local import LocalStorage
from tidegate.core.base.errors import TidegateError
os.setgroups([]); os.setgid(65534); os.setuid(65534)
storage, base = LocalStorage(), "file://" + sys.argv[1]
calls = {
    "write_new": lambda: storage.write_new(base + "/plans/1.json", b"{}"),
    "make_dirs": lambda: storage.make_dirs(base + "/tmp/1.1-x"),
    "rename": lambda: storage.rename_no_replace(base + "/a", base + "/b"),
    "delete": lambda: storage.delete(base + "/a"),
    "read": lambda: storage.read(base + "/secret"),
    "list": lambda: storage.list_files(base + "/closed"),
    "look": lambda: storage.exists(base + "/closed/x"),
}
for name, call in calls.items():
    try:
        call()
        print(name, "done")
    except TidegateError as e:
        print(name, e.retry, e.args[0].split(": ", 1)[-1], "|", e.advice)
"""


def test_wrong_permissions_are_named_with_the_path_and_what_to_do(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    base = tmp_path / "table"
    (base / "a").mkdir(parents=True)
    (base / "a/file").write_text("x")
    (base / "closed").mkdir(mode=0o700)
    (base / "secret").write_text("x")
    (base / "secret").chmod(0o600)
    for folder in (base, *base.parents):
        if str(folder).startswith(str(tmp_path.parents[1])):
            folder.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, str(base)], capture_output=True, text=True, env=os.environ
        | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )  # fmt: skip
    lines = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert len(lines) == 7, done.stdout + done.stderr
    for name, said in lines.items():
        assert "permission denied" in said, f"{name}: {said}"
        assert "let the user that runs tasks and jobs read and write there" in said, f"{name}: {said}"
        assert said.startswith("True "), "an administrator may mend it before the next try"


def test_a_short_write_leaves_no_half_file_under_its_name(tmp_path: Path) -> None:
    """RLIMIT_FSIZE: the write fails in the middle."""
    code = (
        "import resource, signal, sys\n"
        "from tidegate.storage.local import LocalStorage\n"
        "from tidegate.core.base.errors import StorageError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "storage, base = LocalStorage(), 'file://' + sys.argv[1]\n"
        "for path, write in (('a', lambda p: storage.write_new(p, bytes(5000))),):\n"
        "    try:\n"
        "        write(f'{base}/{path}')\n"
        "    except StorageError as e:\n"
        "        print(type(e).__name__, e.retry, e.args[0])\n"
        "print(storage.list_names(base))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, env=os.environ
        | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "File too large" in done.stdout
    assert done.stdout.endswith("[]\n"), done.stdout


def test_a_file_in_place_of_a_directory_is_named(world: World) -> None:
    shutil.rmtree(place(world), ignore_errors=True)
    place(world).mkdir(parents=True)
    place(world, "tmp").write_text("who put this here")
    with pytest.raises(TidegateError) as caught:
        ingest.write(world.context(), "r1")
    assert str(place(world, "tmp")) in str(caught.value)
    place(world, "tmp").unlink()
    finish(world)
