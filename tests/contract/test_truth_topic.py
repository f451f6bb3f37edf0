"""Counts that lie in an audit topic."""

from __future__ import annotations

from typing import Any

import pytest

from tests.truth_tellers import Audit, Said
from tests.world import HOUR, T0, window
from tidegate.core.base.errors import TruthUnknown
from tidegate.core.spec.pipeline import Completeness


@pytest.fixture
def audit(kafka: Any) -> Audit:
    return Audit(kafka.kafka_bootstrap)


def test_counts_of_several_messages_are_added_up(audit: Audit) -> None:
    for count, partition in ((3, 0), (4, 1), (5, 0)):
        audit.topic.produce({"window": T0 + HOUR, "count": count}, partition=partition)
    audit.topic.produce({"window": T0, "count": 100})
    assert audit.truth.expected(window(1)) == 12


def test_of_each_source_the_newest_counts(audit: Audit) -> None:
    for source, count, partition in (("a", 3, 0), ("b", 10, 1), ("a", 5, 0), (None, 1, 0), (None, 2, 0)):
        audit.topic.produce({"window": T0 + HOUR, "count": count, "by": {"host": source}}, partition=partition)
    assert audit.asking(source_path="$.by.host").expected(window(1)) == 5 + 10 + 2


def test_a_source_that_does_not_know_yet(audit: Audit) -> None:
    audit.topic.produce({"window": T0 + HOUR, "count": 3, "by": 1}, {"window": T0 + HOUR, "count": None, "by": 2})
    truth = audit.asking(source_path="$.by")
    assert truth.expected(window(1)) is None
    audit.topic.produce({"window": T0 + HOUR, "count": 4, "by": 2})
    assert truth.expected(window(1)) == 7


@pytest.mark.parametrize(
    "at", [T0 + HOUR, float(T0 + HOUR), "2013-01-05T01:00:00Z", "2013-01-05T02:00+01:00", "2013-01-05T01:00"]
)
def test_how_a_window_may_be_written(audit: Audit, at: Any) -> None:
    """Text without an offset is meant in the pipeline's zone, here UTC."""
    audit.topic.produce({"window": at, "count": 7})
    assert audit.truth.expected(window(1)) == 7


def test_messages_of_another_kind_do_not_count(audit: Audit) -> None:
    audit.topic.produce({"hello": 1}, None, {"window": T0 + HOUR, "count": 7}, {"window": T0, "count": "none of ours"})
    assert audit.truth.expected(window(1)) == 7


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        ({"window": "noon", "count": 1}, r"\$.window: neither epoch ms nor an ISO 8601 time: 'noon'"),
        ({"window": 1.5, "count": 1}, "neither epoch ms nor"),
        ({"window": True, "count": 1}, "neither epoch ms nor"),
        ({"window": None, "count": 1}, "neither epoch ms nor"),
        ({"window": T0 + HOUR}, r"nothing at \$.count"),
        ({"window": T0 + HOUR, "count": "7"}, r"\$.count: '7' is not a number"),
        ({"window": T0 + HOUR, "count": -7}, r"\$.count: -7 is not a count of rows"),
    ],
)
def test_a_message_that_cannot_be_read_is_named(audit: Audit, message: Any, reason: str) -> None:
    audit.topic.produce({"window": T0 + HOUR, "count": 7}, message)
    with pytest.raises(TruthUnknown, match=f"{audit.topic.name} partition 0 offset 1: .*{reason}|offset 1: {reason}"):
        audit.truth.expected(window(1))


def test_a_source_that_is_missing_is_named(audit: Audit) -> None:
    audit.topic.produce({"window": T0 + HOUR, "count": 7})
    with pytest.raises(TruthUnknown, match=r"offset 0: nothing at \$.by"):
        audit.asking(source_path="$.by").expected(window(1))


def test_only_committed_messages_count(audit: Audit) -> None:
    """What is aborted does not count, and an open transaction holds nobody up."""
    with audit.topic.transaction("abort") as produce:
        produce({"window": T0 + HOUR, "count": 1000})
    with audit.topic.transaction() as produce:
        produce({"window": T0 + HOUR, "count": 7})
    with audit.topic.transaction("hang") as produce:
        produce({"window": T0 + HOUR, "count": 2000})
    assert audit.truth.expected(window(1)) == 7


def test_more_messages_than_one_question_reads(audit: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    audit.topic.produce(*({"window": T0 + HOUR, "count": 1} for _ in range(5)))
    monkeypatch.setattr("tidegate.completeness.audit_topic.MOST_MESSAGES", 5)
    assert audit.truth.expected(window(1)) == 5
    audit.topic.produce({"window": T0 + HOUR, "count": 1}, partition=1)
    with pytest.raises(TruthUnknown, match="6 offsets since the window's start, more than 5"):
        audit.truth.expected(window(1))


@pytest.mark.parametrize("start", ["1e999999999", "-1e999999999", "1e-999999999", "9223372036854775808"])
def test_a_windows_start_that_is_no_instant_costs_no_time(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Completeness(
        source="topic", conn_id="kafka", topic="audit", window_path="$.window", count_path="$.count"
    )
    from tidegate.completeness.audit_topic import TopicTruth

    message = Said(f'{{"window": {start}, "count": 1}}'.encode())
    monkeypatch.setattr(TopicTruth, "_messages", lambda self, since: iter([message]))
    with pytest.raises(TruthUnknown, match="neither epoch ms nor"):
        TopicTruth({}, settings, "UTC").expected(window(1))


def test_counts_that_are_too_many_together(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Completeness(
        source="topic", conn_id="kafka", topic="audit", window_path="$.window", count_path="$.count"
    )
    from tidegate.completeness.audit_topic import TopicTruth

    said = [Said(f'{{"window": {T0 + HOUR}, "count": {2**62}}}'.encode(), at) for at in (1, 2)]
    monkeypatch.setattr(TopicTruth, "_messages", lambda self, since: iter(said))
    with pytest.raises(TruthUnknown, match="all counts together: 9223372036854775808 is not a count of rows"):
        TopicTruth({}, settings, "UTC").expected(window(1))


def test_a_broker_that_is_not_there() -> None:
    settings = Completeness(
        source="topic", conn_id="kafka", topic="audit", window_path="$.window", count_path="$.count"
    )
    from tidegate.completeness.audit_topic import TopicTruth

    truth = TopicTruth({"bootstrap.servers": "127.0.0.1:1"}, settings, "UTC", timeout_s=1)
    with pytest.raises(TruthUnknown, match="audit: Kafka at 127.0.0.1:1 has no answer"):
        truth.expected(window(1))
    with pytest.raises(TruthUnknown, match="no bootstrap.servers"):
        TopicTruth({}, settings, "UTC").expected(window(1))
