"""The fate of one offset from facts alone: each kind, and what decides between two of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR, PIPELINE, T0

from tidegate.core.base.offsets import Interval, OffsetRange
from tidegate.core.files.balance import Balance
from tidegate.core.files.receipt import FileEntry
from tidegate.core.look import fate
from tidegate.core.look.another_reading import fate_of_another
from tidegate.core.look.fate import Fate, fate_of, late_because
from tidegate.core.look.sighting import (
    Candidate,
    Earlier,
    Life,
    OffsetFacts,
    Row,
    Search,
    Sighting,
    Surroundings,
    WindowFacts,
)
from tidegate.core.look.views import BatchRow, GenerationRow, RangeRow, WindowRow
from tidegate.core.source.port import Lane, LogState
from tidegate.core.spec.pipeline import DebeziumFormat, Format, Windows
from tidegate.core.window.lateness import Floor
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import WindowKey

P, OFFSET = 3, 25
TOPIC = LogState(topic="flights", topic_id="id", partitions={P: Lane(5, 40, 50)})
AROUND = Surroundings(PIPELINE, PIPELINE, TOPIC, "", {})
COUNTED = RangeRow(OffsetRange("t", P, 20, 30), Balance(offsets=10, read=10, data=10))
OTHER = RangeRow(OffsetRange("t", 0, 0, 30), Balance(offsets=30, read=30, filtered=30), (Interval(0, 30),))
BATCH = BatchRow(
    batch_id=7,
    state="LANDED",
    epoch=2,
    nonce="n",
    revision=1,
    spec_version=1,
    topic="t",
    topic_id="id",
    clock_ms=T0,
    records=10,
    manifest_digest=None,
    side_moved=True,
    side_registered=True,
    refused=None,
    blocked=None,
    planned_ms=T0 + 1500,
    sealed_ms=None,
    landed_ms=T0 + 9000,
    ranges=(OTHER, COUNTED),
)
KEY = WindowKey(T0, T0 + HOUR)
CURRENT = GenerationRow(
    window_ms=T0,
    number=2,
    state="CURRENT",
    epoch=1,
    nonce="n",
    kind="archive",
    directory="d",
    location="l",
    rows=1,
    digest="x",
    built_ms=T0,
    published_ms=T0 + 777,
    retired_ms=None,
)
LIFE = Life(
    topic_id="id",
    accepted=True,
    first_offset=10,
    planned_end=30,
    batch=BATCH,
    windows={T0: WindowFacts(T0, None, None, ())},
)


def entry(kind: str, low: int | None = T0, high: int | None = T0 + 60_000) -> FileEntry:
    return FileEntry(
        path=f"{kind}/a",
        kind=kind,
        window_ms=None if kind == "dirty" else T0,
        values=(),
        rows=9,
        bytes=100,
        min_event_ms=low,
        max_event_ms=high,
        checksum=1,
        partitions=(),
    )


def decide(life: Life = LIFE, search: Search = Search(), offset: int = OFFSET, around: Surroundings = AROUND) -> Fate:
    return fate_of(OffsetFacts(P, offset, (life,)), life, search, around)


def found(kind: str, generation: int | None = None, **seen: object) -> Search:
    candidate = Candidate(entry(kind), ("file:///a",), generation)
    return Search((candidate,), replace(Sighting(candidate, "file:///a"), **seen))


def placed(generation: GenerationRow | None, **more: object) -> Life:
    return replace(LIFE, windows={T0: replace(WindowFacts(T0, None, generation, ()), **more)})


# ---------------------------------------------------------------- landed


def balanced(**counts: int) -> Life:
    row = replace(COUNTED, balance=Balance(**counts), gaps=(Interval(21, 23),))
    return replace(LIFE, batch=replace(BATCH, ranges=(OTHER, row)))


@pytest.mark.parametrize(
    ("counts", "kind", "says"),
    [
        ({"filtered": 1}, fate.FILTERED, "does not meet the pipeline's `where`"),
        ({"dropped": 1}, fate.DROPPED, "late.policy was drop"),
        ({"filtered": 1, "dropped": 1}, fate.FILTERED, "it was filtered or dropped"),
        ({}, fate.MISSING, "no file has it"),
    ],
)
def test_rows_in_no_file(counts: dict[str, int], kind: str, says: str) -> None:
    answer = decide(balanced(**counts))
    assert (answer.kind, answer.batch_id, answer.attempt, answer.landed_ms) == (kind, 7, 2, T0 + 9000)
    assert says in answer.words
    assert ("(2013-01-05T00:00:01Z), and late" in answer.words) == (kind == fate.DROPPED), "when it was planned"
    assert ("--deep" in answer.next_step) == (kind == fate.MISSING)
    uncounted = replace(LIFE, batch=replace(BATCH, ranges=(replace(COUNTED, balance=None),)))
    assert decide(uncounted).kind == fate.MISSING


def test_tombstones_of_change_events_are_filtered() -> None:
    events = replace(PIPELINE, format=Format("debezium", debezium=DebeziumFormat()))
    for where, says in (
        (None, "filtered: it is a tombstone ("),
        ("a > 1", "a tombstone, or does not meet the pipeline's"),
    ):
        around = replace(AROUND, now=replace(events, where=where))
        assert says in decide(balanced(filtered=1), around=around).words


@pytest.mark.parametrize(("offset", "gap"), [(20, False), (21, True), (22, True), (23, False)])
def test_gaps(offset: int, gap: bool) -> None:
    answer = decide(balanced(filtered=1), offset=offset)
    assert (answer.kind == fate.GAP) == gap
    assert answer.words.startswith("a gap: no record was delivered here (") == gap


def test_dirty_rows() -> None:
    answer = decide(search=found("dirty", reason="not a number", field="fare", raw="x"))
    assert (answer.kind, answer.table, answer.file) == ("dirty", "lake.flights__dirty", "file:///a")
    assert answer.words == "dirty: fare: not a number: x; batch 7, attempt 2, in lake.flights__dirty"
    assert (answer.reason, answer.field, answer.raw) == ("not a number", "fare", "x")
    assert decide(search=found("dirty", reason="cut off")).words.startswith("dirty: cut off; batch 7")


def test_redriven_rows() -> None:
    """Their story is the redrive's, with what they were before."""
    life = replace(LIFE, earlier=(Earlier(replace(BATCH, batch_id=3), ()),))
    answer = decide(life, replace(found("dirty", reason="odd"), before=Row(0, "u", reason="no int", field="fare")))
    assert answer.words.startswith("dirty in batch 3 (fare: no int), redriven by batch 7: dirty: odd; batch 7, attempt")
    assert (answer.dirty_in, answer.batch_id) == ((3,), 7)
    twice = replace(life, earlier=(*life.earlier, Earlier(replace(BATCH, batch_id=5), ())))
    answer = decide(twice, replace(found("dirty", reason="odd"), before=Row(0, "u", reason="cut off")))
    assert answer.words.startswith("dirty in batches 3, 5 (cut off), redriven by batch 7: ")
    assert answer.dirty_in == (3, 5)
    for before in (None, Row(0, "u")):
        words = decide(life, replace(found("dirty", reason="odd"), before=before)).words
        assert words.startswith("dirty in batch 3, redriven by batch 7: ")
    assert decide(search=found("dirty", reason="odd")).dirty_in == ()


def test_late_rows() -> None:
    answer = decide(replace(LIFE, floor=Floor(0)), found("late", event_ms=T0 + 5))
    assert (answer.kind, answer.table, answer.event_ms) == ("late", "lake.flights__late", T0 + 5)
    assert answer.window_ms == T0
    told = "batch 7, attempt 2, event time 2013-01-05T00:00:00.005Z, landed 2013-01-05T00:00:09Z"
    assert answer.words == f"late: {answer.reason}; {told}, in lake.flights__late"
    old = decide(replace(LIFE, floor=Floor(T0 + HOUR)), found("late"))
    assert "windows.max_age" in old.reason
    assert "closing or closed when batch 7 was planned (2013-01-05T00:00:01Z)" in answer.reason


def test_why_a_row_is_late() -> None:
    windows = Windows(size_ms=HOUR, timezone="UTC", start_ms=T0, watermark_delay_ms=0)
    assert "windows.start 2013-01-05T00:00Z" in late_because(Floor(T0), T0 - HOUR, windows, BATCH)
    assert "windows.max_age" in late_because(Floor(T0 + HOUR), T0, windows, BATCH)
    assert "closing or closed" in late_because(Floor(T0 + HOUR - 1), T0, windows, BATCH)
    assert late_because(None, T0, windows, BATCH).startswith("its window 2013-01-05T00:00Z was closing or closed")


def test_published_rows() -> None:
    answer = decide(placed(CURRENT), found("data", 2, event_ms=T0 + 5, kafka_ms=T0 + 6))
    assert (answer.kind, answer.generation, answer.published_ms) == (fate.PUBLISHED, 2, T0 + 777)
    assert (answer.event_ms, answer.kafka_ms) == (T0 + 5, T0 + 6)
    assert (answer.table, answer.settled) == ("lake.flights", True)
    assert answer.words.endswith("published in generation 2 of 2013-01-05T00:00Z")
    replayed = decide(placed(replace(CURRENT, kind="replay")), found("data", 2))
    assert "generation 2 (replay) of" in replayed.words
    assert "event time from 2013-01-05T00:00Z to 2013-01-05T00:01Z" in replayed.words
    for life, number in ((placed(CURRENT), 1), (placed(CURRENT), None), (placed(replace(CURRENT, state="BUILT")), 2)):
        waiting = decide(life, found("data", number))
        assert (waiting.kind, waiting.settled) == (fate.WAITING, False)
        assert "landed 2013-01-05T00:00:09Z, waits for its window 2013-01-05T00:00Z: " in waiting.words


def test_late_rows_that_a_reopening_took_up_are_published() -> None:
    life = replace(placed(replace(CURRENT, kind="reopen", late=(7,))), floor=Floor(T0 + HOUR))
    answer = decide(life, found("data", 2, event_ms=T0 + 5))
    why = "its window 2013-01-05T00:00Z was older than windows.max_age when batch 7 was planned"
    assert (answer.kind, answer.reason, answer.table) == (fate.PUBLISHED, why, "lake.flights")
    assert answer.words.startswith(f"came late: {why}; batch 7, attempt 2, event time ")
    assert answer.words.endswith("generation 2 (reopen) of 2013-01-05T00:00Z, since the window was reopened")
    other = replace(life, windows=placed(replace(CURRENT, kind="reopen", late=(6,))).windows)
    in_time = decide(other, found("data", 2, event_ms=T0 + 5))
    assert (in_time.reason, "late" in in_time.words) == ("", False)


def test_a_batch_of_which_nobody_kept_when_it_landed() -> None:
    answer = decide(replace(LIFE, batch=replace(BATCH, landed_ms=None)), found("late"))
    assert "landed never" in answer.words


REROUTING = replace(AROUND, pinned=replace(PIPELINE, late_policy="reroute"))
SENT = replace(placed(CURRENT), floor=Floor(T0, (), T0))


def test_rerouted_rows_say_which_window_was_theirs() -> None:
    answer = decide(SENT, found("data", 2, event_ms=T0 - 5), around=REROUTING)
    because = "rerouted: its window 2013-01-04T23:00Z was older than windows.max_age when batch 7 was planned"
    assert (answer.kind, answer.reason, answer.window_ms) == (fate.PUBLISHED, because, T0)
    assert answer.words.startswith(f"{because}; it is data of 2013-01-05T00:00Z: batch 7, attempt 2, event time ")
    assert answer.words.endswith("published in generation 2 of 2013-01-05T00:00Z")
    waiting = decide(replace(SENT, windows=LIFE.windows), found("data", event_ms=T0 - 5), around=REROUTING)
    assert (waiting.kind, waiting.reason) == (fate.WAITING, because)


@pytest.mark.parametrize(
    ("life", "event_ms", "around"),
    [
        (SENT, T0, REROUTING),
        (SENT, T0 + HOUR - 1, REROUTING),
        (SENT, T0 - 5, AROUND),
        (replace(SENT, floor=Floor(T0, (), T0 + HOUR)), T0 - 5, REROUTING),
        (replace(SENT, floor=None), T0 - 5, REROUTING),
        (SENT, None, REROUTING),
    ],
)
def test_rows_of_their_own_window_and_other_policies_rows_were_not_rerouted(
    life: Life, event_ms: int | None, around: Surroundings
) -> None:
    answer = decide(life, found("data", 2, event_ms=event_ms), around=around)
    assert "rerouted" not in answer.words
    assert answer.reason == ""


def test_where_nothing_tells_the_event_time_the_batch_says_how_many_were_rerouted() -> None:
    some = (
        replace(OTHER, balance=Balance(offsets=30, read=30, data=30, rerouted=1200)),
        replace(COUNTED, balance=None),
    )
    life = replace(SENT, batch=replace(BATCH, ranges=(*some, replace(OTHER, balance=Balance(rerouted=34)), COUNTED)))
    answer = decide(life, found("data", 2), around=REROUTING)
    assert answer.words.startswith(
        "perhaps rerouted, as 1,234 rows of batch 7; it is data of 2013-01-05T00:00Z: batch 7"
    )


def test_a_file_of_one_instant_tells_the_event_time() -> None:
    def seen(low: int | None, high: int | None) -> int | None:
        candidate = Candidate(entry("data", low, high), ("a",))
        return decide(search=Search((candidate,), Sighting(candidate, "a"))).event_ms

    assert [seen(T0, T0), seen(T0, T0 + 1), seen(None, None)] == [T0, None, None]


ROW = WindowRow(KEY, "CLOSED", 9, T0, None)
READY = Certificate(
    pipeline="flights",
    window=KEY,
    ready=True,
    reason="passed",
    decided_ms=T0,
    batch_id=7,
    watermark_ms=T0,
    partitions=(),
    blockers=(),
)


@pytest.mark.parametrize(
    ("life", "certificate", "says"),
    [
        (placed(CURRENT, row=replace(ROW, blocked="odd\nmore")), None, "blocked by an alarm: odd"),
        (placed(replace(CURRENT, state="SWAPPING"), row=ROW), None, "generation 2 is SWAPPING"),
        (placed(None, row=ROW, others=(replace(CURRENT, number=1, state="BUILT"),)), None, "generation 1 is BUILT"),
        (placed(None, row=ROW, others=(CURRENT,)), None, "it is CLOSED, and not published yet"),
        (placed(None, row=replace(ROW, state="OPEN")), None, ": it is not published yet"),
        (placed(None), None, ": it is not published yet"),
        (placed(None), READY, "ready: passed; no run has published it"),
        (placed(None), replace(READY, ready=False, reason="held"), "2013-01-05T00:00Z: held"),
    ],
)
def test_what_a_window_waits_for(life: Life, certificate: Certificate | None, says: str) -> None:
    around = replace(AROUND, certificates={T0: certificate} if certificate else {})
    answer = decide(life, found("data"), around=around)
    assert answer.kind == fate.WAITING
    assert says in answer.words
    assert "more" not in answer.words
    helps = "tidegate repair flights --window" if "alarm" in says else "tidegate explain flights"
    assert f"{helps} 2013-01-05T00:00Z" in answer.next_step


def test_files_that_could_not_be_read() -> None:
    data = Candidate(entry("data"), ("file:///a", "file:///b"), 2)
    one = decide(placed(CURRENT), Search((data,), None, "no such host"))
    assert (one.kind, one.file) == (fate.PUBLISHED, "file:///a")
    assert one.words.endswith("(by the ledger; its file was not read: no such host)")
    twins = decide(placed(CURRENT), Search((data, data), None, "x"))
    assert (twins.kind, twins.file) == (fate.PUBLISHED, "")
    several = Search((data, Candidate(entry("late"), ()), Candidate(entry("dirty"), ())), None, "x")
    answer = decide(search=several)
    assert (answer.kind, answer.next_step) == (fate.UNDECIDED, "ask again when the files can be read")
    assert answer.words.startswith("batch 7, attempt 2, landed 2013-01-05T00:00:09Z; ")
    assert "one of: data of 2013-01-05T00:00Z, dirty, late for 2013-01-05T00:00Z. Its file" in answer.words
    filtered = decide(balanced(filtered=1), Search((data,), None, "x"))
    assert "one of: data of 2013-01-05T00:00Z, filtered." in filtered.words


@pytest.mark.parametrize(
    ("upto", "kind", "words"),
    [
        (9, fate.MERGED, "merged into lake.flights, which holds batches 1 to 9: the newest event of a key is its row"),
        (7, fate.MERGED, "merged into lake.flights, which holds batches 1 to 7: the newest event of a key is its row"),
        (6, fate.WAITING, "waits for its merge: lake.flights holds batches 1 to 6"),
        (None, fate.WAITING, "waits for its merge: lake.flights holds no batch yet"),
    ],
)
def test_an_event_of_a_mirror_is_merged_with_its_whole_batch(upto: int | None, kind: str, words: str) -> None:
    mirror = replace(PIPELINE, windows=replace(PIPELINE.windows, closes=False))
    answer = decide(search=found("data"), around=replace(AROUND, now=mirror, pinned=mirror, merged_upto=upto))
    assert answer.kind == kind
    assert answer.words.endswith(words)
    assert answer.table == ("lake.flights" if kind == fate.MERGED else "")
    assert answer.next_step == ("" if kind == fate.MERGED else "tidegate apply flights")


# ---------------------------------------------------------------- of a window that was read again


def test_an_offset_of_a_window_that_was_read_again_is_of_the_second_reading() -> None:
    """What the batch knows of it is of the first one, whose rows were numbered otherwise."""
    seen = found("data", 2).found
    reading = "generation 1, the second reading of window 2013-01-05T00:00Z"
    first = "what batch 7 read before is in earlier generations"
    published = fate_of_another("lake.t", BATCH, T0, CURRENT, 1, seen, "")
    assert published == Fate(
        kind=fate.PUBLISHED, words=f"a row of {reading}, published in generation 2; {first}", batch_id=7, window_ms=T0,
        generation=2, published_ms=T0 + 777, table="lake.t", file="file:///a",
    )  # fmt: skip
    assert fate_of_another("lake.t", BATCH, T0, CURRENT, 1, None, "") == Fate(
        kind=fate.GAP, words=f"no row of {reading}, has this number; {first}", batch_id=7
    )
    unread = fate_of_another("lake.t", BATCH, T0, CURRENT, 1, None, "no answer")
    words = f"perhaps a row of {reading}: its files were not read: no answer"
    assert unread == Fate(kind=fate.UNDECIDED, words=words, next_step="ask again when the files can be read")
