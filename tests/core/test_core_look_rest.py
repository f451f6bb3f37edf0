"""How a pipeline stands: what waits, what is remembered, what is told of a mirror, and what late rows need a person."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR, PIPELINE, T0

from tidegate.core.base.offsets import Interval
from tidegate.core.completeness.rules import held
from tidegate.core.late.reopen import MOST_REFUSED, LateBatch, LateWindow, choice, left
from tidegate.core.look.status import (
    Lag,
    PipelineStatus,
    ahead,
    certify,
    first_open,
    lag_of,
    not_remembered,
    waits,
)
from tidegate.core.look.survey import NOTHING, OpenRow, Published
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.copied import Complete, Copied
from tidegate.core.source.port import ALL, Lane, LogState
from tidegate.core.source.progress import BatchLook, Look, Progress
from tidegate.core.spec.pipeline import Completeness, Reopening
from tidegate.core.target.paths import Layout
from tidegate.core.target.stored import Origin, StoredColumn, StoredForm
from tidegate.core.target.tables import columns_of
from tidegate.core.tell.announcement import of_mirror
from tidegate.core.window.answer import Answer
from tidegate.core.window.due import ArchiveNote, Due
from tidegate.core.window.readiness import certify as certify_window
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import PartitionFacts, TopicFacts

WINDOWS = replace(PIPELINE.windows, start_ms=T0, idle="wait")
SPEC = replace(PIPELINE, name="p", windows=WINDOWS)
FACTS = TopicFacts(
    3, T0, (PartitionFacts(partition=0, max_event_ms=T0 + 90 * 60_000, drained=False, advanced_ms=T0 + 9 * HOUR),)
)
SURVEY = replace(NOTHING, facts=FACTS)

# ---------------------------------------------------------------- windows


def test_what_is_not_remembered_to_be_published() -> None:
    assert not_remembered(SPEC, SURVEY, None) == ()
    assert not_remembered(SPEC, SURVEY, T0 + 3 * HOUR) == (Interval(T0, T0 + 3 * HOUR),)
    noted = replace(SURVEY, note=ArchiveNote(published=(Interval(T0, T0 + HOUR),)))
    assert not_remembered(SPEC, noted, T0 + 3 * HOUR) == (Interval(T0 + HOUR, T0 + 3 * HOUR),)


def test_the_window_that_the_watermark_lies_in() -> None:
    assert first_open(SPEC, None) == first_open(SPEC, T0 - 9 * HOUR) == T0
    assert first_open(SPEC, T0 + 2 * HOUR + 5) == T0 + 2 * HOUR


def test_windows_that_are_published_ahead_of_the_watermark() -> None:
    def beyond(newest: int | None) -> tuple[Interval, ...]:
        return ahead(SPEC, replace(SURVEY, published=Published(newest_start_ms=newest)), T0 + HOUR)

    assert beyond(None) == beyond(T0) == ()
    assert beyond(T0 + HOUR) == (Interval(T0 + HOUR, T0 + 2 * HOUR),)
    assert beyond(T0 + 5 * HOUR) == (Interval(T0 + HOUR, T0 + 6 * HOUR),)


def test_the_oldest_window_that_is_not_published_says_who_blocks_it() -> None:
    now = T0 + 9 * HOUR
    found = waits(SPEC, SURVEY, T0, {T0, T0 + HOUR, T0 + 3 * HOUR}, Lag(records=5, partitions={0: 5}), now)
    assert (found.window, found.pipeline, found.decided_ms) == (WindowKey(T0 + 2 * HOUR, T0 + 3 * HOUR), "p", now)
    assert found == certify_window("p", WINDOWS, FACTS, found.window, now, {0: 5}, "")
    drained = replace(SURVEY, facts=replace(FACTS, partitions=(replace(FACTS.partitions[0], drained=True),)))
    asked, alone = (
        waits(SPEC, drained, T0 + 2 * HOUR, set(), lag, now).reason for lag in (Lag(records=5, partitions={0: 5}), None)
    )
    assert "; 5 records wait there that no batch has read" in asked
    assert "records" not in alone
    assert waits(SPEC, SURVEY, T0, set(), None, now).window.start_ms == T0


def test_a_certificate_names_the_first_batch_while_none_has_landed() -> None:
    def reason(batch: OpenRow | None) -> str:
        return certify(SPEC, replace(NOTHING, open_batch=batch), WindowKey(T0, T0 + HOUR), None, T0).reason

    assert reason(OpenRow(batch_id=1, state="WRITING")).endswith("batch 1 is being written (WRITING)")
    assert reason(OpenRow(batch_id=1, state="WRITING", refused="odd")).endswith("is WRITING, and waits for somebody")
    assert "run the ingest DAG" in reason(None)


@pytest.mark.parametrize(
    ("hour", "watermark", "ready", "words"),
    [
        (0, 1, True, "the reading of the source for this window has landed"),
        (0, 0, False, "the first ingest run from 2013-01-05T01:30Z on reads it"),
        (-1, 9, False, "it begins before windows.start: the source is never read for it"),
    ],
)
def test_a_window_of_a_table_is_ready_once_it_was_read(hour: int, watermark: int, ready: bool, words: str) -> None:
    table = replace(WINDOWS, follows=True, watermark_delay_ms=HOUR // 2, read_whole=True)
    facts = TopicFacts(3, T0, (replace(FACTS.partitions[0], max_event_ms=T0 + watermark * HOUR + HOUR // 2),))
    key = WindowKey(T0 + hour * HOUR, T0 + (hour + 1) * HOUR)
    found = certify_window("p", table, facts, key, T0 + 9 * HOUR)
    assert (found.ready, found.blockers) == (ready, ())
    assert words in found.reason


# ---------------------------------------------------------------- what is unread


def test_what_the_newest_plan_left_unread() -> None:
    def lag(**more: object) -> Lag | None:
        looks = {
            0: Look(start=0, end=5, log_start=0, high_watermark=9),
            1: Look(start=0, end=5, log_start=0, high_watermark=9, last_stable_offset=6),
            2: Look(start=0, end=5, log_start=0, high_watermark=4),
        }
        progress = Progress("id", BatchLook(3, False, 77, None, looks))
        one = PipelineStatus(
            pipeline=SPEC, remedy=str, now_ms=0, due=Due(WINDOWS, ()), survey=replace(NOTHING, progress=progress)
        )
        return replace(one, **more).plan_lag  # type: ignore[arg-type]

    assert lag() == Lag(records=5, partitions={0: 4, 1: 1, 2: 0}, asked_ms=77, by_plan=True)
    assert lag(survey=None) is lag(survey=NOTHING) is None


def test_a_table_does_not_say_how_many_rows_it_has() -> None:
    topic = LogState(topic="t", topic_id="id", partitions={0: Lane(0, 5, 7)})
    progress = Progress("id")
    assert lag_of(progress, topic, 5) is not None
    assert lag_of(progress, replace(topic, traits=replace(ALL, windowed=True)), 5) is None
    assert lag_of(progress, replace(topic, topic_id="new"), 5) is lag_of(progress, None, 5) is None


# ---------------------------------------------------------------- mirrors


def test_what_is_told_of_a_mirror() -> None:
    told = Told(upto=7, snapshot="s", rows=12)
    said = {"pipeline": "p", "table": "lake.flights", "upto": 7, "snapshot": "s", "rows": 12}
    assert of_mirror(SPEC, told) == said | {"complete_to": None, "complete_at": None, "exactly": False}
    known = replace(told, copied=Copied(complete=Complete((5, 2), T0 + 4)))
    assert of_mirror(SPEC, known) == said | {
        "complete_to": "5,2", "complete_at": "2013-01-05T00:00:00.004000+00:00", "exactly": False,
    }  # fmt: skip
    exact = replace(told, copied=Copied(complete=Complete((5, 2), exact=True)))
    assert of_mirror(SPEC, exact)["exactly"] is True
    no_look = replace(told, copied=Copied(complete=Complete((5, 2))))
    assert of_mirror(SPEC, no_look)["complete_at"] is None


# ---------------------------------------------------------------- late rows, held windows

LATE = LateWindow(start_ms=T0, batches=(LateBatch(4, 3, T0 + 5 * HOUR, True),), current=1, reopened=0, working=False)
BUDGET = Reopening(after_ms=HOUR, generations=None, age_ms=None, rows=2)


def test_late_rows_that_nothing_takes_up_by_itself() -> None:
    now = T0 + 6 * HOUR
    over = choice(WINDOWS, LATE, BUDGET, now)
    assert (over.window, over.late) == (WindowKey(T0, T0 + HOUR), LATE)
    assert len(over.over) == 1
    assert left(WINDOWS, [LATE], BUDGET, now) == (over,)
    assert left(WINDOWS, [LATE], BUDGET, now - 1) == ()
    assert left(WINDOWS, [replace(LATE, current=None)], BUDGET, now) == ()
    assert left(WINDOWS, [LATE], replace(BUDGET, after_ms=None), now) == ()
    free = replace(BUDGET, rows=None)
    aged = replace(free, age_ms=5 * HOUR)
    assert left(WINDOWS, [LATE], aged, now) == ()
    (old,) = left(WINDOWS, [LATE], aged, now + 1)
    assert old.over == ("it ended at 2013-01-05T01:00Z (late.reopen_age: 5 h)",)
    assert left(WINDOWS, [LATE, replace(LATE, refused=MOST_REFUSED - 1)], free, now) == ()
    (refused,) = left(WINDOWS, [LATE, replace(LATE, refused=MOST_REFUSED)], free, now)
    assert (refused.over, refused.late) == ((), replace(LATE, refused=MOST_REFUSED))


def test_windows_that_another_count_holds_are_told_oldest_first() -> None:
    settings = Completeness(source="sql", conn_id="c", query="q", policy="wait", patience_ms=None)
    short = Answer(source="sql", rows=5, expected=9, problem=None, asked_ms=T0, since_ms=T0 - 5)
    enough = replace(short, accepted="fine")
    found = held(settings, {T0 + HOUR: short, T0: replace(short, since_ms=1), T0 + 2 * HOUR: enough}, T0)
    assert [(h.window_ms, h.since_ms) for h in found] == [(T0, 1), (T0 + HOUR, T0 - 5)]
    assert {h.comparison.action for h in found} == {"hold"}
    assert held(None, {T0: short}, T0) == ()


# ---------------------------------------------------------------- paths

PATHS, WORK = Layout("file:///lake/t", "file:///lake/t/_tidegate"), "file:///lake/t/_tidegate"


def test_paths_of_days_copies_merges_and_failovers() -> None:
    name = PATHS.day_name(T0, 3, 2, "ab")
    assert name == "20130105T000000Z.3.2-ab.day"
    assert (PATHS.day_plan(name), PATHS.day_attempt(name)) == (f"{WORK}/plans/{name}.json", f"{WORK}/tmp/{name}")
    assert (PATHS.copies(), PATHS.copied("7.1-a")) == (f"{WORK}/copies", f"{WORK}/copies/7.1-a")
    assert PATHS.copy_plan("7.1-a") == f"{WORK}/copies/7.1-a.json"
    assert (PATHS.applies(), PATHS.apply("1-2.3-a")) == (f"{WORK}/apply", f"{WORK}/apply/1-2.3-a")
    assert PATHS.apply_plan("1-2.3-a") == f"{WORK}/apply/1-2.3-a.json"
    assert PATHS.failover(4) == f"{WORK}/failovers/4"


def test_a_file_lies_in_an_attempt_or_in_a_generation() -> None:
    tmp, own = f"{WORK}/tmp/7.1-a", f"{WORK}/generations/x.2.1"
    assert PATHS.attempt_of(f"{tmp}/data/b/c") == PATHS.holder_of(f"{tmp}/data/b/c") == (tmp, "data/b/c")
    assert PATHS.generation_of(f"{own}/f") == PATHS.holder_of(f"{own}/f") == (own, "f")
    assert PATHS.attempt_of(f"{own}/f") is PATHS.generation_of(f"{tmp}/f") is None
    assert PATHS.attempt_of(tmp) is PATHS.holder_of("file:///other/f") is PATHS.attempt_of(f"x{tmp}/f") is None


# ---------------------------------------------------------------- stored columns


def test_what_files_hold_beside_the_logical_columns() -> None:
    def value(origin: Origin, kind: str = "int", of: str = "", window: int | None = T0) -> object:
        return StoredColumn("x", kind, origin, of).value(window, 7, (("n", "5"), ("none", None)))

    assert value(Origin.BATCH) == value(Origin.BATCH, window=None) == 7
    assert value(Origin.WINDOW) == T0 * 1000
    assert (value(Origin.VALUE, of="n"), value(Origin.VALUE, "string", of="n")) == (5, "5")
    assert value(Origin.VALUE, of="none") is value(Origin.VALUE, "string", of="none") is None
    with pytest.raises(AssertionError):
        value(Origin.WINDOW, window=None)


def test_constant_columns_come_first() -> None:
    batch = StoredColumn("_batch", "bigint", Origin.BATCH)
    form = StoredForm(
        lambda pipeline, kind: (replace(batch, of=f"{pipeline.name} {kind}"),),
        lambda name, kind: StoredColumn(name, kind, Origin.LOGICAL, name),
    )
    found = form.columns(SPEC, "late")
    assert found[0] == replace(batch, of="p late")
    assert [(c.name, c.type) for c in found[1:]] == list(columns_of(SPEC, "late"))
