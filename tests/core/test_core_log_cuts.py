"""A log that was cut, one that has no id of its own, and why a range of a topic cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tidegate.core.base.offsets import OffsetRange
from tidegate.core.files.failure import JobError, refuse
from tidegate.core.files.receipt import Failure
from tidegate.core.files.slow_path import Slow, told
from tidegate.core.source import unreadable
from tidegate.core.source.log_cut import Cut, Resumption, doubtful, found_cuts, resumption, too_short
from tidegate.core.source.port import ALL, Lane, LogState, Unmarked
from tidegate.core.source.records import Chunk
from tidegate.core.spec.pipeline import Column


def topic(*lanes: tuple[int, int | None], identity: bool = True, topic_id: str = "id") -> LogState:
    """Lanes: end, epoch of the leader."""
    return LogState(
        topic="t",
        topic_id=topic_id,
        partitions={p: Lane(0, end, end, epoch) for p, (end, epoch) in enumerate(lanes)},
        traits=replace(ALL, identity=identity),
    )


# ---------------------------------------------------------------- cuts


def test_a_log_with_a_new_leader_or_an_early_end_is_doubtful() -> None:
    state = topic((20, 4), (20, 5), (9, 4), (20, None), (20, 4))
    ends = {0: 20, 1: 10, 2: 10, 3: 99, 4: 99, 9: 5}
    epochs = {0: 4, 1: 4, 2: 4, 3: 4, 9: 4}
    assert doubtful(ends, epochs, state) == {1: (10, 4), 2: (10, 4)}
    assert doubtful({0: 21}, {0: 4}, state) == {0: (21, 4)}
    assert doubtful({9: 5, 3: 99, 4: 99, 1: 10}, epochs, state) == {1: (10, 4)}, "whichever comes first"


def test_a_log_without_an_id_that_ends_early_was_cut_or_created_again() -> None:
    assert too_short({0: 21}, topic((20, None))) == {}
    assert too_short({0: 21, 1: 20}, topic((20, None), (20, None), (0, None), identity=False)) == {0: 20}


def test_the_broker_says_where_the_log_was_cut() -> None:
    state = topic((20, 5), (20, 5), (20, 5))
    assert found_cuts({0: 15, 1: 15, 2: 15, 9: 5}, {0: 4, 1: 4, 2: 4}, state, {1: 12, 0: 15}, 7) == (
        Cut(1, "id", 7, 12, 15, 5),
    )
    one_less = replace(state, partitions={p: lane for p, lane in state.partitions.items() if p})
    assert [c.partition for c in found_cuts({0: 15, 1: 15}, {0: 4, 1: 4}, one_less, {1: 12}, 7)] == [1]
    both = found_cuts({2: 15, 1: 15}, {1: 4, 2: 4}, state, {1: 1, 2: 2}, 7)
    assert [(c.partition, c.start) for c in both] == [(1, 1), (2, 2)]
    assert found_cuts({9: 5, 10: 15, 1: 15}, {1: 4}, state, {1: 3}, 7)[0].partition == 1


@pytest.mark.parametrize(
    ("end", "epochs", "now", "start"),
    [
        (25, {}, 5, 20),
        (25, {0: 4}, None, 20),
        (25, {0: 4}, 5, None),  # it is asked, and says nothing
        (20, {}, 5, None),
        (15, {}, None, None),
    ],
)
def test_without_an_epoch_a_log_was_cut_at_its_end(end: int, epochs: dict[int, int], now, start) -> None:
    found = found_cuts({0: end}, epochs, topic((20, now)), {}, 7)
    assert found == (() if start is None else (Cut(0, "id", 7, start, end, now),))


def test_reading_goes_on_at_the_planned_end_or_from_the_cut() -> None:
    cut = Cut(1, "id", 7, 12, 15, 5)
    skips, rereads = resumption(cut, True, "why"), resumption(cut, False, "why")
    said = {"partition": 1, "after_batch": 7, "topic_id": "id", "leader_epoch": 5, "why": "why"}
    assert skips == Resumption(offset=15, lost_start=12, **said)  # type: ignore[arg-type]
    assert rereads == Resumption(offset=12, **said)  # type: ignore[arg-type]
    assert skips.cut == rereads.cut == 12


@pytest.mark.parametrize(
    ("epoch", "why"),
    [(5, "an unclean leader election?"),
     (None, "its end was lost; or the topic was created again, which `tidegate source reset` accepts")],
)  # fmt: skip
def test_a_cut_in_words(epoch: int | None, why: str) -> None:
    assert Cut(1, "id", 7, 12, 15, epoch).words() == (
        f"partition 1: the log was cut at offset 12 ({why}), and it was planned up to 15, by batch 7: what takes the "
        "freed offsets is not read"
    )


# ---------------------------------------------------------------- logs without an id


def test_each_era_of_a_log_has_an_id_of_its_own() -> None:
    log = topic(topic_id="orders", identity=False)
    assert [log.next_era().topic_id, log.next_era().next_era().topic_id] == ["orders#2", "orders#3"]
    assert log.known_as("orders#2").topic_id == "orders#2"
    assert log.known_as(None) is log.known_as("other#2") is log
    own = topic(topic_id="orders")
    assert own.known_as("orders#2") is own


def test_a_source_without_marks_remembers_nothing() -> None:
    source = Unmarked()
    assert source.cuts("t", {0: (5, 1)}) == {}
    for asks in (lambda: source.remember("g", "t", {}), lambda: source.remembered("g", "t")):
        with pytest.raises(NotImplementedError, match="remembers nothing"):
            asks()


def test_the_length_of_records_is_that_of_keys_and_values() -> None:
    chunk = Chunk(offsets=[1, 2], timestamps=[0, 0], keys=[b"k", None], values=[None, b"four"])
    assert (chunk.bytes, len(chunk)) == (5, 2)
    assert replace(chunk, known_bytes=9).bytes == 9


# ---------------------------------------------------------------- why a range cannot be read

WANTED = OffsetRange("t", 3, 10, 20)


@pytest.mark.parametrize(
    ("why", "partition", "offset", "retry", "words"),
    [
        (lambda: unreadable.recreated("t", "a", "b"), None, None, False, "topic t has id b, planned was a"),
        (lambda: unreadable.no_partition(WANTED), 3, None, True, "topic t has no partition 3"),
        (lambda: unreadable.gone(WANTED, 12, "it begins at 12"), 3, 12, False, "planned offsets [10, 20) are not all"),
        (lambda: unreadable.damaged(WANTED, 12, "crc"), 3, 12, True, "the records at offset 12 are damaged (crc)"),
        (
            lambda: unreadable.stalled(WANTED, 12, 1.5, "crc"),
            3,
            12,
            True,
            "1.5 s: t partition 3 at offset 12 of [10, 20); crc",
        ),
        (
            lambda: unreadable.stalled(WANTED, 12, 60.0, ""),
            3,
            12,
            True,
            "in 60 s: t partition 3 at offset 12 of [10, 20)",
        ),
    ],
)
def test_a_failure_names_its_place_and_what_to_do(why: Callable[[], JobError], partition, offset, retry, words) -> None:
    error = why()
    failure = error.failure
    assert (failure.partition, failure.offset, failure.retry) == (partition, offset, retry)
    assert words in failure.what
    assert failure.what == str(error)
    assert failure.advice
    assert not failure.what.endswith("; ")


def test_a_failure_goes_from_process_to_process() -> None:
    column = Column(name="a", type="int", path="$.a")
    error = refuse(
        "what", advice="do", partition=1, offset=2, field="f", retry=True, kind="dirty_limit", columns=(column,)
    )
    assert error.failure == Failure("what", "do", 1, 2, "f", True, "dirty_limit", (column,))
    made, args = error.__reduce__()
    assert made(*args).failure == error.failure
    plain = refuse("what").failure
    assert (plain.partition, plain.offset, plain.field, plain.kind, plain.columns) == (None, None, None, None, ())
    assert plain.retry is False


def test_the_slow_path_in_words() -> None:
    slow = [Slow("dirty", 1), Slow("number", 1200)]
    assert told(slow, 12000, 1.25) == (
        "1,201 of 12,000 messages (10.0 %) took the slow path: 1,200 number, 1 dirty; about 1.2 CPU-seconds"
    )
    assert told([], 0, 0).startswith("0 of 0 messages took the slow path")
