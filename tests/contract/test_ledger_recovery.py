"""What the ledger says of itself for storage's records, and how lost rows come back (R11), on SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import select, update

from tests.contract.ledgers import (
    HOUR,
    NAME,
    WINDOW,
    built,
    landed,
    ledger,
    manifest,
    now,
    open_ledger,
    plan,
    planned,
    url,
)  # fmt: skip
from tests.world import make_pipeline
from tidegate.core.base.errors import LedgerError, LostComparison
from tidegate.core.batch.refusal import Refusal, RefusalKind
from tidegate.core.batch.states import AbandonedBatch, OpenBatch, SealedBatch
from tidegate.core.restore.record import BatchRecord, GenerationRecord, pack, unpack
from tidegate.core.window.states import BuiltGeneration, Moved, PublishedGeneration, WindowKey
from tidegate.ledger import SqlLedger, schema

__all__ = ["ledger", "now", "open_ledger", "url"]  # fixtures


def sealed(ledger: SqlLedger) -> SealedBatch:
    writing = ledger.batches.take(planned(ledger), "n1")
    return ledger.batches.seal(writing, manifest(writing))


def record_of(generation: BuiltGeneration, location: str = "file:///hour", **changes: object) -> GenerationRecord:
    return replace(
        GenerationRecord(
            pipeline=NAME,
            window=WINDOW,
            number=generation.number,
            epoch=generation.epoch,
            kind=generation.kind,
            batches=generation.batches,
            directory=generation.directory,
            location=location,
            files=generation.files,
            digest=generation.digest,
        ),
        **changes,
    )


def published(ledger: SqlLedger) -> PublishedGeneration:
    return ledger.windows.publish(ledger.windows.begin_swap(built(ledger), "file:///hour"), "file:///hour", "c")


def test_a_record_holds_the_batch_its_spec_and_its_manifest(ledger: SqlLedger) -> None:
    batch = sealed(ledger)
    record = ledger.recovery.record(batch)
    assert record == BatchRecord(batch.plan, make_pipeline("file:///lake/t"), "fingerprint", batch.manifest)
    assert unpack(BatchRecord, pack(record)) == record
    given_up = ledger.recovery.record(AbandonedBatch(batch.plan, "retention", batch.epoch, batch.nonce))
    assert (given_up.manifest, given_up.abandoned) == (None, "retention")


def test_two_ledgers_of_one_name_are_told_apart(ledger: SqlLedger, now: list[int]) -> None:
    assert ledger.recovery.identity(NAME) == f"{NAME}@{now[0]}"
    with pytest.raises(LedgerError, match="not in the ledger"):
        ledger.recovery.identity("another")


def test_generations_that_nobody_has_heard_of(ledger: SqlLedger, now: list[int]) -> None:
    assert ledger.recovery.newest_publication_ms(NAME) is None
    published(ledger)
    assert ledger.recovery.newest_publication_ms(NAME) == now[0]
    many = [(WINDOW.start_ms, 1), (WINDOW.start_ms, 2), *((h * HOUR, 1) for h in range(1, 300))]
    assert ledger.recovery.unknown_generations(NAME, many) == sorted(set(many) - {(WINDOW.start_ms, 1)})


def test_a_batch_that_gives_way_leaves_its_id_to_the_next(ledger: SqlLedger) -> None:
    landed(ledger)
    stale = planned(ledger, 2, 5, 9)
    taken = ledger.batches.take(stale, "n2")
    with pytest.raises(LostComparison):
        ledger.recovery.withdraw(stale, "it was taken")
    version = ledger.batches.planning_view(NAME).version
    ledger.recovery.withdraw(taken, "storage has another")
    view = ledger.batches.planning_view(NAME)
    assert (view.open_batch, view.next_batch_id, view.version) == (None, 2, version + 1)
    assert view.planned_ends == {0: 5, 1: 0}
    ledger.batches.insert_plan(plan(2, 5, 7), view.version, None)
    assert ledger.batches.bound(NAME, "run-2") == 2  # a run stays bound to the id


def test_a_sealed_batch_gives_way_with_its_files_but_a_landed_one_never(ledger: SqlLedger) -> None:
    batch = sealed(ledger)
    ledger.recovery.withdraw(batch, "storage has landed another")
    assert ledger.batches.manifest_files(NAME, 1) == []
    ledger.batches.insert_plan(batch.plan, ledger.batches.planning_view(NAME).version, None)
    open_batch = ledger.batches.open(NAME)
    assert open_batch is not None
    writing = ledger.batches.take(open_batch, "n1")
    ledger.batches.land(ledger.batches.seal(writing, manifest(writing)))
    with pytest.raises(LostComparison):
        ledger.recovery.withdraw(batch, "no")


def test_a_batch_that_was_given_up_gives_way_while_it_is_the_newest(ledger: SqlLedger) -> None:
    first = ledger.batches.take(planned(ledger), "n1")
    ledger.batches.abandon(first, "in vain")
    given_up = ledger.batches.get(NAME, 1)
    assert given_up == AbandonedBatch(first.plan, "in vain", 1, "n1")
    version = ledger.batches.planning_view(NAME).version
    ledger.recovery.withdraw(given_up, "storage has landed another")
    view = ledger.batches.planning_view(NAME)
    assert (view.next_batch_id, view.version, view.begun) == (1, version + 1, False)
    with pytest.raises(LedgerError, match="no batch 1"):
        ledger.batches.get(NAME, 1)
    with pytest.raises(LostComparison):
        ledger.recovery.withdraw(given_up, "twice")
    again = ledger.batches.take(_planned_again(ledger, 1, 0, 5), "n2")
    ledger.batches.abandon(again, "in vain")
    with pytest.raises(LostComparison):
        ledger.recovery.withdraw(given_up, "it is another attempt's batch")
    mine = ledger.batches.get(NAME, 1)
    assert isinstance(mine, AbandonedBatch)
    planned(ledger, 2, 5, 9)
    with pytest.raises(LostComparison):
        ledger.recovery.withdraw(mine, "another is planned")


def test_sums_never_pass_over_a_batch_that_may_come_back(ledger: SqlLedger) -> None:
    """Nor do those that another release has advanced."""
    landed(ledger)
    writing = ledger.batches.take(planned(ledger, 2, 5, 9), "n2")
    ledger.batches.abandon(writing, "in vain")
    assert not ledger.totals.advance(NAME)
    assert _summed(ledger) == 1
    with ledger.store.begin() as c:
        c.execute(update(schema.totals).values(through_batch=2))
    given_up = ledger.batches.get(NAME, 2)
    assert isinstance(given_up, AbandonedBatch)
    ledger.recovery.withdraw(given_up, "storage has landed another")
    writing = ledger.batches.take(_planned_again(ledger, 2, 5, 9), "n3")
    ledger.batches.land(ledger.batches.seal(writing, manifest(writing)))
    ledger.totals.advance(NAME)
    assert (_summed(ledger), ledger.reads.totals([NAME])[NAME].balance.offsets) == (2, 9)


def _planned_again(ledger: SqlLedger, batch_id: int, start: int, end: int) -> OpenBatch:
    """By no run: the one that planned it before stays bound to the id."""
    ledger.batches.insert_plan(plan(batch_id, start, end), ledger.batches.planning_view(NAME).version, None)
    found = ledger.batches.open(NAME)
    assert found is not None
    return found


def _summed(ledger: SqlLedger) -> int:
    with ledger.store.begin() as c:
        return c.execute(select(schema.totals.c.through_batch)).scalar_one()


def test_a_lost_publication_comes_back_with_its_window(ledger: SqlLedger) -> None:
    landed(ledger)
    files = tuple(ledger.batches.manifest_files(NAME, 1))
    record = GenerationRecord(
        pipeline=NAME,
        window=WINDOW,
        number=1,
        epoch=4,
        kind="archive",
        batches=(1,),
        directory="file:///b",
        location="file:///hour",
        files=files,
        digest="d" * 64,
    )
    version = ledger.batches.planning_view(NAME).version
    ledger.recovery.restore(record, "CURRENT", "found")
    window = ledger.windows.get(NAME, WINDOW)
    assert (window.state, window.closing_batch, window.current, window.newest) == ("CLOSED", 2, 1, 1)
    assert ledger.batches.planning_view(NAME).version > version  # R5: a plan made from the state before is refused
    back = ledger.windows.generation(NAME, WINDOW, 1)
    assert isinstance(back, PublishedGeneration)
    assert (back.files, back.digest, back.location, back.batches) == (files, "d" * 64, "file:///hour", (1,))
    with pytest.raises(LostComparison, match="CURRENT in the ledger already"):
        ledger.recovery.restore(record, "CURRENT", "twice")


def test_a_record_of_other_batches_than_the_windows_is_refused(ledger: SqlLedger) -> None:
    landed(ledger)
    record = GenerationRecord(
        pipeline=NAME,
        window=WINDOW,
        number=1,
        epoch=1,
        kind="archive",
        batches=(1, 2),
        directory="file:///b",
        location="file:///hour",
        files=(),
        digest="d",
    )
    with pytest.raises(LostComparison, match=r"of batches \[1, 2\], by the ledger rows came from \[1\]"):
        ledger.recovery.restore(record, "CURRENT", "found")
    assert ledger.windows.get(NAME, WINDOW).state == "OPEN"


def test_an_unfinished_generation_is_overwritten_by_what_storage_knows(ledger: SqlLedger) -> None:
    """The ledger forgot BUILT; the epoch that storage recorded is the one whose directory holds the files."""
    done = built(ledger)
    ledger.recovery.restore(record_of(done, epoch=7), "BUILT", "found")
    now_ = ledger.windows.generation(NAME, WINDOW, 1)
    assert isinstance(now_, BuiltGeneration)
    assert (now_.state, now_.epoch, now_.directory, now_.files) == ("BUILT", 7, done.directory, done.files)
    with pytest.raises(LostComparison):
        ledger.windows.begin_swap(done, "file:///hour")  # a task of the other history


def test_a_later_generation_retires_the_one_in_force_where_it_lies_now(ledger: SqlLedger) -> None:
    first = published(ledger)
    record = GenerationRecord(
        pipeline=NAME,
        window=WINDOW,
        number=2,
        epoch=1,
        kind="replay",
        batches=(1,),
        directory="file:///b2",
        location=first.location,
        files=first.files,
        digest="e" * 64,
    )
    ledger.recovery.restore(record, "CURRENT", "found", moved=Moved(1, "file:///retired"))
    older = ledger.windows.generation(NAME, WINDOW, 1)
    assert isinstance(older, PublishedGeneration)
    assert (older.state, older.location) == ("RETIRED", "file:///retired")
    assert ledger.windows.get(NAME, WINDOW).current == 2


def test_epochs_go_on_above_what_storage_has_seen(ledger: SqlLedger) -> None:
    landed(ledger)
    ledger.windows.begin_close(NAME, WINDOW, lambda facts: _ready(facts.batch_id))
    ledger.windows.finish_close(NAME, WINDOW)
    assert ledger.windows.take(NAME, WINDOW, 1, "n", above=5).epoch == 6
    assert ledger.windows.take(NAME, WINDOW, 1, "m", above=2).epoch == 7


def test_one_who_was_told_of_a_publication_that_is_forgotten_hears_of_it(ledger: SqlLedger) -> None:
    built(ledger)
    with pytest.raises(LostComparison, match="not published any more"):
        ledger.windows.announced(NAME, WINDOW, 1)


def _ready(batch_id: int | None):
    from tidegate.core.window.readiness import Certificate

    return Certificate(
        pipeline=NAME,
        window=WINDOW,
        ready=True,
        reason="because",
        decided_ms=5,
        batch_id=batch_id,
        watermark_ms=9,
        partitions=(),
        blockers=(),
    )


def test_the_nonce_tells_two_histories_apart(ledger: SqlLedger) -> None:
    taken = ledger.batches.take(planned(ledger), "mine")
    lost = replace(taken, nonce="of the lost history")
    for change in (
        lambda: ledger.batches.seal(lost, manifest(lost)),
        lambda: ledger.batches.refuse(lost, Refusal(kind=RefusalKind.JOB, said="why")),
        lambda: ledger.batches.take(lost, "n"),
        lambda: ledger.batches.abandon(lost, "why"),
    ):
        with pytest.raises(LostComparison):
            change()
    assert ledger.batches.get(NAME, 1) == taken
    assert plan() == taken.plan
    assert WindowKey(0, HOUR) == WINDOW


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
@pytest.mark.parametrize(("told", "meant"), [("off", "on"), ("local", "local"), ("remote_apply", "remote_apply")])
def test_no_commit_is_lost_by_a_server_that_is_tuned_for_it(url: str, told: str, meant: str) -> None:
    """Airflow's own database is sometimes set so: the ledger's transactions wait for the disk all the same."""
    found = SqlLedger(f"{url}?options=-csynchronous_commit%3D{told}", "test")
    with found.store.begin() as c:
        assert c.exec_driver_sql("SHOW synchronous_commit").scalar() == meant
