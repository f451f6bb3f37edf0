"""What is measured of a pipeline, by the names that Prometheus knows; docs/metrics.md explains each.

Base units: seconds, bytes, records. A measure that does not exist at the moment (no loss ahead, nothing due) is left
out, never -1 or NaN. Counters only grow, except that a ledger which was restored from a backup may know less."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

from tidegate.core.batch.totals import BatchSteps, Spent
from tidegate.core.deliver.due import lag_ms
from tidegate.core.look.status import PipelineStatus
from tidegate.core.look.survey import Survey, WindowSteps
from tidegate.core.source.loss_warning import CRITICAL, OK, WARN
from tidegate.core.source.progress import Progress
from tidegate.core.window.cut import window_end

GAUGE, COUNTER, SUMMARY = "gauge", "counter", "summary"
FATES = ("data", "late", "dirty", "filtered", "dropped")
LEVELS = {OK: 0, WARN: 1, CRITICAL: 2}

FAMILIES: dict[str, tuple[str, str]] = {
    "tidegate_spec_ok": (GAUGE, "1 if the pipeline's YAML can be used, else 0."),
    "tidegate_kafka_ok": (GAUGE, "1 if Kafka answered for the pipeline's topic, else 0; without an answer lag and "
                                 "time to loss are left out."),
    "tidegate_held": (GAUGE, "Batches and windows that wait for a human: refused or blocked."),
    "tidegate_lag_records": (GAUGE, "Offsets of the topic that have not been read, up to the log's end."),
    "tidegate_lag_seconds": (GAUGE, "How old unread records are at most: since the Kafka timestamp up to which the "
                                    "partition that is furthest behind has been read; 0 if there are none."),
    "tidegate_records_read_total": (COUNTER, "Records read from Kafka by batches that have landed."),
    "tidegate_read_bytes_total": (COUNTER, "Keys and values of those records, as Kafka delivered them."),
    "tidegate_records_total": (COUNTER, "Records that have landed, by what became of them."),
    "tidegate_records_rerouted_total": (COUNTER, "Late records among the data: in the window that was the oldest open "
                                                 "one."),
    "tidegate_late_records": (GAUGE, "Late records that no generation in force has taken up."),
    "tidegate_dirty_records": (GAUGE, "Dirty records that no redrive has taken up."),
    "tidegate_unaccounted_records": (GAUGE, "Records read whose fate is not known, over all ranges: anything but 0 is "
                                            "a broken promise."),
    "tidegate_lost_offsets_total": (COUNTER, "Offsets that were gone from the topic before they were read, and "
                                             "recorded as lost."),
    "tidegate_slow_records": (GAUGE, "Records of the newest landed batch that were decoded one by one, by reason; 0 is "
                                     "left out."),
    "tidegate_landed_age_seconds": (GAUGE, "Time since the newest batch landed."),
    "tidegate_open_batch_age_seconds": (GAUGE, "Time since the batch was planned that has not landed."),
    "tidegate_watermark_delay_seconds": (GAUGE, "How far the global watermark is behind the clock."),
    "tidegate_windows_due": (GAUGE, "Windows that the watermark has passed and that are not published."),
    "tidegate_oldest_due_age_seconds": (GAUGE, "Time since the oldest due window became ready."),
    "tidegate_batches_to_merge": (GAUGE, "Landed batches that a mirror's table lacks; of mirrors only."),
    "tidegate_merge_age_seconds": (GAUGE, "Time since the oldest of them landed."),
    "tidegate_deliveries_due": (GAUGE, "Published windows that do not stand in a further system, by delivery."),
    "tidegate_delivery_lag_seconds": (GAUGE, "Time since the window was published that has waited longest for a "
                                             "further system, by delivery; 0 if none waits."),
    "tidegate_deliveries_refused": (GAUGE, "Windows that a further system does not take, and that wait for a human."),
    "tidegate_deliveries_standing": (GAUGE, "Windows whose generation in force stands in a further system."),
    "tidegate_windows_published": (GAUGE, "Windows with a generation in force."),
    "tidegate_rows_published": (GAUGE, "Rows of the generations in force."),
    "tidegate_publish_delay_seconds": (GAUGE, "From the end of the newest published window to its first publication."),
    "tidegate_step_seconds": (SUMMARY, "What steps took, by step: plan, start, write, job and land of batches, ready, "
                                       "assemble and publish of windows."),
    "tidegate_publication_seconds": (SUMMARY, "From the ends of windows to their first publications."),
    "tidegate_audit_problems": (GAUGE, "What the newest audit that the ledger knows of has found; 0 is good."),
    "tidegate_audit_age_seconds": (GAUGE, "Time since that audit."),
    "tidegate_paused": (GAUGE, "1 for each DAG, by its kind, that is paused on purpose; left out once that is over."),
    "tidegate_notices_waiting": (GAUGE, "Messages to people that have not been delivered."),
    "tidegate_time_to_loss_seconds": (GAUGE, "Until Kafka's retention passes unread records at the present pace; 0 "
                                             "while it does; left out if it never does, or it is unknown."),
    "tidegate_time_to_loss_stopped_seconds": (GAUGE, "The same if reading stopped now."),
    "tidegate_loss_level": (GAUGE, "0 ok, 1 warn, 2 critical, by source.loss_warning; left out if not known."),
}  # fmt: skip
"""Name -> kind and help, in the order in which they are printed."""


@dataclass(frozen=True)
class Measure:
    """One value of a family of FAMILIES, of a summary its `_sum` or its `_count`; `labels` are (name, value) pairs, the
    pipeline first."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float

    @property
    def family(self) -> str:
        return family_of(self.name)

    @property
    def kind(self) -> str:
        return FAMILIES[self.family][0]

    @property
    def help(self) -> str:
        return FAMILIES[self.family][1]


def family_of(name: str) -> str:
    """Raises KeyError for a name that is not measured."""
    bare = name.removesuffix("_sum").removesuffix("_count")
    found = bare if FAMILIES.get(bare, ("",))[0] == SUMMARY and bare != name else name
    if found not in FAMILIES or (found == name and FAMILIES[name][0] == SUMMARY):
        raise KeyError(name)
    return found


def measures(status: PipelineStatus, spent: WindowSteps | None = None) -> list[Measure]:
    """`spent` is None while there is no window."""
    survey, lag, loss = status.survey, status.lag, status.loss
    values: dict[str, float | None] = {"tidegate_spec_ok": 1, "tidegate_kafka_ok": int(status.topic is not None)}
    if survey is not None:
        values |= _of_ledger(status, survey)
        if lag is not None:
            values["tidegate_lag_records"] = lag.unread
            values["tidegate_lag_seconds"] = _lag_seconds(survey.progress, lag.unread_partitions, status.now_ms)
    if loss is not None:
        values["tidegate_time_to_loss_seconds"] = _seconds(loss.at_pace_ms)
        values["tidegate_time_to_loss_stopped_seconds"] = _seconds(loss.stopped_ms)
        values["tidegate_loss_level"] = LEVELS.get(loss.level)
    label = (("pipeline", status.name),)
    found = [Measure(name, label, value) for name, value in values.items() if value is not None]
    if survey is not None:
        fates = survey.totals.ingested
        found += [Measure("tidegate_records_total", (*label, ("fate", fate)), getattr(fates, fate)) for fate in FATES]
        found += [Measure("tidegate_slow_records", (*label, ("reason", s.reason)), s.messages) for s in survey.slow]
        found += _summaries(label, survey.totals.steps, spent or WindowSteps())
        found += _of_deliveries(label, status)
        kinds = status.pause.kinds if status.pause is not None else ()
        found += [Measure("tidegate_paused", (*label, ("dag", kind)), 1) for kind in kinds]
    return found


def _of_deliveries(label: tuple[tuple[str, str], ...], status: PipelineStatus) -> Iterator[Measure]:
    for one in status.backlogs:
        labels = (*label, ("delivery", one.name))
        yield Measure("tidegate_deliveries_due", labels, one.due)
        yield Measure("tidegate_delivery_lag_seconds", labels, lag_ms(one, status.now_ms) / 1000)
        yield Measure("tidegate_deliveries_refused", labels, one.refused)
        yield Measure("tidegate_deliveries_standing", labels, one.standing)


def _lag_seconds(progress: Progress, unread: Sequence[int], now_ms: int) -> float | None:
    """None if a partition with unread records was never read."""
    read = progress.read
    positions = [None if read is None else read.position_ms(p) for p in unread]
    if any(at is None for at in positions):
        return None
    return max((max(0, now_ms - at) / 1000 for at in positions if at is not None), default=0)


def _summaries(label: tuple[tuple[str, str], ...], batches: BatchSteps, windows: WindowSteps) -> Iterator[Measure]:
    steps = {f.name: getattr(batches, f.name) for f in fields(batches)}
    steps |= {f.name: getattr(windows, f.name) for f in fields(windows) if f.name != "delay"}
    for step, spent in steps.items():
        yield from _summary("tidegate_step_seconds", (*label, ("step", step)), spent)
    yield from _summary("tidegate_publication_seconds", label, windows.delay)


def _summary(name: str, labels: tuple[tuple[str, str], ...], spent: Spent) -> tuple[Measure, Measure]:
    return Measure(f"{name}_sum", labels, spent.ms / 1000), Measure(f"{name}_count", labels, spent.count)


def broken(name: str) -> Measure:
    """A pipeline whose YAML is invalid."""
    return Measure("tidegate_spec_ok", (("pipeline", name),), 0)


def _of_ledger(status: PipelineStatus, survey: Survey) -> dict[str, float | None]:
    merging = status.merging
    published, landed, batch, now_ms = survey.published, survey.progress.landed, survey.open_batch, status.now_ms
    delay, low, sums = None, status.watermark_ms, survey.totals.ingested
    if published.newest_start_ms is not None and published.first_published_ms is not None:
        delay = published.first_published_ms - window_end(published.newest_start_ms, status.pipeline.windows)
    return {
        "tidegate_records_read_total": sums.read,
        "tidegate_read_bytes_total": sums.bytes,
        "tidegate_records_rerouted_total": sums.rerouted,
        "tidegate_dirty_records": survey.totals.dirty_now,
        "tidegate_unaccounted_records": survey.unaccounted,
        "tidegate_late_records": survey.late_now,
        "tidegate_held": survey.held,
        "tidegate_lost_offsets_total": survey.lost,
        "tidegate_landed_age_seconds": None if landed is None else _age(landed.landed_ms, now_ms),
        "tidegate_open_batch_age_seconds": None if batch is None else _age(batch.planned_ms, now_ms),
        "tidegate_watermark_delay_seconds": None if low is None else (now_ms - low) / 1000,
        "tidegate_windows_due": status.due.count,
        "tidegate_oldest_due_age_seconds": _age(status.due_since_ms, now_ms),
        "tidegate_batches_to_merge": None if merging is None else merging.waiting,
        "tidegate_merge_age_seconds": None if merging is None else _age(merging.since_ms, now_ms),
        "tidegate_windows_published": published.windows,
        "tidegate_rows_published": published.rows,
        "tidegate_publish_delay_seconds": _seconds(delay),
        "tidegate_audit_problems": None if survey.audit is None else survey.audit.problems,
        "tidegate_audit_age_seconds": None if survey.audit is None else _age(survey.audit.at_ms, now_ms),
        "tidegate_notices_waiting": survey.untold,
    }


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def _age(since_ms: int | None, now_ms: int) -> float | None:
    return None if since_ms is None else max(0, now_ms - since_ms) / 1000


# ---------------------------------------------------------------- the text format


def exposition(found: Iterable[Measure]) -> Iterator[str]:
    """Lines of Prometheus' text format 0.0.4, without line ends: each family once, with its help and type."""
    by_name: dict[str, list[Measure]] = {name: [] for name in FAMILIES}
    for measure in found:
        by_name[measure.family].append(measure)
    for name, (kind, text) in FAMILIES.items():
        if by_name[name]:
            yield f"# HELP {name} {_escaped(text, quoted=False)}"
            yield f"# TYPE {name} {kind}"
            yield from (f"{m.name}{_labels(m.labels)} {_number(m.value)}" for m in by_name[name])


def _labels(pairs: tuple[tuple[str, str], ...]) -> str:
    inside = ",".join(f'{name}="{_escaped(value, quoted=True)}"' for name, value in pairs)
    return f"{{{inside}}}" if inside else ""


def _escaped(text: str, *, quoted: bool) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quoted else text


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
