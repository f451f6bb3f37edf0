"""Bad input gets a clear error and loses nothing: offsets stay, and once it is mended every row is there once."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.audit.audits import in_process
from tests.hooks import Died, Hook, die
from tests.world import TOPIC, World, record, window
from tidegate.core.base.errors import Alarm, AttemptSpoilt, JobFailed, StorageAhead, TidegateError
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
    """In the attempt, in the landing zone, and with names like Spark's, like Tidegate's and like nobody's."""
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
