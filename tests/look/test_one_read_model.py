"""`status`, the board's list, measures, notices and `explain` say the same of a pipeline, in a hundred situations."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from situations import NOW, SEED, SITUATIONS, situations

from tests.fakes.clock import FakeClock
from tidegate.board.pages import overview
from tidegate.board.specs import Folder
from tidegate.cli import status as command
from tidegate.cli.status_table import Line
from tidegate.core.base.errors import SourceUnavailable
from tidegate.core.look.measures import Measure
from tidegate.core.look.status import PipelineStatus
from tidegate.core.source.port import LogState
from tidegate.core.spec.pipeline import Pipeline
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
    made, topics = situations(engine, random.Random(SEED))
    ledger = SqlLedger(engine, "test", lambda: NOW)
    yield list(_ask(ledger, made, topics))
    ledger.close()


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
