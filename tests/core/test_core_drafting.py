"""What a sample of messages says of columns, event time and windows."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import pytest

from tidegate.core.base.instants import DAY_MS, HOUR_MS, MINUTE_MS
from tidegate.core.spec import draft_times
from tidegate.core.spec.draft import pipeline_name, sample_ranges
from tidegate.core.spec.draft_fields import Field, Message, columns_of, fields_of, leaves, scalar

NOW = 1_767_225_600_000  # 2026-01-01T00:00:00Z
DAY_ONE = 1_357_344_000_000  # 2013-01-05T00:00:00Z


def tree(*values: dict[str, Any]) -> Field:
    return fields_of([
        Message(0, i, NOW, {name: json.dumps(v) for name, v in value.items()}) for i, value in enumerate(values)
    ])  # fmt: skip


def types(*values: dict[str, Any]) -> dict[str, str]:
    return {c.path: c.type for c in columns_of(tree(*values), len(values), False).columns}


def best(*values: dict[str, Any], now: int = NOW) -> tuple[str, str] | None:
    found = draft_times.chosen(draft_times.candidates(leaves(tree(*values)), len(values), now))
    return found and (found.path, found.format)


# ---------------------------------------------------------------- ranges


def test_each_partition_is_looked_at_three_times() -> None:
    assert sample_ranges({0: (0, 1000), 1: (500, 505), 2: (7, 7)}, 60) == [
        (0, 0, 10), (0, 495, 505), (0, 990, 1000), (1, 500, 505),
    ]  # fmt: skip
    assert sample_ranges({0: (0, 31)}, 30) == [(0, 0, 10), (0, 10, 20), (0, 21, 31)]
    assert sample_ranges({0: (0, 5), 1: (0, 5)}, 1) == [(0, 0, 1), (0, 2, 3), (0, 4, 5)]
    assert sample_ranges({0: (0, 30)}, 30) == [(0, 0, 30)]
    assert sample_ranges({}, 10) == []


def test_no_record_is_read_twice() -> None:
    for length, messages in itertools.product(range(1, 40), (1, 5, 10, 30)):
        found = sample_ranges({0: (100, 100 + length)}, messages)
        offsets = [o for _, start, end in found for o in range(start, end)]
        assert len(offsets) == len(set(offsets)) <= max(messages, 3)
        assert {100, 99 + length} <= set(offsets) <= set(range(100, 100 + length))


def test_of_many_partitions_some_are_looked_at() -> None:
    found = sample_ranges({p: (0, 100) for p in range(1000)}, 30)
    assert sorted({p for p, _, _ in found}) == list(range(0, 1000, 100))
    assert sum(end - start for _, start, end in found) == 30


# ---------------------------------------------------------------- columns


def test_objects_are_taken_apart_and_arrays_are_not() -> None:
    found = types({"a": {"b": {"c": 1}, "d": "x"}, "e": [{"f": 1}]}, {"a": None, "e": None}, {"a": {}})
    assert found == {"$.a.b.c": "bigint", "$.a.d": "string", "$.e": "array<struct<f:bigint>>"}


def test_names_that_would_be_the_same_are_not() -> None:
    made = columns_of(tree({"a_b": 1, "a": {"b": 2}, "A": {"B": 3}}), 1, False).columns
    assert len({c.name for c in made}) == 3


def test_an_object_that_is_sometimes_a_number_gets_no_column() -> None:
    made = columns_of(tree({"a": {"b": 1}}, {"a": 5}), 2, False)
    assert made.columns == ()
    assert made.left == ("$.a: in 2 of 2 messages, seen: bigint, struct<b:bigint>: no type takes them all",)


def test_keys_that_are_data_are_a_map() -> None:
    assert types(*({"m": {f"k{i}": i}} for i in range(30)))["$.m"] == "map<string,bigint>"
    assert types({"m": {"a b": 1, "c.d": 2.5}})["$.m"] == "map<string,double>"
    assert "$.m.k1" in types(*({"m": {"k1": 1, "k2": "x"}} for _ in range(30)))


def test_what_lies_very_deep_is_one_column() -> None:
    value: Any = 1
    for _ in range(30):
        value = {"a": value}
    assert len(types({"x": value})) == 1


def test_text_that_yaml_reads_otherwise_is_quoted() -> None:
    for word in ("on", "No", "y", "null", "12", "1.5", "a b", "@x", "ü", "", "-", "a: b", "a #b"):
        assert scalar(word) == json.dumps(word, ensure_ascii=False)
    for word in ("a", "$.a.b", "kafka_default", "x-y.z"):
        assert scalar(word) == word


def test_names_of_pipelines() -> None:
    assert pipeline_name("shop.Orders-v1") == "shop_orders_v1"
    assert pipeline_name("2024.events") == "topic_2024_events"
    assert pipeline_name("...") == "topic"
    assert pipeline_name("__orders_") == "orders"
    assert len(pipeline_name("x" * 249)) == 100


# ---------------------------------------------------------------- event time


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (DAY_ONE // 1000, "epoch_s"),
        (DAY_ONE, "epoch_ms"),
        (DAY_ONE * 1000, "epoch_us"),
        (DAY_ONE * 1_000_000, "epoch_ns"),
        ("2013-01-05T00:00:00Z", "iso8601"),
        ("2013-01-05 00:00:00.123456+0200", "iso8601"),
        ("2013-01-05T00:00", "iso8601"),
        ("05.01.2013 10:00:00", "%d.%m.%Y %H:%M:%S"),
        ("01/25/2013 10:00:00", "%m/%d/%Y %H:%M:%S"),
        ("20130105100000", "%Y%m%d%H%M%S"),
        ("Sat, 05 Jan 2013 10:00:00 +0100", "%a, %d %b %Y %H:%M:%S %z"),
        ("05/Jan/2013:10:00:00 +0000", "%d/%b/%Y:%H:%M:%S %z"),
        ("2013-01-05", "%Y-%m-%d"),
    ],
)
def test_formats_of_times(value: Any, form: str) -> None:
    assert best({"ts": value, "id": 1}) == ("$.ts", form)


def test_days_that_may_be_months_are_told() -> None:
    def found(*texts: str) -> tuple[str, str]:
        first = draft_times.candidates(leaves(tree(*({"ts": t} for t in texts))), len(texts), NOW)[0]
        return first.format, first.why

    said, turned = "2 of 2 messages have a time in it", "; day and month may be the other way round: look"
    assert found("01/02/2013", "03/04/2013") == ("%d/%m/%Y", said + turned), "of formats that take all, the first"
    assert found("01/02/2013", "25/04/2013") == ("%d/%m/%Y", said)
    assert found("01/02/2013", "04/25/2013") == ("%m/%d/%Y", said)
    assert found("01.02.2013", "03.04.2013") == ("%d.%m.%Y", said)
    assert found("2013/01/02 10:00:00", "2013/03/04 10:00:00") == ("%Y/%m/%d %H:%M:%S", said), "the year comes first"


def test_the_name_decides_between_times() -> None:
    row = {"updated_at": DAY_ONE, "received_at": DAY_ONE, "created_at": DAY_ONE, "event": {"time": DAY_ONE}}
    assert best(row) == ("$.created_at", "epoch_ms"), "of equal names the one that lies less deep"
    assert best(row | {"event_time": DAY_ONE}) == ("$.event_time", "epoch_ms")
    assert best({"eventTime": DAY_ONE, "ts": DAY_ONE}) == ("$.eventTime", "epoch_ms")
    assert best({"@timestamp": "2013-01-05T00:00:00Z"}) == ("$.@timestamp", "iso8601")


@pytest.mark.parametrize("field", ["date_of_birth", "expires_at", "updated_at", "received_at", "valid_until"])
def test_a_time_that_is_another_is_no_event_time(field: str) -> None:
    assert best({field: "2013-01-05T00:00:00Z"}) is None


def test_numbers_that_only_look_like_seconds_are_none() -> None:
    assert best({"user": 1_357_344_000}) is None
    assert best({"user": DAY_ONE}) == ("$.user", "epoch_ms")
    assert best({"at": 12}, {"at": 13}) is None
    assert best({"at": True}) is None
    assert best({"at": 1_357_344_000.5}) is None, "an epoch with a fraction is dirty"


def test_a_time_that_few_messages_have_is_none() -> None:
    rows = [{"at": DAY_ONE + i} if i % 10 else {"x": 1} for i in range(100)]
    assert best(*rows) is None
    assert best(*[{"at": DAY_ONE + i} for i in range(99)], {}) == ("$.at", "epoch_ms")


@pytest.mark.parametrize("odd", [12, "unknown", None, True])
def test_few_odd_values_leave_the_event_time_what_it_is(odd: Any) -> None:
    rows = [{"at": f"2013-01-05T00:{i % 60:02d}:00Z", "id": i} for i in range(96)]
    assert best(*rows[:48], *[{"at": odd, "id": 1}] * 4, *rows[48:]) == ("$.at", "iso8601")
    numbers = [{"at": DAY_ONE + i, "id": i} for i in range(96)]
    assert best(*[{"at": odd, "id": 1}] * 4, *numbers) == ("$.at", "epoch_ms")
    found = draft_times.candidates(leaves(tree(*rows, *[{"at": odd}] * 4)), 100, NOW)
    assert found[0].why == "96 of 100 messages have a time in it; 4 would be dirty"


def test_an_event_time_that_many_messages_lack_is_a_near_candidate() -> None:
    rows = [{"at": "2013-01-05T00:00:00Z" if i % 10 else i, "n": i} for i in range(100)]
    assert best(*rows) is None
    (found,) = draft_times.candidates(leaves(tree(*rows)), 100, NOW)
    assert (found.path, found.format, found.share) == ("$.at", "iso8601", 0.9)


def test_a_time_in_the_future_is_none() -> None:
    assert best({"at": NOW + 3 * DAY_MS}) is None
    assert best({"at": NOW + HOUR_MS}) == ("$.at", "epoch_ms")


@pytest.mark.parametrize(("messages", "path"), [(20, "$.started_at"), (21, None)])
def test_a_constant_of_more_than_twenty_messages_is_no_event_time(messages: int, path: str | None) -> None:
    found = best(*[{"started_at": DAY_ONE, "n": i} for i in range(messages)])
    assert (found and found[0]) == path


def test_candidates_from_the_best_to_the_worst() -> None:
    """Those that enough messages have come first, then names decide, then how exact the time is, then the depth."""
    rows = [
        {
            **({"event_time": DAY_ONE + i} if i > 5 else {}),
            "updated_at": DAY_ONE + i,
            "received_at": DAY_ONE + i,
            "opened": DAY_ONE + i,
            "a": {"sent_at": DAY_ONE + i},
            "day_at": f"2013-01-{i % 28 + 1:02d}",
            "second_at": DAY_ONE // 1000 + i,
            "text_at": f"05.01.2013 10:00:{i % 60:02d}",
            **({"measured_at": DAY_ONE + i} if i > 4 else {}),
            "at": f"2013-01-05T00:00:{i % 60:02d}Z",
        }
        for i in range(100)
    ]
    assert [c.path for c in draft_times.candidates(leaves(tree(*rows)), 100, NOW)] == [
        "$.measured_at", "$.at", "$.a.sent_at", "$.second_at", "$.text_at", "$.day_at", "$.opened", "$.received_at",
        "$.updated_at", "$.event_time",
    ]  # fmt: skip


def test_a_field_of_which_less_than_half_are_times_is_no_candidate() -> None:
    def candidates(times: int, others: int, nulls: int = 0) -> int:
        rows = [{"at": DAY_ONE + i} for i in range(times)] + [{"at": i} for i in range(others)] + [{"at": None}] * nulls
        return len(draft_times.candidates(leaves(tree(*rows)), len(rows), NOW))

    assert (candidates(50, 50), candidates(49, 51), candidates(1, 9), candidates(0, 0, nulls=3)) == (1, 0, 0, 0)


def test_an_event_time_that_exactly_enough_messages_have() -> None:
    assert best(*[{"at": DAY_ONE + i} for i in range(95)], *[{}] * 5) == ("$.at", "epoch_ms")
    assert best(*[{"at": DAY_ONE + i} for i in range(94)], *[{}] * 6) is None


def test_an_instant_is_what_the_worker_reads_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an offset it is UTC, wherever the command runs; Python alone would take weeks and commas too."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert draft_times.event_ms("2013-01-05T00:00:00.123Z", "iso8601") == DAY_ONE + 123
        assert draft_times.event_ms("2013-01-05 00:00", "iso8601") == DAY_ONE
        assert draft_times.event_ms("2013-01-05T02:00:00+02:00", "iso8601") == DAY_ONE
        assert draft_times.event_ms("05.01.2013", "%d.%m.%Y") == DAY_ONE
    finally:
        monkeypatch.undo()
        time.tzset()
    assert draft_times.event_ms("2013-W01-6T00:00", "iso8601") is None
    assert draft_times.event_ms("2013-01-05T00:00:00,5", "iso8601") is None
    assert draft_times.event_ms("9999-12-31T23:59:59-05:00", "iso8601") is not None


# ---------------------------------------------------------------- windows


def times(*events: int, partition: int = 0) -> list[tuple[int, int, int]]:
    return [(partition, i, at) for i, at in enumerate(events)]


def test_windows_begin_with_the_first_event_and_wait_for_twice_the_disorder() -> None:
    events = [NOW - 5 * HOUR_MS + i * MINUTE_MS - (i % 10 == 9) * 40 * MINUTE_MS for i in range(300)]
    found = draft_times.windows_of(times(*events), 300_000, NOW)
    assert (found.size_ms, found.start_ms) == (HOUR_MS, (min(events)) // HOUR_MS * HOUR_MS)
    assert found.delay_ms == 120 * MINUTE_MS, "40 min, less the one minute before"
    assert found.idle == "clock"
    assert found.odd == 0


def test_partitions_are_in_order_each_by_itself() -> None:
    early, late = times(*range(DAY_ONE, DAY_ONE + 1000)), times(*range(NOW - 9000, NOW - 8000), partition=1)
    assert draft_times.windows_of(late + early, 10, NOW).delay_ms == 15 * MINUTE_MS


def test_the_clock_stands_in_for_live_topics_only() -> None:
    """With the default, partitions of a load hold their windows: they were behind when they were read."""
    assert draft_times.windows_of(times(NOW - 2 * HOUR_MS), 1000, NOW).idle == "follow"
    assert draft_times.windows_of(times(NOW - HOUR_MS), 1000, NOW).idle == "clock"
    assert draft_times.windows_of(times(NOW), 1000, NOW, lag_ms=2 * HOUR_MS).idle == "follow"
    assert draft_times.windows_of(times(NOW), 1000, NOW, lag_ms=5 * MINUTE_MS).idle == "clock"


def test_odd_events_decide_nothing() -> None:
    events = [NOW - 3 * DAY_MS + i * HOUR_MS for i in range(60)]
    odd = [*events, 978_307_200_000, 0, NOW + 900 * DAY_MS]
    found = draft_times.windows_of(times(*odd), 600_000, NOW)
    assert (found.start_ms, found.odd, found.delay_ms) == (events[0], 3, 15 * MINUTE_MS)
    assert "without 3 odd events" in found.why["start"]


def test_a_burst_at_the_end_does_not_make_the_beginning_odd() -> None:
    events = [NOW - 30 * DAY_MS + i * DAY_MS for i in range(30)] + [NOW - HOUR_MS + i * 1000 for i in range(270)]
    assert draft_times.windows_of(times(*events), 1_000_000, NOW).odd == 0


@pytest.mark.parametrize(
    ("days", "records", "size"),
    [(3, 10_000_000, HOUR_MS), (1, 10, HOUR_MS), (30, 1000, DAY_MS), (400, 1_000_000, DAY_MS), (400, 10**9, HOUR_MS)],
)
def test_windows_are_days_where_hours_would_be_many_and_small(days: int, records: int, size: int) -> None:
    found = draft_times.windows_of(times(NOW - days * DAY_MS, NOW), records, NOW)
    assert found.size_ms == size
    assert found.start_ms % size == 0


def test_without_any_event_time_there_are_windows_all_the_same() -> None:
    found = draft_times.windows_of([], 10, NOW)
    assert (found.size_ms, found.start_ms, found.idle) == (HOUR_MS, NOW, "clock")
    assert draft_times.windows_of(times(0, 1), 10, NOW).odd == 2


def test_few_odd_values_do_not_keep_an_object_together() -> None:
    rows = [{"a": {"b": 1}}] * 399
    assert types(*rows, {"a": 5}) == {"$.a.b": "bigint"}
    assert types(*rows[:9], {"a": 5}) == {}


def test_the_type_of_most_values_decides_and_the_rest_is_told() -> None:
    def column(odd: list[Any], *usual: Any, text_only: bool = False) -> tuple[str, bool, str]:
        rows = [{"w": v} for v in [*odd, *usual]]
        (made,) = columns_of(tree(*rows), len(rows), text_only).columns
        return made.type, made.convert, made.why

    weights = [i if i % 2 else i + 0.5 for i in range(95)]
    assert column(["heavy"] * 5, *weights) == ("double", False, "in 100 of 100 messages; 5 would be dirty: text")
    assert column(["heavy"] * 6, *weights[:94])[:2] == ("string", True)
    assert column(["heavy", True, [1]], *range(97)) == (
        "bigint", False, "in 100 of 100 messages; 3 would be dirty: array, text, true or false",
    )  # fmt: skip
    instants = [f"2013-01-05T00:{i % 60:02d}:00Z" for i in range(97)]
    assert column([1, 2, "soon"], *instants) == (
        "timestamp", False,
        "in 100 of 100 messages; 1 would be dirty: text; 2 numbers would be read as epoch milliseconds",
    )  # fmt: skip
    assert column([7] * 3, *["a"] * 97)[:2] == ("string", True), "text takes them all"
    assert column([None] * 50 + ["heavy"] * 3, *range(47))[:2] == ("string", True), "of the values that are not null"
    assert column(["a"] * 3, *range(97), text_only=True)[0] == "bigint"
    assert column(["007"] * 3, *range(97), text_only=True)[0] == "string", "codes, not numbers"
    assert column(["a"] * 3, *[[i] for i in range(97)])[0] == "array<bigint>"


def test_a_path_that_is_too_long_for_a_spec_is_left() -> None:
    found = columns_of(tree({"x" * 127: 1, "y": {"z" * 125: DAY_ONE}, "w": 1, "v" * 126: 2}), 1, False)
    assert [c.path for c in found.columns] == ["$.w", "$." + "v" * 126]
    assert found.left == (f'"{"x" * 79}: no path can name it', f'"y.{"z" * 77}: no path can name it')
    assert best({"at" * 100: DAY_ONE}) is None
