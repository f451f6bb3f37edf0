"""Where the rows of a replayed window come from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import PIPELINE

from tidegate.core.base.offsets import OffsetRange
from tidegate.core.files.landed import OwedSpan
from tidegate.core.files.receipt import FileEntry, PartitionRows
from tidegate.core.replay.origin import (
    AUTO,
    FILES,
    KAFKA,
    KEPT,
    MOST_ROWS,
    MOST_WINDOWS,
    Refusal,
    Span,
    decide,
    gone,
    groups,
    lost,
    needing_decoding,
)
from tidegate.core.source.port import Lane, LogState
from tidegate.core.spec.pipeline import AvroFormat, Column, CsvFormat, Format, Pipeline

ID, SITE, VALUE = (
    Column(name="id", type="string", path="$.id", nullable=False),
    Column(name="site", type="string", path="$.site"),
    Column(name="value", type="int", path="$.value"),
)
SPEC = replace(PIPELINE, columns=(ID, SITE, VALUE), partition_by=("date", "hour", "site"))


def columns(*found: Column) -> Pipeline:
    return replace(SPEC, columns=found)


def value(**changes: object) -> Pipeline:
    return columns(ID, SITE, replace(VALUE, **changes))


# ---------------------------------------------------------------- columns


@pytest.mark.parametrize(
    "today",
    [
        columns(SITE, VALUE, ID),
        columns(SITE, ID),
        value(type="bigint"),
        value(type="decimal(10,0)"),
        value(type="decimal(12,2)"),
        replace(SPEC, where="value > 1"),
        replace(SPEC, event_time=replace(SPEC.event_time, path="$.elsewhere")),
        replace(SPEC, late_policy="drop", description="other"),
        replace(SPEC, format=Format(unknown_fields="fail")),
        columns(replace(ID, nullable=True), SITE, VALUE),
    ],
    ids=[
        "other order",
        "a column less",
        "wider",
        "a decimal",
        "its fraction",
        "where",
        "event time",
        "policy",
        "unknown",
        "nullable",
    ],
)
def test_nothing_has_to_be_decoded(today: Pipeline) -> None:
    assert needing_decoding(today, [SPEC]) == ()


@pytest.mark.parametrize(
    ("today", "missing"),
    [
        (columns(ID, SITE, VALUE, Column(name="note", type="string", path="$.note")), ("note",)),
        (columns(ID, SITE, replace(VALUE, name="renamed")), ("renamed",)),
        (value(path="$.other"), ("value",)),
        (value(type="smallint"), ("value",)),
        (value(type="string", convert="text"), ("value",)),
        (value(type="decimal(9,0)"), ("value",)),
        (value(type="decimal(11,2)"), ("value",)),
        (value(nullable=False), ("value",)),
        (columns(ID, replace(SITE, path="$.place"), VALUE), ("site",)),
        (replace(SPEC, format=Format(unknown_fields="capture")), ("_extra",)),
        (replace(SPEC, format=Format("csv", csv=CsvFormat(("a",)))), ("id", "site", "value")),
        (
            replace(SPEC, format=Format("csv", unknown_fields="capture", csv=CsvFormat(("a",)))),
            ("id", "site", "value", "_extra"),
        ),
    ],
)
def test_what_needs_the_record_is_named(today: Pipeline, missing: tuple[str, ...]) -> None:
    assert needing_decoding(today, [SPEC]) == missing


def test_a_float_does_not_become_the_double_that_decoding_would_give() -> None:
    assert needing_decoding(value(type="double"), [value(type="float")]) == ("value",)
    assert needing_decoding(value(type="decimal(8,3)"), [value(type="decimal(8,2)")]) == ("value",)
    assert needing_decoding(value(type="decimal(10,3)"), [value(type="decimal(9,2)")]) == ()
    assert needing_decoding(value(type="decimal(9,2)"), [value(type="decimal(8,2)")]) == ()
    assert needing_decoding(value(type="decimal(9,1)"), [value(type="decimal(8,2)")]) == ("value",)


def test_structs_with_more_fields_need_the_record() -> None:
    assert needing_decoding(value(type="struct<a:int,b:int>"), [value(type="struct<a:int>")]) == ("value",)
    assert needing_decoding(value(type="struct<a:int>"), [value(type="struct<a:int>")]) == ()


def test_computed_columns_are_what_they_were_while_their_inputs_are() -> None:
    twice = Column(name="twice", type="bigint", path="", expr="value * 2")
    four = Column(name="four", type="bigint", path="", expr="twice + twice")
    before = columns(ID, SITE, VALUE, twice, four)
    assert needing_decoding(columns(SITE, VALUE, twice, four), [before]) == ()
    other = replace(VALUE, path="$.other")
    assert needing_decoding(columns(ID, SITE, other, twice, four), [before]) == ("value", "twice", "four")
    wider = replace(VALUE, type="bigint")
    assert needing_decoding(columns(ID, SITE, wider, twice), [before]) == ("twice",)
    assert needing_decoding(columns(ID, SITE, twice), [before]) == ("twice",)
    assert needing_decoding(columns(ID, SITE, VALUE, replace(twice, expr="value*2")), [before]) == ("twice",)


def test_what_no_column_takes_depends_on_all_of_them() -> None:
    captured = replace(SPEC, format=Format(unknown_fields="capture"))
    assert needing_decoding(captured, [captured]) == ()
    assert needing_decoding(replace(captured, columns=(ID, SITE)), [captured]) == ("_extra",)
    wider = replace(captured, columns=(ID, SITE, replace(VALUE, type="bigint")))
    assert needing_decoding(wider, [captured]) == (), "the same fields are taken"
    inner, more = (
        replace(captured, columns=(ID, replace(VALUE, type=f"struct<{f}>"))) for f in ("a:int", "a:int,b:int")
    )
    assert needing_decoding(more, [inner]) == ("value", "_extra")


def test_a_registry_that_knows_more_ids_changes_no_value() -> None:
    def avro(**changes: object) -> Pipeline:
        return replace(SPEC, format=Format("avro", avro=replace(AvroFormat("confluent"), **changes)))

    assert needing_decoding(avro(schemas={2: "x"}, unknown_schema="dirty"), [avro(schemas={1: "x"})]) == ()
    assert needing_decoding(avro(registry_conn_id="new"), [avro(registry_conn_id="old")]) == ()
    assert needing_decoding(avro(schema="int"), [avro()]) == ("id", "site", "value")


def test_where_the_decoding_spec_is_not_known_all_have_to_agree() -> None:
    assert needing_decoding(SPEC, [SPEC, value(path="$.other")]) == ("value",)
    hidden = columns(ID, SITE, replace(VALUE, hidden=True))
    assert needing_decoding(SPEC, [hidden]) == ("value",)
    assert needing_decoding(hidden, [SPEC]) == ()


# ---------------------------------------------------------------- Kafka


def topic(low: int = 0, high: int = 100, topic_id: str = "id-1") -> LogState:
    return LogState(topic="t", topic_id=topic_id, partitions={0: Lane(low, high, high)})


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (topic(), None),
        (topic(10, 20), None),
        (topic(11), r"batch 5: partition 0 offsets [10, 11) have passed Kafka's retention"),
        (topic(90), r"batch 5: partition 0 offsets [10, 20) have passed Kafka's retention"),
        (topic(high=19), r"batch 5: partition 0 offsets [19, 20) are past the end of the log"),
        (topic(high=3), r"batch 5: partition 0 offsets [10, 20) are past the end of the log"),
        (topic(topic_id="id-2"), "topic t was recreated: it has id id-2 now, its records of then (id-1) are gone"),
        (None, "batch 5: no topic t"),
        (replace(topic(), partitions={}), "batch 5: partition 0 offsets [10, 20) are gone: the topic has no such"),
    ],
)
def test_what_kafka_has_no_more(now: LogState | None, why: str | None) -> None:
    found = gone(OffsetRange("t", 0, 10, 20), 5, "id-1", now, "no topic t")
    assert found is None if why is None else (found or "").startswith(why)


@pytest.mark.parametrize(("cut", "first"), [(20, None), (19, 19), (11, 11), (10, 10), (3, 10)])
def test_what_a_cut_log_has_other_records_for(cut: int, first: int | None) -> None:
    found = gone(OffsetRange("t", 0, 10, 20), 5, "id-1", topic(), "", cut)
    said = f"batch 5: partition 0 offsets [{first}, 20) belong to other records since the log was cut at {cut}"
    assert found == (None if first is None else said)


# ---------------------------------------------------------------- the decision


def span(batch_id: int = 1, **changes: object) -> Span:
    return replace(Span(owed=OwedSpan(batch_id, 0, 5, 10, 19), gone=None, missing=()), **changes)


GONE = {"gone": "batch 1: gone"}


def test_kafka_while_it_has_the_records() -> None:
    assert decide([span()], AUTO) == {(1, 0): KAFKA}
    assert decide([span(missing=("a",), lost="x")], AUTO) == {(1, 0): KAFKA}


def test_files_for_what_it_has_no_more_batch_by_batch() -> None:
    assert decide([span(**GONE), span(2)], AUTO) == {(1, 0): FILES, (2, 0): KAFKA}


def test_a_column_that_must_be_decoded_refuses_with_what_is_left() -> None:
    found = decide([span(**GONE, missing=("a", "b"), kept_from=77)], AUTO)
    assert isinstance(found, Refusal)
    assert found.reason == (
        "batch 1: gone; columns a, b need the records to be decoded again, of batch 1, partition 0 offsets [10, 20); "
        "Kafka has this partition from offset 77 on"
    )
    assert "keep the generation in force" in found.advice


def test_a_lost_file_refuses_what_only_it_holds() -> None:
    found = decide([span(**GONE, lost="file:///x of the generation in force"), span(2)], AUTO)
    assert isinstance(found, Refusal)
    assert found.reason == "batch 1: gone; file:///x of the generation in force is not what its manifest says"
    assert found.advice == KEPT


def test_rows_whose_columns_nobody_knows_are_not_taken() -> None:
    found = decide([span(**GONE, unnamed=3, missing=("a",))], AUTO)
    assert isinstance(found, Refusal)
    assert found.reason == (
        "batch 1: gone; the ledger does not say by which columns the rows of generation 3 were decoded"
    )
    assert found.advice.startswith("keep the generation in force, or go back to an earlier one")
    insisted = decide([span(unnamed=3)], FILES)
    assert isinstance(insisted, Refusal)
    assert insisted.advice == "replay from Kafka: --from auto"
    lost = decide([span(**GONE, unnamed=3)], KAFKA)
    assert isinstance(lost, Refusal)
    assert "the generation in force stays" in lost.advice


def test_an_operator_may_insist() -> None:
    assert decide([span()], FILES) == {(1, 0): FILES}
    assert decide([span()], KAFKA) == {(1, 0): KAFKA}
    refused = decide([span(**GONE)], KAFKA)
    assert isinstance(refused, Refusal)
    assert (refused.reason, refused.advice) == (
        "batch 1: gone",
        "its rows can be taken from the files in force: --from auto",
    )
    undecodable = decide([span(missing=("a",))], FILES)
    assert isinstance(undecodable, Refusal)
    assert undecodable.advice == "replay from Kafka: --from auto"
    assert undecodable.reason == (
        "column a needs the records to be decoded again, of batch 1, partition 0 offsets [10, 20)"
    )
    for unusable in ({"missing": ("a",)}, {"lost": "file:///x"}):
        found = decide([span(**GONE, **unusable)], KAFKA)
        assert isinstance(found, Refusal)
        assert (found.reason, found.advice) == ("batch 1: gone", KEPT), "neither has the rows"


def test_redriven_rows_are_read_from_their_dirty_files_in_any_case() -> None:
    assert decide([span(redriven=True), span(2, **GONE)], AUTO) == {(1, 0): KAFKA, (2, 0): FILES}
    assert decide([span(redriven=True, missing=("a",))], FILES) == {(1, 0): KAFKA}
    assert decide([span(redriven=True, **GONE)], KAFKA) == {(1, 0): KAFKA}


def test_rows_that_cannot_be_told_apart_all_come_from_one_place() -> None:
    assert decide([span(), span(2)], AUTO, kafka_columns=False) == {(1, 0): KAFKA, (2, 0): KAFKA}
    assert decide([span(**GONE), span(2)], AUTO, kafka_columns=False) == {(1, 0): FILES, (2, 0): FILES}
    assert decide([span(), span(2, **GONE)], AUTO, kafka_columns=False) == {(1, 0): FILES, (2, 0): FILES}
    mixed = decide([span(**GONE), span(2, missing=("a",))], AUTO, kafka_columns=False)
    assert isinstance(mixed, Refusal)
    assert mixed.reason.startswith("batch 1: gone; column a needs the records to be decoded again, of batch 2,")
    assert mixed.advice.startswith("keep the generation in force")
    lost = span(2, gone="batch 2: gone", lost="f of the generation in force")
    own = decide([span(**GONE), lost], AUTO, kafka_columns=False)
    assert isinstance(own, Refusal)
    assert own.reason.startswith("batch 2: gone; f of the generation in force")


def test_redriven_rows_go_with_the_others_where_they_cannot_be_told_apart() -> None:
    redriven = span(2, redriven=True)
    assert decide([span(), redriven], AUTO, kafka_columns=False) == {(1, 0): KAFKA, (2, 0): KAFKA}
    assert decide([span(**GONE), redriven], AUTO, kafka_columns=False) == {(1, 0): FILES, (2, 0): FILES}
    assert decide([span(), redriven], FILES, kafka_columns=False) == {(1, 0): FILES, (2, 0): FILES}
    kept = replace(redriven, gone="batch 2: gone")
    assert decide([span(), kept], AUTO, kafka_columns=False) == {(1, 0): KAFKA, (2, 0): KAFKA}
    assert decide([kept], KAFKA, kafka_columns=False) == {(2, 0): KAFKA}


def test_a_file_is_lost_for_spans_that_it_may_hold_rows_of() -> None:
    entry = FileEntry(
        path="f",
        kind="data",
        window_ms=0,
        values=(),
        rows=3,
        bytes=1,
        min_event_ms=None,
        max_event_ms=None,
        checksum=0,
        partitions=(PartitionRows(0, 3, 5, 9), PartitionRows(2, 1, 0, 0)),
    )
    for low, high, found in ((0, 4, None), (0, 5, "f"), (6, 7, "f"), (9, 12, "f"), (10, 12, None)):
        assert lost(OwedSpan(1, 0, 1, low, high), [entry]) == found
    assert lost(OwedSpan(1, 1, 1, 5, 9), [entry]) is None


# ---------------------------------------------------------------- ranges


@pytest.mark.parametrize(
    ("rows", "most", "limit", "found"),
    [
        ((), 3, 10, []),
        ((0,), 3, 10, [1]),
        ((99,), 3, 10, [1]),  # more than a job takes: it is rebuilt alone
        ((4, 6), 3, 10, [2]),
        ((4, 7), 3, 10, [1, 1]),
        ((4, 6, 1), 3, 10, [2, 1]),
        ((4, 6, 4, 6), 3, 10, [2, 2]),
        ((1, 99, 1, 1), 3, 10, [1, 1, 2]),
        ((0, 0, 0, 0), 3, 10, [3, 1]),
        ((1, 1, 1, 1, 1, 1, 1), 3, 10, [3, 3, 1]),
        ((1, 1), 1, 10, [1, 1]),
    ],
)
def test_windows_that_one_job_rebuilds(rows: tuple[int, ...], most: int, limit: int, found: list[int]) -> None:
    windows = list(enumerate(rows))
    together = list(groups(windows, most, limit))
    assert [len(group) for group in together] == found
    assert [start for group in together for start in group] == [start for start, _ in windows]


def test_a_job_has_a_day_of_hours_at_most() -> None:
    assert [len(g) for g in groups((n, 1) for n in range(MOST_WINDOWS + 1))] == [MOST_WINDOWS, 1]
    assert [len(g) for g in groups([(0, MOST_ROWS - 1), (1, 1), (2, 1)])] == [2, 1]
