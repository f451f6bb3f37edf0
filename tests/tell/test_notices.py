"""People are told, once each, of what is so in a whole pipeline; whatever the receiver does, nothing else suffers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.world import HOUR, TOPIC, World, record, window
from tidegate.core.spec.pipeline import Column, DirtyLimits, Notify
from tidegate.core.tell.notices import (
    CRITICAL,
    GIVE_UP_MS,
    KEEP_MS,
    KINDS,
    RAISED,
    RESOLVED,
    Finding,
    Message,
    Notice,
    NotTold,
    payload,
)
from tidegate.workflow.audit import checkup
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.tell import notices
from tidegate.workflow.tell.notices import deliver, failed_task, tell


class Channel:
    who = "http://receiver"

    def __init__(self, *fails: NotTold | None) -> None:
        """`fails`: how the first messages fail, None for one that does not."""
        self.got: list[dict[str, Any]] = []
        self.fails = list(fails)

    def send(self, body: dict[str, Any]) -> None:
        json.dumps(body)
        fail = self.fails.pop(0) if self.fails else None
        if fail is not None:
            raise fail
        self.got.append(body)

    def take(self) -> list[tuple[str, str]]:
        taken, self.got = [(m["kind"], m["status"]) for m in self.got], []
        return taken


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.kafka.create(TOPIC, 2, retention_ms=None)
    yield made
    made.close()


def told(world: World, *channels: Any, **options: Any) -> list[str]:
    ctx = world.context()
    try:
        return tell(ctx, ctx.ledger.reads, channels, **options)  # type: ignore[attr-defined]
    finally:
        world.close()


def late(world: World) -> None:
    """Hours 0 and 1 are ready, and nobody publishes them."""
    world.produce(record("a", 0.1), record("b", 1.2), record("d", 3.5))
    world.produce(record("c", 3.5), partition=1)
    world.ingest("r1")


def test_an_hour_late_against_its_sla_and_published_after_all(world: World) -> None:
    late(world)
    people = Channel()
    told(world, people)
    assert people.take() == [], "archive.sla is not over"
    world.clock.advance(world.pipeline.archive.sla_ms + 1)
    said = told(world, people, board_url="http://af/tidegate/readings")
    (message,) = people.got
    assert (message["kind"], message["severity"], message["status"]) == ("late_window", CRITICAL, RAISED)
    assert "2 windows are ready and not published" in message["what"]
    assert "airflow dags backfill readings.archive" in message["advice"]
    assert message["links"] == {"board": "http://af/tidegate/readings"}
    assert message["text"].startswith("[critical] readings: late window\n2 windows")
    assert said == ["told http://receiver: readings: late window"]
    people.take()
    world.archive(0)
    told(world, people)
    assert people.take() == [], "one is still late: it is the same condition"
    world.archive(1)
    told(world, people)
    (message,) = people.got
    assert (message["kind"], message["status"], message["title"]) == (
        "late_window", RESOLVED, "readings: published after all",
    )  # fmt: skip
    people.take()
    told(world, people)
    assert people.take() == []


def test_what_a_receiver_does_not_take_is_sent_again_under_the_same_id(world: World) -> None:
    late(world)
    world.clock.advance(HOUR)
    lost = Lost()
    (warning,) = told(world, lost)
    assert warning.startswith("WARNING: 1 message was not delivered, to be sent again: no answer")
    world.clock.advance(600_000)
    people = Channel()
    told(world, people)
    assert [m["id"] for m in people.got] == [lost.got[0]["id"]]
    assert told(world, people) == []


class Lost(Channel):
    """It takes the message, and its answer is lost."""

    def send(self, body: dict[str, Any]) -> None:
        super().send(body)
        raise NotTold("no answer")


def test_a_message_that_is_refused_holds_up_no_other(world: World) -> None:
    ctx = world.context()
    for number in range(3):
        notices.happened(ctx, failed_task("d.t", f"r{number}", 1, "broke", "http://log"))
    people = Channel(None, NotTold("HTTP 400", this_one=True))
    said = deliver(ctx, [people])
    assert len(people.got) == 2
    assert sum("HTTP 400" in line for line in said) == 1
    deliver(ctx, [people])
    assert sorted(m["id"].split("/")[3] for m in people.got) == ["r0", "r1", "r2"]
    assert people.got[0]["links"] == {"log": "http://log"}
    assert deliver(ctx, [people]) == []


def test_a_receiver_that_hangs_costs_no_more_than_the_deadline(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx, clock = world.context(), [0.0]
    for number in range(9):
        notices.happened(ctx, failed_task("d.t", f"r{number}", 1, "broke", ""))
    monkeypatch.setattr(notices.time, "monotonic", lambda: clock[0])

    class Slow(Channel):
        def send(self, body: dict[str, Any]) -> None:
            clock[0] += 10
            super().send(body)

    slow = Slow()
    assert deliver(ctx, [slow], deadline_s=25)[-1] == "WARNING: 6 messages wait for the next run"
    assert len(slow.got) == 3


def test_the_first_channel_decides_and_the_others_hear_of_it(world: World) -> None:
    ctx = world.context()
    notices.happened(ctx, failed_task("d.t", "r", 1, "broke", ""))
    first, second, third = Channel(NotTold("down")), Channel(NotTold("no")), Channel()
    deliver(ctx, [first, second, third])
    assert (first.got, second.got, third.got) == ([], [], [])
    said = deliver(ctx, [first, second, third])
    assert (len(first.got), len(second.got), len(third.got)) == (1, 0, 1)
    assert said[-1] == "WARNING: not told: no"
    assert deliver(ctx, [first, second, third]) == []


def test_nothing_is_remembered_where_nobody_is_told(world: World) -> None:
    late(world)
    world.clock.advance(HOUR)
    assert told(world) == []
    assert world.context().ledger.notices.standing("readings") == {}


def test_too_dirty_and_on_its_way_again(world: World) -> None:
    world.change_spec(dirty=DirtyLimits(0, None))
    world.produce(b'{"id": "<!channel> </script>"', record("x", 1.0))
    with pytest.raises(Exception, match="dirty"):
        world.ingest("r1")
    people = Channel()
    told(world, people)
    (message,) = people.got
    assert (message["kind"], message["subject"]) == ("dirty_limit", "batch 1")
    assert "dirty.max_count 0" in message["what"]
    assert "<!channel" not in message["text"]
    people.take()
    world.change_spec(dirty=DirtyLimits(5, None))
    world.ingest("r1")
    told(world, people)
    assert ("dirty_limit", RESOLVED) in people.take()


def test_the_table_changes_its_columns(world: World) -> None:
    people = Channel()
    world.produce(record("a", 0.1))
    world.ingest("r1")
    told(world, people)
    people.take()
    world.change_spec(dirty=DirtyLimits(9, None))
    told(world, people)
    assert people.take() == [], "another version of the spec, the same columns"
    world.change_spec(
        columns=(
            *world.pipeline.columns[:2],
            Column(name="value", type="bigint", path="$.value"),
            Column(name="x", type="int", path="$.x"),
        )
    )
    told(world, people)
    (message,) = people.got
    assert message["kind"] == "schema_change"
    assert "new: x int; changed: value from int to bigint" in message["what"]
    told(world, people)
    assert len(people.got) == 1


def test_records_that_were_gone_and_a_topic_that_was_recreated(world: World) -> None:
    world.change_spec(source=replace(world.pipeline.source, on_data_loss="record"))
    world.produce(record("a", 0.1), record("b", 0.2), record("c", 0.3))
    world.ingest("r1")
    people = Channel()
    told(world, people)
    world.produce(record("d", 0.4), record("e", 0.5), record("f", 0.6))
    world.kafka.trim(TOPIC, 0, 5)
    told(world, people)
    assert ("data_loss", RAISED) in people.take()
    world.ingest("r2")
    told(world, people)
    found = {(m["kind"], m["status"]): m for m in people.got}
    assert (
        "2 offsets were gone from the topic before batch 2 read them (partition 0: 3 to 5)"
        in (found["data_loss", RAISED]["what"])
    )
    assert ("data_loss", RESOLVED) in found, "nothing more is about to be lost"
    people.take()
    world.kafka.create(TOPIC, 2, retention_ms=None)
    world.kafka.unavailable = True
    told(world, people)
    assert people.take() == [], "nobody can see it"
    world.kafka.unavailable = False
    told(world, people)
    assert people.take() == [("source_reset", RAISED)]
    world.kafka.unavailable = True
    told(world, people)
    assert people.take() == [], "what cannot be looked at is not over"


def test_an_alarm(world: World) -> None:
    late(world)
    world.archive(0)
    ctx = world.context()
    ctx.ledger.windows.block("readings", window(0), "rows are\nlost")
    people = Channel()
    told(world, people)
    (message,) = people.got
    assert (message["kind"], message["subject"]) == ("alarm", "window 20130105T000000Z")
    assert "window 2013-01-05T00:00Z is blocked: rows are" in str(message)
    assert "tidegate repair readings" in message["advice"]


def test_only_the_kinds_that_are_wanted(world: World) -> None:
    world.change_spec(notify=Notify(("task_failed",)))
    late(world)
    world.clock.advance(HOUR)
    people = Channel()
    told(world, people)
    assert people.take() == []
    notices.happened(world.context(), failed_task("d.t", "r", 1, "broke", ""))
    told(world, people)
    assert people.take() == [("task_failed", RAISED)]
    world.change_spec(notify=Notify())
    told(world, people)
    assert people.take() == [("late_window", RAISED)]
    world.change_spec(notify=Notify(("task_failed",)))
    told(world, people)
    assert people.take() == [], "what nobody asks for is not over"


def test_what_is_old(world: World) -> None:
    ctx, people = world.context(), Channel(NotTold("down"))
    notices.happened(ctx, failed_task("d.t", "r", 1, "broke", ""))
    deliver(ctx, [people])
    world.clock.advance(GIVE_UP_MS + 1)
    (line,) = deliver(ctx, [people])
    assert line == "WARNING: given up after a week, no one was told: d.t of run r has failed for good: broke"
    assert deliver(ctx, [people]) == []
    world.clock.advance(KEEP_MS + 1)
    told(world, people)
    assert people.got == []


# ---------------------------------------------------------------- the daily check


def check(world: World) -> list[str]:
    ctx = world.context()
    return checkup.if_due(ctx, ctx.ledger.reads)  # type: ignore[attr-defined]


def test_the_daily_check(world: World) -> None:
    late(world)
    world.archive(0)
    reconcile.add_up(world.context())
    assert check(world)[0].startswith("daily check: the sums balance")
    lost = next(p for p in (world.folder / "lake").rglob("*.parquet") if "_tidegate" not in p.parts)
    content = lost.read_bytes()
    lost.unlink()
    assert check(world) == [], "not due"
    world.clock.advance(24 * HOUR)
    (line,) = check(world)
    assert "1 of 1 file gone or of another length" in line
    assert "airflow tasks clear readings.archive" in line
    people = Channel()
    told(world, people)
    assert ("audit_failed", RAISED) in people.take()
    events = world.context().ledger.notices.newest_event("readings")
    assert check(world) == [], "as before"
    assert world.context().ledger.notices.newest_event("readings") == events
    lost.write_bytes(content)
    assert check(world)[0].startswith("daily check: the sums balance"), "looked at again until it is well"
    told(world, people)
    assert ("audit_failed", RESOLVED) in people.take()


def test_the_daily_check_sees_sums_that_do_not_balance(world: World) -> None:
    from sqlalchemy import update

    from tidegate.ledger import schema

    late(world)
    store = world.context().ledger.notices._store
    with store.begin() as c:
        c.execute(update(schema.batch_ranges).values(data=schema.batch_ranges.c.data - 1))
    lines = check(world)
    assert len(lines) == 2
    assert "read 4 ≠ data" in lines[0]


# ---------------------------------------------------------------- what is sent


def test_the_shape_that_the_page_promises() -> None:
    page = (Path(__file__).parents[2] / "docs/notifications.md").read_text()
    shown = json.loads(page.split("```json")[1].split("```")[0])
    body = payload(
        "flights", "data", Message(Notice(Finding(kind="alarm", key="k", subject="s", what="w"), 1), RAISED), 2
    )
    assert list(shown) == list(body)
    for kind, severity in KINDS.items():
        assert f"| `{kind}` | {severity} |" in page


def test_a_long_run_id_has_a_key_that_fits() -> None:
    long = failed_task("d.t", "r" * 400, 1, "w", "")
    assert len(long.key) < 300
    assert long.key != failed_task("d.t", "r" * 401, 1, "w", "").key


def shown(world: World) -> list[Any]:
    """On the board."""
    return list(world.context().ledger.reads.survey(["readings"], 0)["readings"].told)
