"""Bad input gets a clear error and loses nothing: offsets stay, and once it is mended every row is there once."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.audit.test_audit import in_process
from tests.hooks import Died, Hook, die
from tests.world import TOPIC, World, record, window
from tidegate.core.base.errors import Alarm, AttemptSpoilt, JobFailed, StorageAhead, StorageError, TidegateError
from tidegate.workflow.audit.audit import audit
from tidegate.workflow.batch import ingest
from tidegate.workflow.publish import archive

RECEIPT = "_receipt.json"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Batch 1 is planned: two rows in hour 0, one in hour 1, a dirty one, and one that closes both hours."""
    made = World(tmp_path)
    made.produce(record("a", 0.1), record("b", 0.5, "b"), record("c", 1.2), b"not json")
    made.produce(record("z", 5.0))
    made.produce(record("y", 5.0), partition=1)
    ingest.plan(made.context(), "r1")
    yield made
    made.close()


def place(world: World, *parts: str) -> Path:
    return world.folder.joinpath("lake/readings/_tidegate", *parts)


def only(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


def dies_before(world: World, name: str, task: Callable[[Any], object], *, what: str = "batches") -> None:
    """A task whose process ends right before it calls `name` of a part of the ledger."""
    plain = world.wrap
    world.wrap = lambda port, real: Hook(real, {name: die}) if port == what else plain(port, real)
    with pytest.raises(Died):
        task(world.context())
    world.wrap = plain
    world.close()


def finish(world: World) -> None:
    """The tasks are run again, after `tidegate repair` where an alarm has blocked something."""
    ledger = world.context().ledger
    for block in ledger.pipelines.blocks("readings"):
        if block.subject.startswith("batch"):
            ledger.repairs.clear_batch("readings", 1, block.reason, "mended")
        else:
            ledger.repairs.clear_window("readings", window(0), block.reason, "mended")
    ingest.write(world.context(), "r1")
    ingest.land(world.context(), "r1")
    for hour in (0, 1):
        world.archive(hour)
    assert_whole(world)


def assert_whole(world: World) -> None:
    """Every row once, the balance holds, and the next batch begins where this one ended."""
    assert world.by_window() == {"00": [(0, 0), (0, 1)], "01": [(0, 2)]}
    assert world.table("__dirty") == [(0, 3)]
    ctx = world.context()
    assert audit(ctx, ctx.ledger.reads, in_process).problems == ()
    view = ctx.ledger.batches.planning_view("readings")
    assert (view.planned_ends, view.next_batch_id) == ({0: 5, 1: 1}, 2)
    world.close()


def refused(error: type[TidegateError], task: Callable[[], object], *, retry: bool, says: str, do: str = "") -> str:
    """The task fails with this error, which says what happened and, where a human is needed, what to do."""
    with pytest.raises(error) as caught:
        task()
    assert caught.value.retry is retry, str(caught.value)
    assert says in str(caught.value), str(caught.value)
    assert do in caught.value.advice, caught.value.advice
    assert retry or caught.value.advice, "without a retry somebody must be told what to do"
    return str(caught.value)


# ---------------------------------------------------------------- receipts


def _change(**changes: Any) -> Callable[[bytes], bytes]:
    return lambda content: json.dumps(json.loads(content) | changes).encode()


SPOILT_RECEIPTS = {
    "empty": lambda content: b"",
    "garbage": lambda content: os.urandom(64),
    "cut off": lambda content: content[: len(content) // 2],
    "not UTF-8": lambda content: content.replace(b"readings", b"\xff\xfe"),
    "another JSON": lambda content: b"[1, 2]",
    "a number": lambda content: b"7",
    "deep": lambda content: b"[" * 100_000,
    "a field is missing": lambda content: json.dumps({"attempt": "1.1-x"}).encode(),
    "a text for a number": _change(epoch="one"),
    "a number for a list": _change(files=3),
    "a list for a number": _change(epoch=[1]),
    "true for a number": _change(epoch=True),
    "objects for files": _change(files=[{"path": 1}]),
    "another batch's": _change(batch_id=7),
    "another attempt's": _change(nonce="other"),
    "null": lambda content: b"null",
}


def test_a_spoilt_receipt_of_a_dead_task_is_given_up_and_written_again(world: World) -> None:
    for epoch, (what, spoil) in enumerate(SPOILT_RECEIPTS.items(), 1):
        dies_before(world, "seal", lambda ctx: ingest.write(ctx, "r1"))
        (attempt,) = place(world, "tmp").glob(f"1.{epoch}-*")
        (attempt / RECEIPT).write_bytes(spoil((attempt / RECEIPT).read_bytes()))
        given_up = [line for line in world.said if "is given up: " in line]
        assert len(given_up) == epoch - 1, f"the one before {what}: {world.said[-4:]}"
    finish(world)
    assert f"attempt {len(SPOILT_RECEIPTS)} of batch 1 is given up" in "".join(world.said)


def spoiling_job(world: World, spoil: Callable[[Path], None]) -> None:
    """From now on a job's directory is spoilt right after the job."""
    world.wrap = lambda port, real: (
        Hook(real, after={"run": lambda plan: spoil(place(world, "tmp", Path(plan).stem))})
        if port == "launcher"
        else real
    )


def test_a_spoilt_receipt_right_after_the_job_fails_the_try_and_the_next_one_heals(world: World) -> None:
    spoiling_job(world, lambda attempt: (attempt / RECEIPT).write_text("{"))
    refused(AttemptSpoilt, lambda: ingest.write(world.context(), "r1"), retry=True, says="_receipt.json cannot be read")
    world.wrap = lambda port, real: real
    finish(world)


def test_a_receipt_of_another_version_says_so_and_waits_for_a_human(world: World) -> None:
    def newer(attempt: Path) -> None:
        path = attempt / RECEIPT
        path.write_bytes(_change(bloom_filters=[])(path.read_bytes()))

    spoiling_job(world, newer)
    text = refused(
        AttemptSpoilt,
        lambda: ingest.write(world.context(), "r1"),
        retry=False,
        says="Receipt: unknown ['bloom_filters']",
        do="another version of tidegate wrote it",
    )
    assert RECEIPT in text
    world.wrap = lambda port, real: real
    finish(world)


def test_last_words_that_cannot_be_read_are_said_to_be(world: World) -> None:
    def fail(plan: str) -> None:
        (place(world, "tmp", Path(plan).stem)).mkdir(parents=True)
        (place(world, "tmp", Path(plan).stem) / "failure.json").write_bytes(b'{"what": ')
        raise JobFailed("spark-submit ended with exit code 1")

    world.wrap = lambda port, real: Hook(real, {"run": fail}) if port == "launcher" else real
    text = refused(JobFailed, lambda: ingest.write(world.context(), "r1"), retry=True, says="exit code 1")
    assert "its failure.json cannot be read" in text
    world.wrap = lambda port, real: real
    finish(world)


@pytest.mark.parametrize("spoil", ["record", "receipt", "plan"])
def test_what_landed_before_a_ledger_that_forgot_it_is_never_read_again_by_guess(world: World, spoil: str) -> None:
    """R11: the rename has happened, SEALED was lost; what would prove it cannot be read."""
    dies_before(world, "seal", lambda ctx: ingest.write(ctx, "r1"))
    attempt = only(place(world, "tmp"))
    name = attempt.name
    place(world, "landed").mkdir()
    attempt.rename(place(world, "landed", "1"))
    path = {
        "record": place(world, "hwm", "1"),
        "receipt": place(world, "landed", "1", RECEIPT),
        "plan": place(world, "plans", f"{name}.json"),
    }[spoil]
    path.parent.mkdir(exist_ok=True)
    before = path.read_bytes() if path.exists() else None
    path.write_bytes(b"\x1f\x8b garbage" if spoil == "record" else b'{"mode": "ing')
    refused(StorageAhead, lambda: ingest.write(world.context(), "r1"), retry=False, says=str(path))
    assert not world.launcher.runs, "nothing is read again"
    if before is None:
        path.unlink()
    else:
        path.write_bytes(before)
    finish(world)


# ---------------------------------------------------------------- files


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _lose(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("spoil", [_cut, _lose], ids=["cut off", "lost"])
def test_a_damaged_file_before_the_seal_is_written_again(world: World, spoil: Callable[[Path], None]) -> None:
    spoiling_job(world, lambda attempt: spoil(min(attempt.rglob("*.parquet"))))
    refused(AttemptSpoilt, lambda: ingest.write(world.context(), "r1"), retry=True, says="its receipt says")
    assert world.context().ledger.batches.get("readings", 1).state == "WRITING"
    world.wrap = lambda port, real: real
    finish(world)


def test_files_beside_the_manifest_are_not_data(world: World) -> None:
    """In the attempt, in the landing zone, and with names of Spark's, of ours and of nobody's."""
    spoiling_job(
        world, lambda attempt: shutil.copy(min(attempt.rglob("data/**/*.parquet")), attempt / "data/x.parquet")
    )
    ingest.write(world.context(), "r1")
    world.wrap = lambda port, real: real
    place(world, "landed").mkdir(exist_ok=True)
    for name in ("backup", "1.old", "²", "-1", "._hidden"):
        place(world, "landed", name).mkdir()
        place(world, "hwm").mkdir(exist_ok=True)
        place(world, "hwm", name).write_text("")
    place(world, "publish").mkdir(exist_ok=True)
    for name in ("x", "20130105T000000Z", "20130105T000000Z.1.²", "nonsense.1.1", "20139905T000000Z.1.1"):
        place(world, "publish", name).mkdir()
        place(world, "generations", name).mkdir(parents=True)
        place(world, "hwm", "published", "2013-01-09", name).mkdir(parents=True)
    finish(world)
    assert not [p for p in world.files() if p.startswith("readings/date") and p.endswith("x.parquet")]
    world.produce(record("next", 5.5))
    assert world.ingest("r2") == 2


def damaged(world: World, part: str) -> Path:
    """A data file of hour 0."""
    return min(place(world, part).rglob("data/date=2013-01-05/hour=00/**/*.parquet"))


@pytest.mark.parametrize("spoil", [_cut, _lose], ids=["cut off", "lost"])
def test_a_damaged_file_of_a_sealed_batch_is_an_alarm_until_it_is_restored(
    world: World, spoil: Callable[[Path], None]
) -> None:
    ingest.write(world.context(), "r1")
    path = damaged(world, "tmp")
    kept = path.read_bytes()
    spoil(path)
    text = refused(Alarm, lambda: ingest.land(world.context(), "r1"), retry=False, says="the source is incomplete")
    assert path.name in text, "which file"
    assert [b.subject for b in world.context().ledger.pipelines.blocks("readings")] == ["batch 1"]
    path.write_bytes(kept)
    finish(world)


@pytest.mark.parametrize("spoil", [_cut, _lose], ids=["cut off", "lost"])
def test_a_damaged_landed_file_is_an_alarm_of_its_hour_alone(world: World, spoil: Callable[[Path], None]) -> None:
    """Where Kafka has its records no more: else its hour is rebuilt from them."""
    ingest.write(world.context(), "r1")
    ingest.land(world.context(), "r1")
    path = damaged(world, "landed")
    kept, logs = path.read_bytes(), copy.deepcopy(world.kafka)
    spoil(path)
    for partition, offsets in world.kafka.look(TOPIC).partitions.items():
        world.kafka.trim(TOPIC, partition, offsets.high_watermark)
    text = refused(Alarm, lambda: archive.publish(world.context(), window(0)), retry=False, says=path.name)
    assert world.archive(1).new
    where = path if spoil is _lose else min(place(world, "publish").rglob(f"*{path.name}"))
    assert str(where) in text, "where it is to be restored"
    where.write_bytes(kept)
    world.kafka = logs
    finish(world)


@pytest.mark.parametrize("spoil", [_cut, _lose], ids=["cut off", "lost"])
def test_a_damaged_landed_file_is_read_again_from_the_topic(world: World, spoil: Callable[[Path], None]) -> None:
    ingest.write(world.context(), "r1")
    ingest.land(world.context(), "r1")
    spoil(damaged(world, "landed"))
    assert world.archive(0).generation == 1
    finish(world)


@pytest.mark.parametrize("spoil", [_cut, _lose], ids=["cut off", "lost"])
def test_a_damaged_published_file_is_rebuilt_from_the_topic(world: World, spoil: Callable[[Path], None]) -> None:
    finish(world)
    spoil(min((world.folder / "lake/readings/date=2013-01-05/hour=00").rglob("*.parquet")))
    assert world.archive(0).generation == 2
    assert_whole(world)


def test_a_foreign_directory_where_an_hour_should_come_costs_nothing(world: World) -> None:
    ingest.write(world.context(), "r1")
    ingest.land(world.context(), "r1")
    foreign = world.folder / "lake/readings/date=2013-01-05/hour=00"
    foreign.mkdir(parents=True)
    (foreign / "mine.parquet").write_text("not ours")
    text = refused(Alarm, lambda: archive.publish(world.context(), window(0)), retry=False, says="quarantine")
    kept = only(place(world, "quarantine"))
    assert str(kept) in text, "where the rows are now"
    assert (foreign / "mine.parquet").read_text() == "not ours"
    shutil.rmtree(foreign)
    kept.rename(place(world, "publish", kept.name.removeprefix("window-")))
    finish(world)


def test_an_unreadable_plan_file_fails_the_job_and_the_next_attempt_has_its_own(world: World) -> None:
    def spoil(plan: str) -> None:
        Path(plan.removeprefix("file://")).write_text('{"mode"')
        raise JobFailed("spark-submit ended with exit code 1: ValueError: Expecting ':' delimiter")

    world.wrap = lambda port, real: Hook(real, {"run": spoil}) if port == "launcher" else real
    refused(JobFailed, lambda: ingest.write(world.context(), "r1"), retry=True, says="Expecting ':' delimiter")
    world.wrap = lambda port, real: real
    finish(world)


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
