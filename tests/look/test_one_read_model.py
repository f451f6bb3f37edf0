"""`status`, the board's list, measures, notices and `explain` say the same of a pipeline, in a hundred situations."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests import board_ledger
from tests.fakes.clock import FakeClock
from tests.world import HOUR
from tidegate.board.pages import overview
from tidegate.board.specs import Folder
from tidegate.cli import status as command
from tidegate.cli.status_table import Line
from tidegate.core.base.errors import SourceUnavailable
from tidegate.core.base.plain import dumps
from tidegate.core.look.measures import Measure
from tidegate.core.look.status import PipelineStatus
from tidegate.core.source.port import Lane, LogState
from tidegate.core.spec.copy import Copy
from tidegate.core.spec.pipeline import Completeness, Delivery, Pipeline
from tidegate.core.tell.notices import KINDS, Finding
from tidegate.core.window.states import WindowKey
from tidegate.ledger import SqlLedger
from tidegate.ledger.migrate import migrate
from tidegate.ledger.store import make_engine
from tidegate.workflow.base.context import Context
from tidegate.workflow.look.explanation import Explanation, explain
from tidegate.workflow.look.measures import measure_all
from tidegate.workflow.look.status import statuses
from tidegate.workflow.tell import notices

MINUTE = 60_000
NOW = 1_357_344_000_000 + 100 * 24 * HOUR + 50 * MINUTE
SIZES = board_ledger.Sizes(windows=6, partitions=2, batches=1, files=1)
SITUATIONS, SEED = 100, 4


@dataclass(frozen=True)
class Asked:
    """What everybody says of one pipeline."""

    pipeline: Pipeline
    status: PipelineStatus
    json: dict[str, Any]
    line: overview.Line
    measures: Mapping[tuple[str, ...], float]
    findings: Mapping[str, Finding]
    waits: Explanation | None
    due: Explanation | None

    def value(self, name: str, *labels: str) -> float | None:
        return self.measures.get((f"tidegate_{name}", *labels))


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Asked]]:
    url = f"sqlite:///{tmp_path_factory.mktemp('look')}/ledger.db"
    migrate(url)
    engine = make_engine(url)
    made, topics = _situations(engine, random.Random(SEED))
    ledger = SqlLedger(engine, "test", lambda: NOW)
    yield list(_ask(ledger, made, topics))
    ledger.close()


# ---------------------------------------------------------------- what there is


def _situations(engine: Any, dice: random.Random) -> tuple[list[Pipeline], dict[str, tuple[LogState, int]]]:
    start = NOW // HOUR * HOUR - (SIZES.windows + 1) * HOUR
    made = [_pipeline(dice, number, start) for number in range(SITUATIONS)]
    known = [one for one in made if not one.name.endswith("7") or dice.random() < 0.7]
    rows = list(board_ledger.rows(known, SIZES, NOW))
    for one in known:
        rows += _more(dice, one, start)
    assert board_ledger.write(engine, rows)
    topics = {one.name: (_topic(dice, one), NOW) for one in made if dice.random() < 0.75}
    return made, topics


def _pipeline(dice: random.Random, number: int, start: int) -> Pipeline:
    one = board_ledger.pipeline_named(number, start)
    windows = replace(
        one.windows, idle=dice.choice(("wait", "clock", "follow")), watermark_delay_ms=dice.choice((0, HOUR))
    )
    windows = replace(windows, on_silence=dice.choice(("hold", "close")), closes=number % 10 != 4)
    one = replace(one, windows=windows, archive=replace(one.archive, sla_ms=dice.choice((MINUTE, HOUR, 48 * HOUR))))
    if dice.random() < 0.5:
        one = replace(
            one,
            completeness=Completeness(source="topic", conn_id="kafka", topic="audit", poll_ms=MINUTE, patience_ms=None),
        )
    if dice.random() < 0.6:
        one = replace(
            one, reopening=replace(one.reopening, after_ms=dice.choice((0, 99 * HOUR)), rows=dice.choice((0, 9, 9)))
        )
    own = random.Random(number)
    if one.windows.closes and own.random() < 0.5:
        sla = own.choice((None, MINUTE, 999 * HOUR))
        one = replace(one, deliver=(Delivery(name="shop", kind="postgresql", conn_id="pg", table="t", sla_ms=sla),))
    if not one.windows.closes:
        one = replace(one, copy=Copy(conn_id="shop", table="shop.t", schedule="*/10 * * * *"))
    return replace(one, source=replace(one.source, loss_warning_ms=dice.choice((None, HOUR, 48 * HOUR))))


def _more(dice: random.Random, one: Pipeline, start: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the writer of the board's ledger does not have."""
    mine = {"pipeline": one.name}
    if dice.random() < 0.3:
        kinds = dice.choice((["ingest"], ["archive"], ["ingest", "archive", "apply", "maintain"]))
        until = dice.choice((None, NOW - HOUR, NOW + HOUR))
        why = {"kinds": kinds, "why": "power", "by": "anna", "since_ms": NOW - 9 * HOUR, "until_ms": until}
        yield "events", _event(one, "paused on purpose", "DAGs", why)
    if dice.random() < 0.3:
        found = {"problems": dice.choice((0, 3)), "first": "rows are missing", "advice": "", "depth": "quick"}
        yield "events", _event(one, "audited", "audit", found)
    if dice.random() < 0.15:
        cut = {"partition": 1, "topic_id": "t1", "after_batch": SIZES.windows, "start": 10, "end": 20}
        yield "log_cuts", {**mine, **cut, "leader_epoch": None, "found_ms": NOW}
    elif dice.random() < 0.15:
        kept = {"partition": 1, "topic_id": "t1", "after_batch": SIZES.windows, "offset": SIZES.windows * 1000 - 400}
        yield "resumptions", {**mine, **kept, "lost_start": None, "leader_epoch": None, "why": "compared"}
    if dice.random() < 0.4:
        at = start + (SIZES.windows - 1) * HOUR
        answer = {"rows": 5, "expected": dice.choice((5, 9, 9)), "problem": None, "accepted": None, "source": "audit"}
        yield (
            "truths",
            {**mine, "window_ms": at, **answer, "asked_ms": NOW, "since_ms": NOW - dice.choice((0, 3)) * HOUR},
        )
    if dice.random() < 0.2:
        made = {"number": 9, "state": dice.choice(("BUILDING", "BUILT")), "kind": dice.choice(("replay", "rollback"))}
        began = dice.choice((NOW, NOW - 9 * HOUR))
        row = {"window_ms": start, "epoch": 1, "nonce": "n", "spec_version": 1, "began_ms": began, "rows": None}
        yield "generations", {**mine, **row, **made}
    if dice.random() < 0.5:
        late = {"window_ms": start, "batch_id": 2, "partition": 0, "kind": "late", "rows": 3, "rerouted": 0}
        yield "batch_window_totals", {**mine, **late, "min_offset": 1001, "max_offset": 1003}
        for number in range(20, 20 + dice.choice((0, 2))):
            row = {"window_ms": start, "number": number, "state": "DISCARDED", "kind": "reopen", "nonce": "n"}
            yield "generations", {**mine, **row, "epoch": 1, "spec_version": 1}
    if dice.random() < 0.2:
        kind = dice.choice(("loss_ahead", "data_loss", "held_window"))
        told = dumps(Finding(kind=kind, key=kind, subject="", what="it was seen before", advice="look again"))
        yield "notices", {**mine, "key": kind, "content": told, "first_ms": NOW - HOUR, "told_ms": NOW - HOUR}
    if not one.windows.closes:
        yield from _merges(dice, one)
    if one.deliver:
        yield from _delivered(random.Random(one.name), one, start)
    if dice.random() < 0.2:
        yield "losses", {**mine, "batch_id": 1, "partition": 0, "start": 0, "end": 7, "reason": "retention"}


def _merges(dice: random.Random, one: Pipeline) -> Iterator[tuple[str, dict[str, Any]]]:
    upto, mine = dice.choice((0, 1, SIZES.windows - 1, SIZES.windows)), {"pipeline": one.name}
    if upto:
        sums = {"rows": 3, "tombstones": 1, "events": 9, "inserted": 4, "purged": 0}
        sums |= {"below_purge": 3, "kept_out_ms": NOW - HOUR} if upto == 1 else {"below_purge": 0, "kept_out_ms": None}
        yield "prefixes", {**mine, "upto": upto, "attempt": "1-1.1-n", "snapshot": "7", "told_ms": NOW, **sums}
    read = {"round": 1, "table_name": "shop.t", "key": '["id"]', "ended": True, "why": ""}
    begun = {"state": dice.choice(("OPEN", "OPEN", "WHOLE")), "begun_ms": NOW - dice.choice((0, 99)) * HOUR}
    yield "copies", {**mine, **read, **begun}
    gap = random.Random(one.name).choice((0, 1))
    look = {"look": 1, "position": "7,0", "log_end": "7,0", "at_ms": NOW, "ends": "{}", "server": "", "reader": "shop"}
    yield "source_looks", {**mine, **look, "gap": gap}
    state = dice.choice(("OPEN", "REFUSED", "APPLIED"))
    said = {"state": state, "why": "two contents of one key" if state == "REFUSED" else None, "nonce": "n"}
    yield "applies", {**mine, "epoch": 1, "first_batch": upto + 1, "last_batch": upto + 1, "began_ms": NOW, **said}


def _delivered(dice: random.Random, one: Pipeline, start: int) -> Iterator[tuple[str, dict[str, Any]]]:
    said = {"digest": "d", "epoch": 1, "nonce": "n", "since_ms": NOW - HOUR, "stood": 1, "rows": 3, "checksum": "7"}
    for hour in range(SIZES.windows):
        state = dice.choice(("STANDING", "STANDING", "SENDING", "REFUSED", "SKIPPED"))
        row = {"name": "shop", "window_ms": start + hour * HOUR, "generation": dice.choice((1, 1, 1, 2)), **said}
        yield "deliveries", {"pipeline": one.name, "state": state, "why": "why", "stood_ms": NOW, **row}


def _event(one: Pipeline, what: str, subject: str, detail: Any) -> dict[str, Any]:
    said = {"what": what, "subject": subject, "detail": json.dumps(detail)}
    return {"pipeline": one.name, "at_ms": NOW - 2 * HOUR, "actor": "anna", **said}


def _topic(dice: random.Random, one: Pipeline) -> LogState:
    read, parts = SIZES.windows * 1000, {}
    for p in range(2):
        start, waiting = dice.choice((0, 0, 0, read + 30)), dice.choice((0, 0, 500, 9_000))
        stable = max(start, read + waiting)
        parts[p] = Lane(start, stable, stable + dice.choice((0, 0, 40)))
    kept = dice.choice((None, 3 * HOUR, 999 * HOUR))
    return LogState(
        topic=one.source.topic,
        topic_id=dice.choice(("t1",) * 7 + ("other",)),
        partitions=parts,
        retention_ms=kept,
        retention_bytes=None,
        deletes=kept is not None,
    )


# ---------------------------------------------------------------- who is asked


class Source:
    def __init__(self, topic: LogState | None) -> None:
        self.topic = topic

    def look(self, name: str) -> LogState:
        if self.topic is None:
            raise SourceUnavailable("no broker")
        return self.topic


class Reach:
    """What the board's list is made of."""

    def __init__(self, ledger: SqlLedger, made: list[Pipeline], topics: Any) -> None:
        self._ledger, self._made, self.topics, self._topics = ledger, made, self, topics

    def folder(self) -> Folder:
        return Folder(Path(), tuple(one.name for one in self._made), {}, None)

    def ledger(self) -> SqlLedger:
        return self._ledger

    def pipelines(self, names: list[str]) -> dict[str, Pipeline]:
        return {one.name: one for one in self._made if one.name in names}

    def known(self, pipelines: list[Pipeline]) -> Any:
        return self._topics


def _ask(ledger: SqlLedger, made: list[Pipeline], topics: dict[str, tuple[LogState, int]]) -> Iterator[Asked]:
    reads = ledger.reads
    by_name = statuses(made, topics, reads, NOW, events=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overview.time, "time_ns", lambda: NOW * 1_000_000)
        pages = [overview.gather(Reach(ledger, made, topics), "", overview.ALL, n) for n in (1, 2)]  # type: ignore[arg-type]
    lines = {line.name: line for page in pages for line in page.lines}
    assert pages[0].attention == sum(not one.well for one in by_name.values())
    measures: dict[str, list[Measure]] = {}
    for measure in measure_all(made, {name: topic for name, (topic, _) in topics.items()}, reads, NOW):
        measures.setdefault(measure.labels[0][1], []).append(measure)
    for one in made:
        status, topic = by_name[one.name], topics.get(one.name, (None, 0))[0]
        ctx = Context(
            pipeline=one,
            spec_version=1,
            ledger=ledger,
            source=Source(topic),
            storage=None,
            tables=Mock(),
            launcher=None,
            clock=FakeClock(NOW),
        )  # type: ignore[arg-type]
        waits, due = status.next_window, next(iter(status.due), None)
        yield Asked(
            one,
            status,
            command._plain(Line(one.name, status, None, None if topic else "no broker")),
            lines[one.name],
            {(m.name, *(v for _, v in m.labels[1:])): m.value for m in measures[one.name]},
            notices.look(ctx, reads),
            None if waits is None else _explained(ctx, reads, waits.window, topic),
            None if due is None else _explained(ctx, reads, due, topic),
        )


def _explained(ctx: Context, reads: Any, key: WindowKey, topic: LogState | None) -> Explanation:
    return explain(ctx, reads, key, topic, reads.window_view(ctx.name, key))


def plainly(what: str) -> str:
    """The list says how long something has been only as `more than`."""
    return re.sub(r"(for|not ready|not published) (more than )?[\d.]+ (s|min|h|days)\b", r"\1 long", what)


# ---------------------------------------------------------------- they agree


def test_the_situations_are_many(asked: list[Asked]) -> None:
    kinds = {c.kind for one in asked for c in one.status.concerns}
    assert kinds >= set(KINDS) - {"task_failed", "schema_change", "watermark", "refused"}
    levels = [one.line.level for one in asked]
    assert set(levels) == {"attention", "paused", "new", "well"}
    assert len(asked) == SITUATIONS


def test_whether_it_is_well_what_is_wrong_and_the_next_step(asked: list[Asked]) -> None:
    for one in asked:
        said = [(c.kind, plainly(c.what), c.advice) for c in one.status.concerns]
        glance = one.line.status
        assert glance is not None
        assert [(c.kind, plainly(c.what), c.advice) for c in glance.concerns] == said
        assert one.json["well"] == (one.line.level != "attention") == (not said)
        assert (one.json["level"], one.status.level) == (one.line.level, glance.level)
        told = "; ".join(f.what for f in one.findings.values())
        kafka = one.status.topic is not None
        wanted = [c for c in one.status.concerns if c.kind in KINDS]
        assert {f.kind for f in one.findings.values()} == {c.kind for c in wanted}, (kafka, one.pipeline.name)
        assert all(c.what in told for c in wanted)


def test_what_is_due_and_overdue(asked: list[Asked]) -> None:
    for one in asked:
        due = one.json["due"]
        glance = one.line.status
        assert glance is not None
        assert glance.due == one.status.due
        if one.status.survey is not None:
            assert one.value("windows_due") == one.json["due_count"] == len(due) == one.line.works.get("due", 0)
        age = one.value("oldest_due_age_seconds")
        assert (age is None) == (not due)
        assert one.status.due_since_ms == (None if age is None else NOW - age * 1000)
        if one.due is not None:
            assert due[0]["start_ms"] == one.due.window.start_ms
            assert not one.due.published
        ready = [c for c in one.status.concerns if "ready and not published" in c.what]
        assert not ready or age is None or not one.status.held or age * 1000 > one.pipeline.archive.sla_ms
        assert not ready or one.due is not None


def test_lag_and_time_to_loss(asked: list[Asked]) -> None:
    for one in asked:
        lag, glance = one.json["lag"], one.line.status
        assert glance is not None
        assert (lag and lag["records"]) == (glance.lag and glance.lag.records)
        assert one.status.plan_lag == glance.plan_lag
        if one.status.survey is not None:
            assert one.value("lag_records") == one.json["unread_records"]
        assert lag is None or one.json["unread_records"] >= lag["records"]
        loss = one.json["time_to_loss"]
        assert glance.loss == one.status.loss
        assert (loss and loss["seconds"]) == one.value("time_to_loss_seconds")
        assert (loss and loss["seconds_if_stopped"]) == one.value("time_to_loss_stopped_seconds")
        assert one.line.loss[1] == (one.value("loss_level") in (1, 2))


def test_late_and_dirty_rows_and_the_balance(asked: list[Asked]) -> None:
    for one in asked:
        survey = one.line.status.survey if one.line.status is not None else None
        assert (survey is not None) == one.json["registered"]
        if survey is None:
            continue
        assert one.json["late_now"] == one.value("late_records") == survey.late_now
        assert one.json["totals"]["dirty"] == one.value("dirty_records") == survey.totals.dirty_now
        assert one.value("unaccounted_records") == survey.unaccounted == 0
        assert one.json["lost_offsets"] == one.value("lost_offsets_total")
        published = one.json["generations"].get("CURRENT", 0)
        assert published == one.value("windows_published") == one.line.works.get("published", published)
        assert one.json["published_rows"] == one.value("rows_published")
        if one.pipeline.windows.closes:
            assert one.json["windows"].get("CLOSING", 0) == one.line.works.get("closing", 0)


def test_how_far_a_mirror_is(asked: list[Asked]) -> None:
    mirrors = [one for one in asked if not one.pipeline.windows.closes and one.status.survey is not None]
    assert len(mirrors) > 5
    for one in asked:
        told = one.json.get("merging")
        assert (told is not None) == (one in mirrors)
        assert one.value("batches_to_merge") == (told and told["waiting_batches"])
        if told is None:
            continue
        assert one.line.works == {
            "merged": told["newest_batch"] - told["waiting_batches"],
            "to merge": told["waiting_batches"],
        }
        assert (one.value("merge_age_seconds") is None) == (told["waiting_batches"] == 0)
        assert (one.status.next_window, one.status.watermark_ms, list(one.status.due)) == (None, None, [])
        refused = [c for c in one.status.concerns if c.kind == "refused_merge"]
        assert bool(refused) == (told["refused"] is not None)


def test_the_open_batch_pauses_and_blocks(asked: list[Asked]) -> None:
    for one in asked:
        survey = one.status.survey
        if survey is None:
            continue
        batch = one.json["open_batch"]
        assert (batch and (batch["batch_id"], batch["state"])) == (
            survey.open_batch and (survey.open_batch.batch_id, survey.open_batch.state)
        )
        assert (one.value("open_batch_age_seconds") is None) == (batch is None)
        refused = int(batch is not None and bool(batch["refused"]) and not batch["blocked"])
        assert one.value("held") == len(one.json["blocks"]) + refused
        stuck = [c for c in one.status.concerns if c.kind in ("alarm", "refused", "dirty_limit")]
        assert len(stuck) == one.value("held")
        pause = one.json["paused_on_purpose"]
        kinds = {labels[0] for name, *labels in one.measures if name == "tidegate_paused"}
        assert kinds == (set(pause.kinds) if pause is not None else set())


def test_explain_says_of_the_next_window_what_the_others_say(asked: list[Asked]) -> None:
    for one in asked:
        found, waits = one.waits, one.status.next_window
        if found is None or waits is None:
            continue
        assert (found.now.ready, found.now.reason, found.now.blockers) == (waits.ready, waits.reason, waits.blockers)
        assert one.json["next_window"]["reason"] == found.now.reason
        if found.view.window is None:
            assert found.forecast == one.status.expected
        unready = [c for c in one.status.concerns if c.kind == "unready_window"]
        assert all(c.advice.endswith(found.next_step) for c in unready)
        assert not unready or found.now.reason in unready[0].what
        closing = [c for c in one.status.concerns if " is closing" in c.what]
        assert all(c.advice == found.next_step for c in closing)
        assert not unready or not (closing or found.view.window)
        stuck = [c for c in one.status.concerns if c.kind in ("refused", "dirty_limit")]
        assert not stuck or found.view.window or stuck[0].advice in found.next_step
