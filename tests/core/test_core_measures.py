"""Measures and their text: each value from its fact, and nothing where there is none."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest
from core_values import HOUR, PIPELINE, T0

from tidegate.core.base.offsets import Interval
from tidegate.core.batch.totals import BatchSteps, Spent, Sums, Totals
from tidegate.core.deliver.states import Backlog
from tidegate.core.deliver.states import Due as Waiting
from tidegate.core.files.slow_path import Slow
from tidegate.core.look.measures import FAMILIES, Measure, broken, exposition, family_of, measures
from tidegate.core.look.status import Lag, PipelineStatus, lag_of
from tidegate.core.look.survey import NOTHING, Block, OpenRow, Published, Survey, WindowSteps
from tidegate.core.mirror.applies import Merging, Told
from tidegate.core.mirror.copied import Complete, Copied
from tidegate.core.source.loss_forecast import AHEAD, LossForecast
from tidegate.core.source.loss_warning import CRITICAL, OFF, OK, UNKNOWN, WARN, TimeToLoss
from tidegate.core.source.port import ALL, Lane, LogState
from tidegate.core.source.progress import BatchLook, Look, Progress
from tidegate.core.tell.notices import AuditOutcome
from tidegate.core.tell.pauses import Pause
from tidegate.core.window.due import Due
from tidegate.core.window.watermark import PartitionFacts, TopicFacts

NOW = T0 + 100 * HOUR
WINDOWS = replace(PIPELINE.windows, start_ms=T0, watermark_delay_ms=HOUR, idle="wait")
SPEC = replace(PIPELINE, windows=WINDOWS)
LANDED = BatchLook(3, True, NOW - 70_000, NOW - 60_000, {0: Look(start=0, end=10, log_start=0, high_watermark=10)})
SURVEY = Survey(
    progress=Progress("id", LANDED, LANDED),
    facts=TopicFacts(
        3, NOW, (PartitionFacts(partition=0, max_event_ms=T0 + 50 * HOUR, drained=False, advanced_ms=NOW),)
    ),
    totals=Totals(
        Sums(
            offsets=100,
            read=99,
            data=60,
            late=20,
            dirty=10,
            filtered=5,
            dropped=4,
            rerouted=3,
            bytes=777,
            unaccounted=0,
        ),
        taken=2,
        steps=BatchSteps(*(Spent(n * 500, n) for n in range(1, 6))),
    ),
    published=Published(7, 1_234, T0 + 40 * HOUR, T0 + 42 * HOUR),
    open_batch=OpenRow(batch_id=4, state="WRITING", planned_ms=NOW - 30_000, refused="dirty"),
    blocks=(Block("window 20130105T040000Z", "odd"),),
    lost=9,
    audit=AuditOutcome(NOW - 7_000, 3, "x"),
    untold=4,
    late_now=17,
)
SPENT = WindowSteps(*(Spent(n * 500, n) for n in (6, 7, 8, 9)))
TOPIC = LogState(topic="t", topic_id="id", partitions={0: Lane(4, 25, 30), 1: Lane(6, 8, 8)})
DUE = Due(WINDOWS, (Interval(T0 + 41 * HOUR, T0 + 43 * HOUR), Interval(T0 + 45 * HOUR, T0 + 46 * HOUR)))
FORECAST = LossForecast(
    partition=0, state=AHEAD, at_pace_ms=5_500, stopped_ms=4_000, room_ms=9_000, limit="time", behind_ms=7, unread=8
)
LOSS = TimeToLoss(WARN, (FORECAST,), HOUR, HOUR, None)


DUE_SINCE = NOW - 2 * 3_600_000


def status(survey: Survey | None, topic: LogState | None, loss: TimeToLoss | None, due: Due | None) -> PipelineStatus:
    return PipelineStatus(
        pipeline=SPEC,
        remedy=str,
        now_ms=NOW,
        due=due or Due(WINDOWS, ()),
        survey=survey,
        topic=topic,
        lag=None if survey is None else lag_of(survey.progress, topic, NOW),
        watermark_ms=T0 + 49 * HOUR if survey is not None and survey.facts.batch_id else None,
        due_since_ms=DUE_SINCE if due else None,
        loss=loss,
    )


def told(*given: object) -> dict[str, float]:
    found = measures(status(*given))  # type: ignore[arg-type]
    assert all(m.labels[0] == ("pipeline", SPEC.name) for m in found)
    keys = [".".join([m.name.removeprefix("tidegate_"), *(v for _, v in m.labels[1:])]) for m in found]
    assert len(set(keys)) == len(keys)
    assert all(label[0] in ("fate", "step") for m in found for label in m.labels[1:])
    return dict(zip(keys, [m.value for m in found], strict=True))


STEPS = ("plan", "start", "write", "job", "land", "ready", "assemble", "publish")


def test_every_value_from_its_fact() -> None:
    found = {(m.name, m.labels): m.value for m in measures(status(SURVEY, TOPIC, LOSS, DUE), SPENT)}
    mine = (("pipeline", SPEC.name),)
    for n, step in enumerate(STEPS, 1):
        assert found["tidegate_step_seconds_sum", (*mine, ("step", step))] == n / 2
        assert found["tidegate_step_seconds_count", (*mine, ("step", step))] == n
    assert (found["tidegate_publication_seconds_sum", mine], found["tidegate_publication_seconds_count", mine]) == (
        4.5,
        9,
    )
    assert {name: value for name, value in told(SURVEY, TOPIC, LOSS, DUE).items() if "_seconds_" not in name} == {
        "spec_ok": 1,
        "kafka_ok": 1,
        "held": 2,
        "lag_records": 20 + 2,  # partition 1 has been met by no batch: it begins at its log start
        "records_read_total": 99,
        "read_bytes_total": 777,
        "records_total.data": 60,
        "records_total.late": 20,
        "records_total.dirty": 10,
        "records_total.filtered": 5,
        "records_total.dropped": 4,
        "records_rerouted_total": 3,
        "dirty_records": 8,
        "unaccounted_records": 0,
        "lost_offsets_total": 9,
        "landed_age_seconds": 60,
        "open_batch_age_seconds": 30,
        "watermark_delay_seconds": 51 * 3600,
        "windows_due": 3,
        "oldest_due_age_seconds": 2 * 3600,
        "windows_published": 7,
        "rows_published": 1_234,
        "publish_delay_seconds": 3600,
        "time_to_loss_seconds": 5.5,
        "time_to_loss_stopped_seconds": 4,
        "loss_level": 1,
        "audit_problems": 3,
        "audit_age_seconds": 7,
        "notices_waiting": 4,
        "late_records": 17,
    }


def test_the_age_of_what_is_unread() -> None:
    read = BatchLook(
        3,
        True,
        NOW - 70_000,
        NOW - 60_000,
        {
            0: Look(start=0, end=10, log_start=0, high_watermark=99, max_kafka_ms=NOW - 500_000),
            1: Look(start=8, end=8, log_start=6, high_watermark=8),
            2: Look(start=0, end=5, log_start=0, high_watermark=5, max_kafka_ms=None),
        },
    )
    survey = replace(SURVEY, progress=Progress("id", read, read))

    def lag(**ends: int) -> float | None:
        partitions = {int(p[1:]): Lane(0, end, end) for p, end in ends.items()}
        return told(survey, replace(TOPIC, partitions=partitions), None, None).get("lag_seconds")

    assert lag(p0=10, p1=8, p2=5) == 0
    assert lag(p0=11, p1=8) == 500, "since what was read last"
    assert lag(p0=10, p1=9) == 70, "there was nothing more when it was asked for"
    assert lag(p0=11, p1=9) == 500
    assert lag(p2=6) is None, "nobody knows how old what was read is"
    assert lag(p3=1) is None, "never read"


def test_a_pipeline_that_is_paused_and_delivers_and_reads_slowly() -> None:
    due = Waiting(window_ms=T0, generation=1, published_ms=NOW - 9_000)
    pause = Pause(1, T0, "anna", "works", ("ingest", "deliver"))
    one = status(replace(SURVEY, slow=(Slow("odd", 7), Slow("long", 8)), pause=pause), TOPIC, LOSS, DUE)
    one = replace(
        one,
        backlogs=(Backlog(name="ch", standing=6, due=3, refused=2, oldest=due), Backlog(name="pg")),
    )
    found = [(m.name.removeprefix("tidegate_"), *(v for _, v in m.labels[1:]), m.value) for m in measures(one)]
    assert {label for m in measures(one) for label, _ in m.labels} == {
        "pipeline", "fate", "step", "reason", "dag", "delivery",
    }  # fmt: skip
    for wanted in (
        ("slow_records", "odd", 7), ("slow_records", "long", 8), ("paused", "ingest", 1), ("paused", "deliver", 1),
        ("deliveries_due", "ch", 3), ("deliveries_refused", "ch", 2), ("deliveries_standing", "ch", 6),
        ("delivery_lag_seconds", "ch", 9), ("deliveries_due", "pg", 0), ("delivery_lag_seconds", "pg", 0),
    ):  # fmt: skip
        assert found.count(wanted) == 1, wanted


def test_a_keyed_table() -> None:
    def merged(merging: Merging) -> dict[str, float]:
        found = {m.name: m.value for m in measures(replace(status(SURVEY, TOPIC, None, None), merging=merging))}
        names = ("batches_to_merge", "merge_age_seconds", "mirror_age_seconds")
        return {name: found[f"tidegate_{name}"] for name in names if f"tidegate_{name}" in found}

    assert merged(Merging()) == {"batches_to_merge": 0}
    whole = Told(copied=Copied(complete=Complete((5, 0), NOW - 4_000)))
    assert merged(Merging(told=whole, waiting=3, since_ms=NOW - 8_000)) == {
        "batches_to_merge": 3, "merge_age_seconds": 8, "mirror_age_seconds": 4,
    }  # fmt: skip
    assert merged(Merging(told=Told())) == {"batches_to_merge": 0}


def test_a_lag_as_a_whole() -> None:
    """Partition 0 is open up to 25 of 30, retention has taken 2 offsets of partition 1; 2 has come since, 3 is read."""
    looks = {p: Look(start=0, end=end, log_start=0, high_watermark=end) for p, end in ((0, 10), (1, 4), (3, 8))}
    newest = BatchLook(3, True, NOW, NOW, looks)
    lanes = {0: Lane(4, 25, 30), 1: Lane(6, 8, 8), 2: Lane(0, 1, 1), 3: Lane(0, 8, 8)}
    topic = replace(TOPIC, partitions=lanes)
    assert lag_of(Progress("id", newest, newest), topic, NOW) == Lag(
        records=15 + 2 + 1, partitions={0: 15, 1: 2, 2: 1, 3: 0}, lost=2, unread=20 + 2 + 1,
        unread_partitions=(0, 1, 2), asked_ms=NOW, topic_id="id",
    )  # fmt: skip
    assert lag_of(Progress("id", newest, newest), replace(topic, traits=replace(ALL, windowed=True)), NOW) is None
    assert lag_of(Progress("id", newest, newest), None, NOW) is None


def test_what_does_not_exist_is_left_out() -> None:
    nothing = NOTHING
    found = told(nothing, None, None, None)
    assert found["kafka_ok"] == found["windows_due"] == found["windows_published"] == 0
    assert not {name for name in found if name.endswith("_seconds") or name.startswith(("lag", "loss", "time"))}
    assert told(None, None, None, None) == {"spec_ok": 1, "kafka_ok": 0}
    assert told(None, TOPIC, None, None) == {"spec_ok": 1, "kafka_ok": 1}
    no_due = told(SURVEY, TOPIC, LOSS, Due(WINDOWS, ()))
    assert no_due["windows_due"] == 0
    assert "oldest_due_age_seconds" not in no_due
    unpublished = told(replace(SURVEY, published=Published(1, 0, T0, None)), None, None, None)
    assert "publish_delay_seconds" not in unpublished
    assert broken("x") == Measure("tidegate_spec_ok", (("pipeline", "x"),), 0)


def test_the_lag_is_of_the_accepted_topic() -> None:
    other = replace(TOPIC, topic_id="another")
    assert "lag_records" not in told(SURVEY, other, None, None)
    young = replace(SURVEY, progress=Progress(None))
    assert told(young, other, None, None)["lag_records"] == 26 + 2
    cut = replace(TOPIC, partitions={0: Lane(28, 30, 30)})
    assert told(SURVEY, cut, None, None)["lag_records"] == 2, "what is gone is not behind"
    shorter = replace(TOPIC, partitions={0: Lane(0, 5, 5)})
    assert told(SURVEY, shorter, None, None)["lag_records"] == 0


def test_a_clock_that_is_behind_makes_no_age_negative() -> None:
    later = replace(SURVEY, open_batch=OpenRow(batch_id=4, state="WRITING", planned_ms=NOW + 5_000))
    assert told(later, None, None, None)["open_batch_age_seconds"] == 0


@pytest.mark.parametrize(("level", "number"), [(OK, 0), (WARN, 1), (CRITICAL, 2), (UNKNOWN, None), (OFF, None)])
def test_levels_are_numbers(level: str, number: int | None) -> None:
    loss = TimeToLoss(level, (), HOUR, None, None)
    found = told(SURVEY, TOPIC, loss, DUE)
    assert found.get("loss_level") == number
    assert "time_to_loss_seconds" not in found


def test_the_text() -> None:
    given = [
        Measure("tidegate_held", (("pipeline", 'a"\\\n'),), 3),
        broken("b"),
        Measure("tidegate_records_total", (("pipeline", "a"), ("fate", "late")), 2.5),
        Measure("tidegate_held", (), -1.0),
    ]
    assert list(exposition(given)) == [
        "# HELP tidegate_spec_ok 1 if the pipeline's YAML can be used, else 0.",
        "# TYPE tidegate_spec_ok gauge",
        'tidegate_spec_ok{pipeline="b"} 0',
        "# HELP tidegate_held Batches and windows that wait for a human: refused or blocked.",
        "# TYPE tidegate_held gauge",
        'tidegate_held{pipeline="a\\"\\\\\\n"} 3',
        "tidegate_held -1",
        "# HELP tidegate_records_total Records that have landed, by what became of them.",
        "# TYPE tidegate_records_total counter",
        'tidegate_records_total{pipeline="a",fate="late"} 2.5',
    ]
    for value, text in ((inf, "+Inf"), (-inf, "-Inf"), (nan, "NaN"), (1e16, "10000000000000000"), (0.25, "0.25")):
        assert list(exposition([Measure("tidegate_held", (), value)]))[-1] == f"tidegate_held {text}"


def test_a_measure_knows_its_family() -> None:
    assert Measure("tidegate_step_seconds_sum", (), 1).kind == "summary"
    assert family_of("tidegate_step_seconds_count") == "tidegate_step_seconds"
    assert family_of("tidegate_held") == "tidegate_held"
    for name in ("tidegate_step_seconds", "tidegate_held_sum", "tidegate_nothing", "tidegate_step_seconds_max"):
        with pytest.raises(KeyError):
            family_of(name)
    one = broken("x")
    assert (one.kind, one.help) == FAMILIES["tidegate_spec_ok"]
