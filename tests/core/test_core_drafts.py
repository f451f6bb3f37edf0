"""A pipeline's YAML that is drafted from a sample: which columns, which event time, and the reason beside each line."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tidegate.core.base.instants import DAY_MS, HOUR_MS, MINUTE_MS
from tidegate.core.spec.draft import Draft, UnknownField, Wanted, draft, text
from tidegate.core.spec.draft_fields import Columns, DraftColumn, Message
from tidegate.core.spec.draft_times import TimeField, WindowDraft

NOW = 1_767_225_600_000  # 2026-01-01T00:00:00Z
WANTED = Wanted(
    name="shop_orders", topic="shop.orders", conn_id="kafka", sink_conn_id="hive", table="lake.orders",
    location="file:///lake/orders", format={"type": "json"},
)  # fmt: skip
ID, NAME, DEEP = (
    DraftColumn("id", "bigint", "$.id", "whole numbers"),
    DraftColumn("name", "string", "$.name", "texts"),
    DraftColumn("deep", "array<int>", "$.deep", "arrays"),
)
AT = TimeField("$.at", "epoch_ms", 1.0, (0,), "it says so")
HOURS = WindowDraft(
    HOUR_MS, NOW, 5 * MINUTE_MS, "clock", {"size": "few", "start": "the earliest", "watermark_delay": "so"}
)
DRAFT = Draft(
    wanted=WANTED, records=1200, looked=3, decoded=3, columns=Columns((ID, NAME, DEEP), ("$.odd: no type",)), time=AT,
    others=(), windows=HOURS,
)  # fmt: skip


def messages(*values: dict[str, Any] | None, ms: int = NOW) -> list[Message]:
    return [
        Message(0, i, ms, None if v is None else {k: json.dumps(x) for k, x in v.items()}) for i, v in enumerate(values)
    ]


# ---------------------------------------------------------------- columns whose values do not fit


def test_columns_get_a_wider_type_or_go() -> None:
    made = DRAFT.without(["id", "deep"])
    assert made is not None
    wider = replace(ID, type="string", convert=True, why="whole numbers; not every value fits bigint")
    assert made.columns == Columns((wider, NAME), ("$.odd: no type", "$.deep: its values do not fit array<int>"))
    assert replace(made, columns=DRAFT.columns) == DRAFT
    again = made.without(["id"])
    assert again is not None
    assert again.columns.columns == (NAME,), "no type takes more"
    assert DRAFT.without([]) is None
    assert DRAFT.without(["other"]) is None
    assert replace(DRAFT, columns=Columns((DEEP,))).without(["deep"]) is None, "one column has to stay"


def test_types_that_the_messages_schema_refuses() -> None:
    made = DRAFT.otherwise([1, 2])
    assert made is not None
    assert made.columns.columns == (ID, replace(NAME, type="binary"))
    assert made.columns.left[-1] == "$.deep: its values do not fit array<int>"
    assert DRAFT.otherwise([]) is None


# ---------------------------------------------------------------- from a sample


def drafted(*values: dict[str, Any] | None, wanted: Wanted = WANTED, ms: int = NOW, records: int = 1200) -> Draft:
    return draft(wanted, messages(*values, ms=ms), records, 2, NOW)


BOTH = {"at": NOW - 60_000, "id": 7, "deep": {"seen": "2025-12-31T23:00:00Z"}}


def test_a_draft_of_a_sample() -> None:
    found = drafted(BOTH, None, {**BOTH, "at": NOW - 120_000})
    assert (found.records, found.looked, found.decoded, found.gaps) == (1200, 3, 2, 2)
    assert {"at", "id"} <= {c.name for c in found.columns.columns}
    assert found.time is not None
    assert found.time.path == "$.at"
    assert [c.path for c in found.others] == ["$.deep.seen"]
    assert found.windows.why["start"].endswith("2025-12-31T23:58Z")
    assert found.wanted is WANTED
    one = drafted(BOTH)
    assert one.time is not None
    assert one.time.why == "1 of 1 message have a time in it"


def test_the_event_time_that_was_asked_for() -> None:
    for asked in ("deep.seen", "$.deep.seen"):
        found = drafted(BOTH, wanted=replace(WANTED, event_time=asked))
        assert found.time is not None
        assert found.time.path == "$.deep.seen"
        assert found.windows.why["start"].endswith("2025-12-31T23:00Z"), "a value inside of another"
    kafka = drafted(BOTH, wanted=replace(WANTED, event_time="kafka_timestamp"), ms=NOW - 5 * HOUR_MS)
    assert kafka.time is None
    assert len(kafka.others) == 2
    assert kafka.windows.why["start"].endswith("2025-12-31T19:00Z")
    assert kafka.windows.idle == "follow"


def test_an_event_time_that_is_in_no_message_or_is_none() -> None:
    with pytest.raises(UnknownField, match=r"no message of the sample has \$\.no; --event-time can be \$\.at, "):
        drafted(BOTH, wanted=replace(WANTED, event_time="no"))
    with pytest.raises(UnknownField, match=r"^\$\.id holds no times; .*kafka_timestamp$"):
        drafted(BOTH, wanted=replace(WANTED, event_time="id"))


def test_records_that_come_late_are_a_load_of_old_data() -> None:
    """By the middle of how late they come."""
    old = [{"at": NOW - 400 * HOUR_MS}] * 2
    assert drafted(*old, {"at": NOW - 1000}).windows.why["idle"].startswith("records come 16.7 days after")
    assert "idle" not in drafted({"at": NOW - 400 * HOUR_MS}, *[{"at": NOW - 1000}] * 3).windows.why
    assert "idle" in drafted(*[{"at": NOW - 400 * HOUR_MS}] * 3, *[{"at": NOW - 1000}] * 2).windows.why
    assert drafted().windows.why["start"].startswith("this hour")


def test_a_message_without_the_time_says_nothing() -> None:
    asked = replace(WANTED, event_time="at")
    some = drafted(*[BOTH] * 9, {"id": 1}, {"at": "odd"}, wanted=asked)
    assert some.windows.why["start"].endswith("2025-12-31T23:59Z")
    shapes = [BOTH] * 30 + [{"deep": 7}, {"id": 2}]
    nested = drafted(*shapes, wanted=replace(WANTED, event_time="deep.seen"))
    assert nested.windows.why["start"].endswith("2025-12-31T23:00Z")


def test_days_where_the_event_time_has_no_hour() -> None:
    asked = replace(WANTED, event_time="day")
    found = drafted({"day": "2025-12-30"}, {"day": "2025-12-31"}, wanted=asked)
    assert found.time is not None
    assert found.windows.size_ms == DAY_MS


def test_messages_that_stay_as_they_are() -> None:
    raw = drafted(BOTH, wanted=replace(WANTED, format={"type": "raw"}))
    assert [c.name for c in raw.columns.columns] == ["key", "value", "headers"]
    assert (raw.time, raw.others) == (None, ())
    assert "# the messages as they are" in text(raw)


def test_texts_of_csv_are_judged_by_what_they_hold() -> None:
    """There is nothing but texts in a CSV, so that a column of texts takes a number too."""

    def drafts(kind: str) -> Columns:
        odd = [{"n": "x"}] * 3 + [{"n": 7}]
        return drafted(*odd, wanted=replace(WANTED, format={"type": kind})).columns

    assert [c.convert for c in drafts("csv").columns] == [False]
    assert drafts("json") != drafts("csv")


# ---------------------------------------------------------------- the YAML


def test_the_whole_file() -> None:
    assert text(DRAFT).splitlines() == [
        "# Drafted by `tidegate init shop.orders` from 3 messages of 1,200 records. Change whatever you know better; "
        "every key",
        "# is in docs/pipeline.md. What has landed stays: columns can be added later (docs/schema.md).",
        "version: 1",
        "name: shop_orders".ljust(48) + "  # the file's name; its DAGs begin with it",
        "owner: data-platform".ljust(48) + "  # shown in Airflow",
        "source: {conn_id: kafka, topic: shop.orders}",
        "# fields that the sample did not show are kept in the map column _extra",
        "format: {type: json}",
        "columns:",
        "  - {name: id, type: bigint}".ljust(48) + "  # whole numbers",
        "  - {name: name, type: string}".ljust(48) + "  # texts",
        '  - {name: deep, type: "array<int>"}'.ljust(48) + "  # arrays",
        "  # $.odd: no type",
        "event_time: {from: $.at, format: epoch_ms}".ljust(48) + "  # it says so",
        "windows:",
        "  size: 1h".ljust(48) + "  # few",
        "  timezone: UTC",
        "  start: 2026-01-01T00:00:00Z".ljust(48) + "  # the earliest",
        "  watermark_delay: 5m".ljust(48) + "  # so",
        "partition_by: [date, hour]".ljust(48) + "  # add columns with few values, if queries choose by them",
        "sink:",
        "  conn_id: hive",
        "  table: lake.orders",
        '  location: "file:///lake/orders"',
    ]
    assert text(DRAFT).endswith('orders"\n')


def lines(**more: Any) -> list[str]:
    return text(replace(DRAFT, **more)).splitlines()


def line(begins: str, **more: Any) -> str:
    (found,) = [one for one in lines(**more) if one.strip().startswith(begins)]
    return " ".join(found.split())


def test_gaps_of_the_sample_are_allowed() -> None:
    assert line("source:", gaps=1) == "source: {conn_id: kafka, topic: shop.orders, gaps: allow}"
    assert "# 1 offset of the sample hold no record: transactions, or compaction" in lines(gaps=1)
    assert line("source:").endswith("topic: shop.orders}")


def test_kafkas_time_stands_in_where_no_field_is_certain() -> None:
    said = "event_time: {from: kafka_timestamp} # Kafka's timestamp of the record: "
    assert line("event_time:", time=None) == said + "no field of the sample holds times"
    others = tuple(replace(AT, path=f"$.t{n}") for n in range(6))
    assert "# Kafka's timestamp of the record: of no field is it certain that it is the event time" in lines(
        time=None, others=others
    )
    assert line("# other fields with times", others=others) == "# other fields with times: " + ", ".join(
        f"$.t{n} (epoch_ms)" for n in range(5)
    )
    assert not any("other fields" in one for one in lines())


def test_windows_of_days_and_of_old_data() -> None:
    days = replace(HOURS, size_ms=DAY_MS, idle="follow", delay_ms=90_000, why={"idle": "old"})
    assert line("size:", windows=days) == "size: 1d"
    assert line("idle:", windows=days) == "idle: follow # old; the newest window waits for a record after it"
    assert line("watermark_delay:", windows=days) == "watermark_delay: 90s"
    assert line("partition_by:", windows=days).startswith("partition_by: [date] #")
    assert not any(one.strip().startswith("idle") for one in lines())
    for ms, words in ((2 * HOUR_MS, "2h"), (DAY_MS, "1d"), (48 * HOUR_MS, "2d"), (15 * MINUTE_MS, "15m"), (1000, "1s")):
        assert line("watermark_delay:", windows=replace(HOURS, delay_ms=ms)).startswith(f"watermark_delay: {words}")


def test_lists_and_odd_texts_as_yaml() -> None:
    odd = replace(WANTED, format={"type": "csv", "fields": ["a", "no"], "delimiter": ";"})
    assert line("format:", wanted=odd).startswith('format: {type: csv, fields: [a, "no"], delimiter: ";"}')


def test_a_long_reason_stands_above_its_line() -> None:
    long = replace(ID, why="x" * 69)
    found = lines(columns=Columns((long,)))
    at = found.index("columns:")
    assert found[at + 1 : at + 3] == ["  # " + "x" * 69, "  - {name: id, type: bigint}"]
    short = lines(columns=Columns((replace(ID, why="x" * 68),)))
    assert len(short[at + 1]) == 120
    assert short[at + 1].startswith("  - {name: id, type: bigint}  ")


def test_a_reason_is_one_plain_line() -> None:
    odd = line("- {name: id", columns=Columns((replace(ID, why="a\n\x1b[1mb" + "é"),)))
    assert odd.endswith("# a\\n\\x1b[1mbé")
    assert "  # " + "y" * 300 in lines(columns=Columns((), ("y" * 400,)))
