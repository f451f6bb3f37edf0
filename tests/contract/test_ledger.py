"""The ledger's contract, on SQLite and on PostgreSQL: compare-and-set, one transaction each, nothing half done."""

from __future__ import annotations

from dataclasses import replace

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from tests.contract.ledgers import (
    DIRTY,
    HOUR,
    NAME,
    WINDOW,
    bare_url,
    built,
    closed,
    landed,
    ledger,
    manifest,
    now,
    open_ledger,
    plan,
    planned,
    ready,
    url,
)
from tests.world import make_pipeline
from tidegate.core.base.errors import CatalogueUnsure, LedgerError, LostComparison, WrongRevision
from tidegate.core.base.offsets import Interval
from tidegate.core.batch.refusal import Refusal, RefusalKind
from tidegate.core.batch.states import SealedBatch, WritingBatch
from tidegate.core.window.watermark import TopicFacts
from tidegate.ledger import SqlLedger
from tidegate.ledger.migrate import migrate
from tidegate.ledger.schema import metadata
from tidegate.ledger.store import HEAD

__all__ = ["bare_url", "ledger", "now", "open_ledger", "url"]  # fixtures


# ---------------------------------------------------------------- schema


def test_a_ledger_without_its_schema_is_refused(bare_url: str) -> None:
    with pytest.raises(WrongRevision, match=f"none.*{HEAD}"):
        SqlLedger(bare_url).pipelines.row(NAME)


def test_a_ledger_at_another_revision_is_refused(bare_url: str) -> None:
    migrate(bare_url)
    engine = create_engine(bare_url)
    with engine.begin() as c:
        c.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(WrongRevision, match="9999"):
        SqlLedger(bare_url).pipelines.row(NAME)


def test_migrations_make_the_tables_that_the_code_names(bare_url: str) -> None:
    migrate(bare_url)
    migrate(bare_url)  # and can be run again
    with create_engine(bare_url).connect() as c:
        assert compare_metadata(MigrationContext.configure(c), metadata) == []


def test_a_database_that_does_not_answer_is_a_retry() -> None:
    with pytest.raises(LedgerError, match="does not answer") as caught:
        SqlLedger("postgresql+psycopg2://nobody@127.0.0.1:1/none").pipelines.row(NAME)
    assert caught.value.retry


# ---------------------------------------------------------------- specs


def test_a_spec_is_registered_once_and_comes_back(ledger: SqlLedger) -> None:
    pipeline = make_pipeline("file:///lake/t")
    assert ledger.pipelines.register(pipeline, "fingerprint") == 1
    changed = replace(pipeline, kafka_columns=False)
    assert ledger.pipelines.register(changed, "another") == 2
    assert ledger.pipelines.register(pipeline, "fingerprint") == 1
    assert (ledger.pipelines.newest(NAME), ledger.pipelines.newest("nobody")) == (2, 0)
    assert ledger.pipelines.spec(NAME, 2) == changed


# ---------------------------------------------------------------- batches


def test_a_batch_through_all_its_states(ledger: SqlLedger) -> None:
    batch = planned(ledger)
    assert ledger.batches.get(NAME, 1) == batch
    writing = ledger.batches.take(batch, "n1")
    assert ledger.batches.get(NAME, 1) == writing
    sealed = ledger.batches.seal(writing, manifest(writing))
    assert ledger.batches.get(NAME, 1) == sealed
    assert sealed.manifest == manifest(writing)
    done = ledger.batches.land(sealed)
    assert ledger.batches.get(NAME, 1) == done
    assert ledger.batches.open(NAME) is None
    facts = ledger.windows.facts(NAME)
    assert [(p.max_event_ms, p.drained) for p in facts.partitions] == [(HOUR - 1, True), (None, False)]
    assert ledger.batches.gaps(NAME, 1) == {0: (Interval(4, 5),)}
    assert ledger.batches.planning_view(NAME).planned_ends == {0: 5, 1: 0}


def test_r5_a_plan_commits_only_on_the_version_that_was_read(ledger: SqlLedger) -> None:
    landed(ledger)
    view = ledger.batches.planning_view(NAME)
    ledger.windows.begin_close(NAME, WINDOW, ready)
    with pytest.raises(LostComparison):
        ledger.batches.insert_plan(plan(2, 5, 9), view.version, None)
    assert ledger.batches.open(NAME) is None
    assert ledger.pipelines.row(NAME).next_batch_id == 2


def test_one_open_batch_at_a_time(ledger: SqlLedger) -> None:
    planned(ledger)
    view = ledger.batches.planning_view(NAME)
    with pytest.raises(LostComparison):
        ledger.batches.insert_plan(plan(2, 5, 9), view.version, None)


@pytest.mark.parametrize("what", ["take", "seal", "land", "refuse", "replan", "abandon", "block", "adopt"])
def test_a_lost_epoch_changes_nothing(ledger: SqlLedger, what: str) -> None:
    stale = ledger.batches.take(planned(ledger), "n1")
    newer = ledger.batches.take(stale, "n2")
    assert newer.epoch == 2
    sealed = SealedBatch(stale.plan, 1, "n1", manifest(stale))
    calls = {
        "take": lambda: ledger.batches.take(stale, "n3"),
        "seal": lambda: ledger.batches.seal(stale, manifest(stale)),
        "land": lambda: ledger.batches.land(sealed),
        "refuse": lambda: ledger.batches.refuse(stale, DIRTY),
        "replan": lambda: ledger.batches.replan(stale, replace(stale.plan, revision=2)),
        "abandon": lambda: ledger.batches.abandon(stale, "no"),
        "block": lambda: ledger.batches.block(stale, "no"),
        "adopt": lambda: ledger.batches.adopt(stale, manifest(stale)),
    }
    with pytest.raises(LostComparison):
        calls[what]()
    assert ledger.batches.get(NAME, 1) == newer
    assert ledger.batches.manifest_files(NAME, 1) == []


def test_a_refused_batch_keeps_its_ranges_under_a_new_revision(ledger: SqlLedger) -> None:
    writing = ledger.batches.take(planned(ledger), "n1")
    ledger.batches.refuse(writing, DIRTY)
    assert ledger.batches.refusal(NAME, 1) == DIRTY
    revised = replace(writing.plan, revision=2, spec_version=2)
    replanned = ledger.batches.replan(writing, revised)
    assert replanned == ledger.batches.get(NAME, 1) == WritingBatch(revised, 2, "n1")
    assert ledger.batches.refusal(NAME, 1) is None
    with pytest.raises(LostComparison):
        ledger.batches.seal(writing, manifest(writing))  # the old revision's attempt
    assert ledger.batches.take(replanned, "n2").epoch == 3


def test_a_released_batch_keeps_its_release_until_it_takes_another_spec(ledger: SqlLedger) -> None:
    writing = ledger.batches.take(planned(ledger), "n1")
    with pytest.raises(LostComparison):  # nobody refused it
        ledger.repairs.release(NAME, 1, "too dirty", "known")
    ledger.batches.refuse(writing, DIRTY)
    with pytest.raises(LostComparison):
        ledger.repairs.release(NAME, 1, "another reason", "known")
    assert ledger.repairs.released(NAME, 1) is None
    ledger.repairs.release(NAME, 1, "too dirty", "known")
    assert ledger.batches.refusal(NAME, 1) is None
    assert ledger.repairs.released(NAME, 1) == "test: known"
    (batch,) = next(ledger.reads.batch_pages(NAME, 1, 1)).batches
    assert batch.released == "test: known"
    with pytest.raises(LostComparison):  # the second of two clicks
        ledger.repairs.release(NAME, 1, "too dirty", "known")
    assert [e.what for e in ledger.reads.events(NAME, 2)] == ["released", "refused"]
    ledger.batches.refuse(writing, Refusal(kind=RefusalKind.JOB, said="unknown field"))
    with pytest.raises(LostComparison):  # in the words that were seen, but by another rule
        ledger.repairs.release(NAME, 1, "unknown field", "known")
    ledger.batches.replan(writing, replace(writing.plan, revision=2, spec_version=2))
    assert ledger.repairs.released(NAME, 1) is None


def test_a_sealed_batch_needs_no_release(ledger: SqlLedger) -> None:
    writing = ledger.batches.take(planned(ledger), "n1")
    ledger.batches.refuse(writing, DIRTY)
    ledger.batches.seal(writing, manifest(writing))
    with pytest.raises(LostComparison):
        ledger.repairs.release(NAME, 1, "too dirty", "known")


def test_a_new_revision_keeps_the_ranges(ledger: SqlLedger) -> None:
    writing = ledger.batches.take(planned(ledger), "n1")
    with pytest.raises(ValueError, match="keeps the ranges"):
        ledger.batches.replan(writing, replace(plan(1, 0, 4), revision=2))


def test_a_run_stays_bound_to_its_first_batch(ledger: SqlLedger) -> None:
    landed(ledger)
    assert ledger.batches.bound(NAME, "run-1") == 1
    landed(ledger, 2, 5, 9)
    assert ledger.batches.bind(NAME, "run-1", 2) == 1
    assert ledger.batches.bind(NAME, "other", 2) == 2
    assert ledger.batches.bound(NAME, "unknown") is None


def test_an_abandoned_batch_is_not_read_again(ledger: SqlLedger) -> None:
    writing = ledger.batches.take(planned(ledger), "n1")
    ledger.batches.abandon(writing, "its ranges are gone")
    assert ledger.batches.get(NAME, 1).state == "ABANDONED"
    assert ledger.batches.open(NAME) is None
    assert ledger.batches.planning_view(NAME).planned_ends == {0: 5, 1: 0}


def test_an_accepted_topic_starts_anew(ledger: SqlLedger) -> None:
    landed(ledger)
    with pytest.raises(LostComparison):
        ledger.pipelines.accept_topic(NAME, "wrong", "id-2", "why")
    ledger.pipelines.accept_topic(NAME, "id-1", "id-2", "recreated")
    view = ledger.batches.planning_view(NAME)
    assert (view.planned_ends, view.accepted_topic_id) == ({}, "id-2")


# ---------------------------------------------------------------- windows


def test_a_window_without_a_row_is_open(ledger: SqlLedger) -> None:
    window = ledger.windows.get(NAME, WINDOW)
    assert (window.state, window.current, window.newest) == ("OPEN", None, 0)


def test_a_window_that_is_not_ready_stays_open_and_keeps_the_answer(ledger: SqlLedger) -> None:
    answer = replace(ready(TopicFacts(None, None, ())), ready=False)
    assert not ledger.windows.begin_close(NAME, WINDOW, lambda facts: answer).ready
    assert ledger.windows.get(NAME, WINDOW).state == "OPEN"
    assert ledger.windows.certificate(NAME, WINDOW) == answer


def test_closing_waits_for_earlier_batches_only(ledger: SqlLedger) -> None:
    planned(ledger)
    ledger.windows.begin_close(NAME, WINDOW, ready)
    assert ledger.windows.finish_close(NAME, WINDOW) == [1]
    assert ledger.windows.get(NAME, WINDOW).state == "CLOSING"
    writing = ledger.batches.take(ledger.batches.open(NAME), "n")
    ledger.batches.land(ledger.batches.seal(writing, manifest(writing)))
    planned(ledger, 2, 5, 9)  # planned after: its rows are late, it is not waited for
    assert ledger.windows.finish_close(NAME, WINDOW) == []
    assert ledger.windows.generation(NAME, WINDOW, 1).batches == (1,)
    assert ledger.batches.planning_view(NAME).not_open == (0,)
    with pytest.raises(LostComparison):
        ledger.windows.finish_close(NAME, WINDOW)
    with pytest.raises(LostComparison):
        ledger.windows.begin_close(NAME, WINDOW, ready)


def test_r3_an_overtaken_epoch_neither_holds_nor_builds(ledger: SqlLedger) -> None:
    closed(ledger)
    old = ledger.windows.take(NAME, WINDOW, 1, "n1")
    new = ledger.windows.take(NAME, WINDOW, 1, "n2")
    assert (old.epoch, new.epoch) == (1, 2)
    assert not ledger.windows.holds(old)
    assert ledger.windows.holds(new)
    with pytest.raises(LostComparison):
        ledger.windows.built(old, "file:///x", [])
    assert ledger.windows.built(new, "file:///x", ledger.batches.manifest_files(NAME, 1)).state == "BUILT"
    with pytest.raises(LostComparison):
        ledger.windows.take(NAME, WINDOW, 1, "n3")


def test_a_generation_through_all_its_states(ledger: SqlLedger) -> None:
    first = built(ledger)
    assert ledger.windows.generation(NAME, WINDOW, 1) == first
    with pytest.raises(LostComparison):
        ledger.windows.publish(first, "file:///lake/1", "cert")  # not swapping yet
    one = ledger.windows.publish(ledger.windows.begin_swap(first), "file:///lake/1", "cert")
    assert ledger.windows.generation(NAME, WINDOW, 1) == one
    assert ledger.windows.published_starts(NAME) == {0}
    number = ledger.windows.begin_generation(NAME, WINDOW, 1, "replay")
    with pytest.raises(LostComparison):
        ledger.windows.begin_generation(NAME, WINDOW, 1, "replay")
    taken = ledger.windows.take(NAME, WINDOW, number, "n")
    second = ledger.windows.built(taken, "file:///assembled/2", first.files)
    assert ledger.windows.get(NAME, WINDOW).current == 1, "readable until the swap"
    ledger.windows.publish(ledger.windows.begin_swap(second), "file:///lake/2", "cert")
    window = ledger.windows.get(NAME, WINDOW)
    assert (window.current, window.newest) == (2, 2)
    assert ledger.windows.generation(NAME, WINDOW, 1).state == "RETIRED"


def test_a_discarded_generation_is_as_if_it_never_was_but_keeps_its_number(ledger: SqlLedger) -> None:
    first = ledger.windows.begin_swap(built(ledger))
    ledger.windows.publish(first, "file:///lake/1", "cert")
    number = ledger.windows.begin_generation(NAME, WINDOW, 1, "replay")
    second = ledger.windows.built(ledger.windows.take(NAME, WINDOW, number, "n"), "file:///assembled/2", first.files)
    ledger.windows.discard(second, "unchanged")
    assert ledger.windows.get(NAME, WINDOW).newest == 1
    assert ledger.windows.begin_generation(NAME, WINDOW, 1, "replay") == 3


# ---------------------------------------------------------------- intents


def test_r8_an_unanswered_intent_for_another_location_stops_swap_and_retirement(
    ledger: SqlLedger, now: list[int]
) -> None:
    first = ledger.windows.begin_swap(built(ledger))
    ledger.windows.declare_intent(first, "file:///lake/other", ttl_ms=500)  # its answer never came
    with pytest.raises(CatalogueUnsure, match="may still be executed"):
        ledger.windows.declare_intent(first, "file:///lake/1", ttl_ms=500)
    with pytest.raises(CatalogueUnsure):
        ledger.windows.publish(first, "file:///lake/1", "cert")
    now[0] += 500
    call = ledger.windows.declare_intent(first, "file:///lake/1", ttl_ms=500)
    ledger.windows.declare_intent(first, "file:///lake/1", ttl_ms=500)  # the same location is no contradiction
    ledger.windows.answer_intent(call)
    ledger.windows.publish(first, "file:///lake/1", "cert")


def test_r8_an_answer_removes_that_calls_intent_only(ledger: SqlLedger) -> None:
    first = ledger.windows.begin_swap(built(ledger))
    mine = ledger.windows.declare_intent(first, "file:///lake/a", ttl_ms=500)
    ledger.windows.declare_intent(first, "file:///lake/a", ttl_ms=500)
    ledger.windows.answer_intent(mine)
    with pytest.raises(CatalogueUnsure):
        ledger.windows.declare_intent(first, "file:///lake/b", ttl_ms=500)


def test_r8_an_intent_needs_the_generation_that_it_is_for(ledger: SqlLedger) -> None:
    first = ledger.windows.begin_swap(built(ledger))
    published = ledger.windows.publish(first, "file:///lake/1", "cert")
    with pytest.raises(LostComparison, match="overtaken"):
        ledger.windows.declare_intent(first, "file:///lake/1", ttl_ms=500)  # it is CURRENT now
    ledger.windows.begin_generation(NAME, WINDOW, 1, "replay")
    with pytest.raises(LostComparison, match="overtaken"):
        ledger.windows.declare_intent(published, "file:///lake/1", ttl_ms=500)


# ---------------------------------------------------------------- partition values


def test_windows_have_the_values_of_what_has_landed_until_they_are_closed(ledger: SqlLedger) -> None:
    writing = ledger.batches.take(planned(ledger), "n1")
    sealed = ledger.batches.seal(writing, manifest(writing))
    assert ledger.batches.values(NAME, 0) == {}  # not landed yet
    ledger.batches.land(sealed)
    found = {f.values for f in sealed.manifest.files if f.kind == "data"}
    assert found
    assert ledger.batches.values(NAME, 0) == ledger.batches.values(NAME, 0, 0) == {0: found}
    assert ledger.batches.values(NAME, 1) == ledger.batches.values("another", 0) == {}
    ledger.windows.begin_close(NAME, WINDOW, ready)
    assert ledger.batches.values(NAME, 0) == {0: found}
    assert ledger.windows.finish_close(NAME, WINDOW) == []
    assert ledger.batches.values(NAME, 0) == {}
    assert ledger.batches.values(NAME, 0, 0) == {0: found}  # for a replay
