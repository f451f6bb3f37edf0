"""Small rules beside the large ones: pauses, backfills, asks of a redrive, reopenings that wait, words of counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR, T0

from tidegate.core.base.errors import DeliveryAhead
from tidegate.core.base.wording import offsets, size
from tidegate.core.completeness.rules import remedy
from tidegate.core.dirty.redrive import Ask, IngestFacts, InTheWay, waits_for
from tidegate.core.doctor.findings import OK, WARNING
from tidegate.core.doctor.rules import keeps
from tidegate.core.publish.backfill import CLEAR, CREATE, DONE, WORKING, by_catch_up, chosen
from tidegate.core.publish.catchup import FEWEST
from tidegate.core.replay.abandoned import Unfinished
from tidegate.core.replay.rollback import holders
from tidegate.core.tell.pauses import ALL, Pause, ordered, without
from tidegate.core.window.states import BUILDING, QUIET_MS, REPLAY, WindowKey

# ---------------------------------------------------------------- counts


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, "1 byte"), (999, "999 bytes"), (1000, "1.0 kB"), (9_940, "9.9 kB"), (10_000, "10 kB"),
        (999_400, "999 kB"), (999_500, "1.0 MB"), (3_400_000, "3.4 MB"), (120 * 10**9, "120 GB"),
        (5 * 10**12, "5.0 TB"),
        (7 * 10**15, "7.0 PB"), (7 * 10**18, "7,000 PB"),
    ],
)  # fmt: skip
def test_sizes_as_disks_are_sold(count: int, words: str) -> None:
    assert size(count) == words


def test_offsets_of_a_table_are_one_window() -> None:
    assert [offsets(n) for n in (1, 1200, 2**32 - 1, 2**32)] == [
        "1 offset", "1,200 offsets", "4,294,967,295 offsets", "one window of a table",
    ]  # fmt: skip


def test_a_system_that_is_ahead_says_by_what() -> None:
    error = DeliveryAhead("ahead", generation=4, epoch=7, advice="do")
    assert (str(error).split("\n")[0], error.advice, error.generation, error.epoch) == ("ahead", "do", 4, 7)
    plain = DeliveryAhead("ahead")
    assert (plain.advice, plain.generation, plain.epoch) == ("", 0, 0)


# ---------------------------------------------------------------- pauses

PAUSE = Pause(1, T0 + 999, "tidegate command, anna@host", "works", ("ingest", "archive", "replay", "maintain"))


def test_a_pause_in_words() -> None:
    words = "paused on purpose since 2013-01-05T00:00Z by anna@host"
    assert PAUSE.words() == f"{words}: works"
    assert replace(PAUSE, until_ms=T0 + HOUR).words() == f"{words} (until 2013-01-05T01:00Z): works"
    some = replace(PAUSE, kinds=("ingest", "apply"), by="bob")
    assert some.words() == "paused on purpose since 2013-01-05T00:00Z by bob (ingest, apply): works"
    both = replace(some, until_ms=T0 + HOUR)
    assert both.words().endswith("(ingest, apply, until 2013-01-05T01:00Z): works")


def test_kinds_of_dags_go_on_one_by_one() -> None:
    assert ordered(["maintain", "ingest", "ingest"]) == ("ingest", "maintain")
    assert ordered(ALL) == ALL
    left = without(PAUSE, ["archive", "apply"])
    assert left == replace(PAUSE, kinds=("ingest", "replay", "maintain"))
    assert without(PAUSE, PAUSE.kinds) is None


# ---------------------------------------------------------------- backfills


def test_one_process_publishes_many_windows() -> None:
    assert not by_catch_up([CREATE] * (FEWEST - 1) + [CLEAR, DONE] * FEWEST)
    assert by_catch_up([CREATE] * FEWEST)


def test_windows_are_begun_in_turn() -> None:
    keys = [WindowKey(n * HOUR, (n + 1) * HOUR) for n in range(4)]
    verdicts = list(zip(keys, (CREATE, DONE, CLEAR, CREATE), strict=True))
    assert chosen(verdicts, 2, False) == [keys[0], keys[2]]
    assert chosen(verdicts, 2, True) == [keys[3], keys[2]]
    assert chosen(verdicts, -1, False) == chosen([(keys[0], WORKING)], 9, False) == []


def test_a_replay_may_be_at_work_for_a_while() -> None:
    one = Unfinished(T0, 2, REPLAY, BUILDING, began_ms=5)
    assert [one.at_work(5 + QUIET_MS - 1), one.at_work(5 + QUIET_MS)] == [True, False]
    assert not replace(one, began_ms=None).at_work(0)


def test_a_held_window_is_published_by_its_command() -> None:
    assert remedy("p", T0) == "tidegate complete p 2013-01-05T00:00Z --why '...'"


# ---------------------------------------------------------------- a redrive that waits

WAITS = InTheWay(
    batch_id=7,
    state="WRITING",
    epoch=0,
    since_ms=T0 + 999,
    runs=("p.ingest/r0", "p.ingest/r1", "q.ingest/x", "p.ingest/r2"),
    blocked="",
)
AIRFLOW = IngestFacts(paused=False, alive=True, states={})


@pytest.mark.parametrize(
    ("found", "airflow", "what", "does"),
    [
        (replace(WAITS, blocked="odd"), AIRFLOW, " and blocked: odd", "tidegate repair p"),
        (WAITS, None, ", by run r2", "tidegate unpause p; has its run failed? airflow dags trigger p.ingest"),
        (replace(WAITS, runs=("q.ingest/x",)), None, "", "is p.ingest paused?"),
        (WAITS, replace(AIRFLOW, paused=True), " and p.ingest is paused", "tidegate unpause p"),
        (WAITS, replace(AIRFLOW, alive=False), " and no scheduler of Airflow beats", "tidegate doctor"),
        (WAITS, replace(AIRFLOW, states={"r1": "queued"}), ", its run r1 is queued", "it lands by itself"),
        (WAITS, replace(AIRFLOW, states={"r1": "running", "r2": "running"}), ", its run r2 is running", "by itself"),
        (WAITS, replace(AIRFLOW, states={"r2": "restarting"}), ", its run r2 is restarting", "it lands by itself"),
        (WAITS, replace(AIRFLOW, states={"r2": "failed"}), ", its run r2 is failed", "airflow dags trigger p.ingest"),
        (WAITS, AIRFLOW, ", its run r2 is gone", "airflow dags trigger p.ingest"),
        (replace(WAITS, runs=()), AIRFLOW, ", no run works on it", "airflow dags trigger p.ingest"),
    ],
)
def test_what_a_redrive_waits_for(found: InTheWay, airflow: IngestFacts | None, what: str, does: str) -> None:
    said, advice = waits_for("p", found, airflow)
    assert said == f"batch 7 is WRITING since 2013-01-05T00:00Z{what}"
    assert does in advice


def test_an_attempt_that_waits_names_its_epoch() -> None:
    said, _ = waits_for("p", replace(WAITS, epoch=3), AIRFLOW)
    assert said.startswith("batch 7 is WRITING (epoch 3) since 2013-01-05T00:00Z,")
    ask = Ask(1, T0 + HOUR + 61_000, "tidegate command, anna@host", 0)
    assert ask.words() == "a redrive goes first, asked for 2013-01-05T01:01Z by anna@host"


# ---------------------------------------------------------------- how long a topic keeps its records


@pytest.mark.parametrize(
    ("kept", "deletes", "level", "what"),
    [
        (HOUR, True, WARNING, "topic t keeps 1.0 h"),
        (2 * HOUR - 1, True, WARNING, "topic t keeps 2.0 h"),
        (2 * HOUR, True, OK, "topic t can be described and read"),
        (None, True, OK, "topic t can be described and read"),
        (HOUR, False, OK, "topic t can be described and read"),
        (None, None, WARNING, "topic t: its settings may not be read"),
    ],
)
def test_a_topic_keeps_records_as_long_as_reading_may_be_behind(kept, deletes, level: str, what: str) -> None:
    found = keeps("retention", "p", "t", kept, deletes, 2 * HOUR, "keep longer", "ask")
    assert (found.check, found.level, found.what, found.about) == ("retention", level, what, "p")
    if level == OK:
        assert (found.means, found.mend) == ("", "")
    else:
        assert found.means
        assert found.mend == ("ask" if deletes is None else "keep longer")


# ---------------------------------------------------------------- generations that hold another one's files


def test_a_generation_that_is_cleaned_or_discarded_holds_no_file() -> None:
    class Known:
        def __init__(self, number: int, state: str = "RETIRED", cleaned_ms: int | None = None) -> None:
            self.number, self.state, self.cleaned_ms = number, state, cleaned_ms

    found = [Known(1), Known(2), Known(3, "DISCARDED"), Known(4, cleaned_ms=5), Known(5, "CURRENT")]
    assert holders(found, 2) == [1, 5]  # type: ignore[arg-type]
