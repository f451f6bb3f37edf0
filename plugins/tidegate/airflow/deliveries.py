"""The runs of `<pipeline>.deliver`: what is due, or the windows that a run is about."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from tidegate.airflow import weights
from tidegate.airflow.pools import Turn
from tidegate.airflow.runs import trigger
from tidegate.airflow.task import PipelineOperator
from tidegate.airflow.timetable import to_ms
from tidegate.core.base.instants import HOUR_MS, iso
from tidegate.core.base.wording import many
from tidegate.core.deliver.units import counted, side_of
from tidegate.core.replay.request import asked
from tidegate.core.spec.pipeline import Delivery, Pipeline
from tidegate.core.window.cut import window_end, window_from, window_start
from tidegate.core.window.states import WindowKey

if TYPE_CHECKING:
    from airflow.utils.context import Context

    from tidegate.workflow.base.context import Context as PipelineContext
    from tidegate.workflow.deliver.deliver import Sent

NAMED = ("window", "from", "until")
LONGEST_S = 1800.0
"""Seconds after which a task begins no further window, so that its run ends and its log can be read."""


class DeliverOperator(PipelineOperator):
    """Send published windows to one further system: what is due, and the windows that the run is about.

    A cleared task compares what its run has sent with what stands there, and sends what differs."""

    def __init__(self, *, pipeline: Pipeline, delivery: str, **operator_args: Any) -> None:
        super().__init__(pipeline=pipeline, **operator_args)
        self.delivery = delivery

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """Send for LONGEST_S seconds, or until more urgent tasks wait; a run that it triggers goes on."""
        carry_out(self, ctx, context, LONGEST_S)


def carry_out(task: DeliverOperator, ctx: PipelineContext, context: Context, seconds: float) -> None:
    """Send, and tell Airflow the outcome. Raises AirflowSkipException where there was nothing to send."""
    from tidegate.workflow.deliver import deliver as workflow
    from tidegate.workflow.deliver.ready import prepare

    one = next(d for d in ctx.pipeline.deliver if d.name == task.delivery)
    until, begun = time.monotonic() + seconds, False
    windows, alone = about(task.pipeline, one, ctx, context)

    def go_on() -> bool:
        """A first window always: else runs that end at once would follow each other for ever."""
        nonlocal begun
        first, begun = not begun, True
        return first or (time.monotonic() < until and not turn.over())

    with closing(ctx.sender(one)) as sender:
        prepare(ctx, one, sender)
        turn = Turn(task.pool, weights.DELIVER)
        found = list(workflow.verify(ctx, one, sender, windows, go_on, _why(context)))
        left = [key for key in windows if not found or key.start_ms > found[-1].window_ms]
        if not alone:
            found += workflow.deliver(ctx, one, sender, go_on)
    if begun and not go_on():
        task.log.info("more urgent tasks wait for a slot" if turn.over() else f"{seconds:.0f} s are over")
        _goes_on(task, context, () if one.side else left, alone)
    _tell(task, found, alone)


def _goes_on(task: DeliverOperator, context: Context, left: Sequence[WindowKey], alone: bool) -> None:
    """Trigger the run that goes on: with the windows that are `left` of what this one is about, or with what is due."""
    run = context["dag_run"]
    if alone and not left:
        return
    conf, of = {}, run.run_id
    if left:
        conf = dict(run.conf or {}) | {
            "from": iso(left[0].start_ms),
            "until": iso(left[-1].end_ms),
            "to": task.delivery,
        }
        conf.pop("window", None)
    found = re.fullmatch(r"after_(\d+)_(.*)", of)
    number, of = (int(found[1]) + 1, found[2]) if found else (1, of)
    if left and not of.startswith(f"{task.delivery}_"):
        of = f"{task.delivery}_{of}"
    task.log.info(trigger(task.dag_id, f"after_{number}_{of}"[:250], conf))


def about(
    pipeline: Pipeline, one: Delivery, ctx: PipelineContext, context: Context
) -> tuple[Sequence[WindowKey], bool]:
    """Windows that the run is about, and whether it is about nothing else: those that its conf names; of a backfill the
    window of its data interval. A cleared run is about those that it may have sent before, too."""
    run = context["dag_run"]
    conf: dict[str, Any] = run.conf or {}
    named = {key: conf[key] for key in NAMED if key in conf}
    if named and conf.get("to", one.name) != one.name:
        raise AirflowSkipException(f"this run is about the delivery {str(conf['to'])[:100]}")
    if named and one.side:
        return (), True  # windows, and this one sends batches
    if named:
        return asked(named, pipeline.windows, None).windows, True
    start, end = to_ms(context["data_interval_start"]), to_ms(context["data_interval_end"])
    is_window = start == window_start(start, pipeline.windows) and end == window_end(start, pipeline.windows)
    if is_window and not run.run_id.startswith("dataset_triggered"):
        return () if one.side else (window_from(start, pipeline.windows),), True
    if context["ti"].try_number <= 1:
        return (), False
    from tidegate.workflow.deliver import content
    from tidegate.workflow.deliver import deliver as workflow

    began = to_ms(run.logical_date)
    rows = ctx.ledger.deliveries.within(ctx.name, one.name, *workflow.EVER)
    sent = [r.window_ms for r in rows if r.stood_ms is not None and began <= r.stood_ms < began + HOUR_MS]
    return tuple(content.key(ctx, one.side, unit) for unit in sent), False


def _why(context: Context) -> str:
    """Not empty: what stands is sent once more."""
    conf: dict[str, Any] = context["dag_run"].conf or {}
    return str(conf.get("why") or "asked for by a run's conf")[:500] if conf.get("again") is True else ""


def _tell(task: DeliverOperator, found: Sequence[Sent], alone: bool) -> None:
    """`alone`: as `about` says."""
    bad = [sent for sent in found if not sent.well]
    if not found:
        side = side_of(task.delivery)
        if alone and side:
            raise AirflowSkipException(f"{task.delivery} sends batches, and this run is about windows")
        if alone:
            raise AirflowSkipException(f"{task.delivery}: none of the windows that this run is about is published")
        what = f"batch with {side} rows" if side else "published window"
        raise AirflowSkipException(f"nothing is due at {task.delivery}: every {what} stands there")
    if not bad:
        rows = many(sum(sent.rows for sent in found), "row")
        task.log.info("%s: %s, %s", task.delivery, counted(side_of(task.delivery), len(found)), rows)
        return
    from tidegate.workflow.base.outcome import FAILED

    first = next((sent for sent in bad if sent.what == FAILED), bad[0])
    advice = f"\n  what to do: {first.advice}" if first.advice else ""
    of = counted(first.side, len(found))
    what = f"{len(bad):,} of {of} not delivered, {first.unit} for one: {first.why}"
    raise (AirflowException if first.what == FAILED else AirflowFailException)(what + advice)
