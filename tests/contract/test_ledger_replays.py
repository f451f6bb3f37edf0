"""What the ledger says of replays: which spec decoded rows, what has been rebuilt, dry runs; on both databases."""

from __future__ import annotations

from dataclasses import replace

from tests.contract.ledgers import NAME, WINDOW, ledger, now, open_ledger, url
from tests.contract.test_ledger_swap import first_published
from tests.world import make_pipeline
from tidegate.core.clean.dry_runs import EVENT
from tidegate.core.replay.abandoned import Unfinished
from tidegate.core.window.states import QUIET_MS, BuiltGeneration, PublishedGeneration
from tidegate.ledger import SqlLedger

__all__ = ["ledger", "now", "open_ledger", "url"]  # fixtures


def rebuilt(ledger: SqlLedger, spec: int | None, *, other: bool = True) -> BuiltGeneration:
    """The next generation, with other rows than the one in force or the same."""
    current = ledger.windows.get(NAME, WINDOW).current
    assert current is not None
    in_force = ledger.windows.generation(NAME, WINDOW, current)
    files = tuple(replace(f, checksum=f.checksum // 2 if other else f.checksum) for f in in_force.files)  # type: ignore[union-attr]
    number = ledger.windows.begin_generation(NAME, WINDOW, current, "replay")
    taken = ledger.windows.take(NAME, WINDOW, number, "n")
    return ledger.windows.built(taken, f"file:///assembled/{number}", files, spec)


def published(ledger: SqlLedger, spec: int | None) -> PublishedGeneration:
    swapping = ledger.windows.begin_swap(rebuilt(ledger, spec), "file:///beside")
    ledger.windows.publish(swapping, "file:///beside", "cert")
    return ledger.windows.generation(NAME, WINDOW, swapping.number)  # type: ignore[return-value]


def test_a_generation_says_by_which_spec_its_rows_are(ledger: SqlLedger) -> None:
    assert first_published(ledger).spec_version is None
    assert published(ledger, 7).spec_version == 7
    assert published(ledger, None).spec_version is None


def test_what_a_replay_by_this_spec_gave_is_known(ledger: SqlLedger) -> None:
    first_published(ledger)
    assert ledger.replays.rebuilt_by(NAME, 7) == {}
    published(ledger, 7)
    assert ledger.replays.rebuilt_by(NAME, 7) == {WINDOW.start_ms: 2}
    assert ledger.replays.rebuilt_by(NAME, 8) == {}
    assert ledger.replays.rebuilt_by("another", 7) == {}
    published(ledger, 8)
    assert ledger.replays.rebuilt_by(NAME, 7) == {}, "its rows are no more in force"


def test_a_replay_that_found_the_same_counts_and_one_that_was_given_up_does_not(ledger: SqlLedger) -> None:
    first_published(ledger)
    ledger.windows.discard(rebuilt(ledger, 7), "a newer replay was asked for")
    assert ledger.replays.rebuilt_by(NAME, 7) == {}
    ledger.windows.discard(rebuilt(ledger, 7, other=False), "content equals generation 1")
    assert ledger.replays.rebuilt_by(NAME, 7) == {WINDOW.start_ms: 1}


def test_what_was_left_on_its_way(ledger: SqlLedger) -> None:
    first_published(ledger)
    assert ledger.replays.unfinished(NAME) == []
    number = ledger.windows.begin_generation(NAME, WINDOW, 1, "replay")
    begun = Unfinished(WINDOW.start_ms, 2, "replay", "BUILDING")
    assert ledger.replays.unfinished(NAME) == [begun]
    assert not begun.at_work(0), "nobody has ever been at it"
    ledger.windows.take(NAME, WINDOW, number, "n")
    (taken,) = ledger.replays.unfinished(NAME)
    assert taken.began_ms is not None
    assert taken == replace(begun, began_ms=taken.began_ms)
    assert [taken.at_work(taken.began_ms + after) for after in (0, QUIET_MS - 1, QUIET_MS)] == [True, True, False]
    assert ledger.replays.unfinished("another") == []
    ledger.windows.discard(ledger.windows.generation(NAME, WINDOW, number), "given up")
    assert ledger.replays.unfinished(NAME) == []


def test_all_versions_of_a_spec_oldest_first(ledger: SqlLedger) -> None:
    first = make_pipeline("file:///lake/t")
    ledger.pipelines.register(replace(first, description="other"), "another")
    assert [p.description for p in ledger.pipelines.specs(first.name)] == ["", "other"]
    assert ledger.pipelines.specs("nobody") == []


def test_a_dry_run_is_an_event_of_its_window_and_changes_nothing(ledger: SqlLedger) -> None:
    first_published(ledger)
    before = ledger.windows.get(NAME, WINDOW)
    ledger.replays.rehearsed(NAME, WINDOW, "w.dry-a.b")
    (event,) = ledger.cleaning.history(NAME, _subject(), (EVENT,))
    assert event.detail == {"attempt": "w.dry-a.b"}
    assert ledger.windows.get(NAME, WINDOW) == before


def _subject() -> str:
    from tidegate.core.window.cut import window_id

    return f"window {window_id(WINDOW.start_ms)}"
