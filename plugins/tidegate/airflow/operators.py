"""The tasks. Thin: each opens the pipeline's context, makes one call into the workflow and tells Airflow the outcome.

Nothing that reads Kafka, storage, Hive or the ledger is imported before a task executes: every scheduler and worker
parses this module.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.utils import timezone
from airflow.utils.session import create_session

from tidegate.adapters.airflow_connections import airflow_connection
from tidegate.airflow import catchup, datasets, messages, replay_conf, replay_runs, runs, switches
from tidegate.airflow.backfill import stranded_runs
from tidegate.airflow.clear import leftovers
from tidegate.airflow.sensors import defer_until_closed
from tidegate.airflow.task import PipelineOperator, report, run_key, window_of
from tidegate.airflow.timetable import to_ms
from tidegate.core.base.errors import GivesWay, NotReady, StillClosing, TidegateError
from tidegate.core.publish.catchup import worth_it
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.states import WindowKey

if TYPE_CHECKING:
    from airflow.utils.context import Context

    from tidegate.core.window.due import Due, RunsSeen
    from tidegate.workflow.base.context import Context as PipelineContext

# Airflow's decorators hand every operator `default_args` and its own arguments (task_id, pool, ...) by keyword, so each
# __init__ below has to take and pass on what it doesn't know.

LONGEST_APPLY_S = 1800.0
"""Seconds after which an apply task begins no further merge, so that its run ends and its log can be read."""
TURN_S, LOOK_S = 180.0, 3.0
"""Seconds that an ingest run without a schedule waits for a redrive to be planned, and between its looks."""


class PlanOperator(PipelineOperator):
    """Decide which offsets this run reads, and write them to the ledger; skip the rest without new records."""

    of = "batch"

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """Plan the batch. Raises AirflowSkipException when nothing is new, or a redrive goes first."""
        switches.settle(ctx, [f"{self.pipeline.name}.ingest"], self.log)
        batch = self._planned(ctx, run_key(context))
        if batch is None:  # a skip leaves no mark that a later Clear would trip over, as a ShortCircuit does
            raise AirflowSkipException("nothing to read: no new records, and no window waits for a watermark")
        self.log.info("this run is batch %s", batch)

    def _planned(self, ctx: PipelineContext, run: str) -> int | None:
        """Plan; without a schedule, which would begin another run, wait for a redrive to take its turn."""
        from tidegate.workflow.batch import ingest

        until = time.monotonic() + (TURN_S if self.pipeline.ingest.schedule is None else 0)
        while True:
            try:
                return ingest.plan(ctx, run)
            except GivesWay as e:
                if time.monotonic() >= until:
                    raise AirflowSkipException(f"{e.args[0]}; {e.advice}") from None
                self.log.info("waiting: %s", e.args[0])
                time.sleep(LOOK_S)


class WriteOperator(PipelineOperator):
    """Read exactly the planned offsets with Spark and write them as an attempt of the batch."""

    of = "batch"
    runs_spark = True

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """Write one attempt, unless a former one has finished."""
        from tidegate.workflow.batch import ingest

        ingest.write(ctx, run_key(context))


class LandOperator(PipelineOperator):
    """Land the batch by one rename; trigger the merge of a mirror, and with a backlog left the next run."""

    of = "batch"
    runs_spark = True  # only where the ledger forgot what the write task had done

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """Land it. The run that it triggers is named by this run's batch, so that a cleared task triggers nothing
        twice."""
        from tidegate.workflow.batch import ingest

        run = run_key(context)
        backlog, merges = ingest.land(ctx, run), not self.pipeline.windows.closes
        if not (backlog or merges):
            return
        batch = ctx.ledger.batches.bound(self.pipeline.name, run)
        if batch is not None and merges:
            self.log.info(runs.trigger_apply(f"{self.pipeline.name}.apply", f"landed_batch_{batch}"))
        if batch is not None and backlog:
            self.log.info(runs.trigger_after_backlog(self.dag_id, batch, self.pipeline.ingest.schedule is not None))


class PublishOperator(PipelineOperator):
    """Close the window, assemble and publish it; verify a published window, and repair it if need be."""

    of = "window"
    runs_spark = publishes = True

    def __init__(self, *, pipeline: Pipeline, poll_s: float = 30.0, **operator_args: Any) -> None:
        super().__init__(pipeline=pipeline, **operator_args)
        self.poll_s = poll_s

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """Publish; a dataset event tells other DAGs of a new generation only.

        Raises TaskDeferred while a batch that was planned before the close has not landed: that may take longer than
        retries last."""
        from tidegate.workflow.publish import archive

        window = window_of(self.pipeline, context)
        try:
            published = archive.publish(ctx, window)
        except StillClosing as e:
            self.log.info(str(e))
            defer_until_closed(self, self.poll_s, window)
        report(self, ctx, published, context)

    def resume(self, context: Context, event: dict[str, Any]) -> None:
        """After the trigger: close and publish, or fail with the batch that stands in the way."""
        if event["outcome"] == "failed":
            raise AirflowFailException(event["text"])
        if event["outcome"] != "ready":
            raise AirflowException(f"not published, and the time of this try is up: {event['text']}")
        self.perform(context)


class ReplayOperator(PipelineOperator):
    """Rebuild the run's window from Kafka as a new generation; unchanged content publishes nothing. Or do what the
    run's conf asks for: other windows, a reopening, a rollback."""

    of = "window"
    runs_spark = publishes = True

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """Replay; the old generation stays readable until the swap."""
        replay_conf.carry_out(self, ctx, context)


class ApplyOperator(PipelineOperator):
    """Merge every batch that has landed into the keyed table; skip where it has all of them.

    A cleared task looks at the table first: what has been merged is left alone."""

    runs_spark = publishes = True

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """Merge for LONGEST_APPLY_S seconds; a run that it triggers goes on.

        Raises AirflowSkipException where nothing was merged, so that no dataset event is written; not in a further try:
        one that died behind its commit has told nobody, and an event that comes twice does no harm. Nor is one written
        while readers see nothing yet."""
        from tidegate.core.tell import announcement
        from tidegate.workflow.apply.apply import apply

        until = time.monotonic() + LONGEST_APPLY_S
        again = bool((context["dag_run"].conf or {}).get("again"))
        done = apply(ctx, go_on=lambda: time.monotonic() < until, again=again)
        if done.left:
            self.log.info(runs.trigger_apply(f"{self.pipeline.name}.apply", f"after_batch_{done.told.upto}"))
        if not done.merges and context["ti"].try_number <= 1:
            raise AirflowSkipException(f"nothing to merge: the table has all that landed, up to batch {done.told.upto}")
        if done.told.copied.hidden:
            self.outlets = []  # nothing has changed for readers, who see an empty table
        else:
            extra = announcement.of_mirror(self.pipeline, done.told)
            context["outlet_events"][datasets.dataset_of(self.pipeline)].extra = extra


class CopyOperator(PipelineOperator):
    """Read the chunks of a mirror's source table that are left, and trigger their merge, but by days; skip where all is
    read.

    A cleared task reads what is left: a chunk that was read stays read."""

    runs_spark = True

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """Read for LONGEST_APPLY_S seconds; the next run goes on.

        Raises AirflowSkipException where nothing was left to read, or no event has been merged yet (S4);
        AirflowFailException behind the last of several servers with those that gave no answer."""
        from tidegate.wiring import open_copy
        from tidegate.workflow.copy.each import copy_each

        until, opened = time.monotonic() + LONGEST_APPLY_S, partial(open_copy, self.pipeline, airflow_connection)
        try:
            found = list(copy_each(ctx, opened, lambda: time.monotonic() < until))
        except NotReady as e:
            raise AirflowSkipException(str(e)) from None
        read = [one.read for one in found if one.read.chunks]
        run = context["dag_run"].run_id
        if read and ctx.keyed is not None:  # a day takes a copy once it is whole
            self.log.info(runs.trigger_apply(f"{self.pipeline.name}.apply", f"copied_by_{run}"))
        if any(one.left for one in read):
            self.log.info(runs.trigger(self.dag_id, f"after_{run}"[:250]))
        words = "\n".join(one.words for one in found) or "the newest copy of each server is whole"
        if any(one.error is not None and not isinstance(one.error, NotReady) for one in found):
            raise AirflowFailException(words)
        if not read:
            raise AirflowSkipException(f"nothing to read: {words}")


class CompareOperator(PipelineOperator):
    """Compare a mirror with the table of its source, and fail where a key differs for certain; skip while a copy is
    under way.

    A cleared task compares again; what one that died had read is used."""

    runs_spark = True

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """Compare, and wait LONGEST_APPLY_S seconds for the mirror to catch up with each server. Raises
        AirflowFailException with the first keys that differ, and with servers of several that gave no answer."""
        from tidegate.wiring import open_copy
        from tidegate.workflow.copy.compare import compare_each, in_words, looks_for
        from tidegate.workflow.copy.narrow import next_keys

        opened = partial(open_copy, self.pipeline, airflow_connection)
        try:
            waits = partial(looks_for, LONGEST_APPLY_S, ctx.say)
            found = compare_each(ctx, opened, waits, keys=partial(next_keys, ctx))
        except NotReady as e:
            raise AirflowSkipException(str(e)) from None
        words = "\n".join(in_words(self.pipeline.name, one) for one in found)
        if all(one.not_yet for one in found):
            raise AirflowSkipException(words)
        if any((one.differ and one.exact) or (one.unanswered and not one.not_yet) for one in found):
            raise AirflowFailException(words)
        self.log.info(words)


class MaintainOperator(PipelineOperator):
    """Do what no other run does: settle stranded backfill runs, create missing archive runs, reopen windows for late
    rows, clean up after batches and windows."""

    runs_spark = True  # only where a window that is reopened is large

    def __init__(self, *, pipeline: Pipeline, dag_ids: Sequence[str], archive_dag_id: str | None, **operator_args: Any):
        """`archive_dag_id`: None for a pipeline without windows, which none is created for."""
        super().__init__(pipeline=pipeline, **operator_args)
        self.dag_ids, self.archive_dag_id = tuple(dag_ids), archive_dag_id
        self._catches_up = False

    def post_execute(self, context: Context, result: Any = None) -> None:
        """Skip `catch_up` without a process where it has nothing to do."""
        super().post_execute(context, result)
        if not self._catches_up:
            leftovers.skip(context["ti"], self.downstream_task_ids)

    def prepare(self) -> None:
        """Settle runs that a killed backfill or a Clear left behind."""
        with create_session() as session:
            done = stranded_runs.sweep(self.dag_ids, session) + leftovers.revive(self.dag_ids, session)
            if self.archive_dag_id is not None:
                done += leftovers.hand_on([self.archive_dag_id], session)
                done += leftovers.start(self.archive_dag_id, session)
            for line in done:
                self.log.info(line)

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """Create archive runs before other duties: users notice a window that waits."""
        from tidegate.airflow import gauges
        from tidegate.workflow.maintain import reconcile
        from tidegate.workflow.tell import announcements

        switches.settle(ctx, self.dag_ids, self.log)
        looked_ms, due = to_ms(timezone.utcnow()), reconcile.due(ctx)
        seen = None if self.archive_dag_id is None else self._fill(self.archive_dag_id, due, looked_ms, context)
        try:
            for line in reconcile.maintain(ctx, seen, self._at_work):
                self.log.info(line)
        except TidegateError:  # then `catch_up` does not run
            if self._catches_up and self.archive_dag_id is not None:
                self._create(self.archive_dag_id, due, looked_ms)
            raise
        finally:  # also after an alarm: other DAGs wait for these
            for notice in announcements.due(ctx):
                self.log.info(datasets.announce(ctx, notice, context["ti"]))
            gauges.tell(ctx, context["ti"], self.log)
            messages.tell(ctx, self.log)

    def _fill(self, dag_id: str, due: Due, looked_ms: int, context: Context) -> RunsSeen | None:
        """Create runs of windows that the schedule has gone past, or leave them to `catch_up`."""
        with create_session() as session:
            many_ready = runs.without_run(dag_id, due, looked_ms, session)
            self._catches_up = worth_it(many_ready, catchup.part_of(context), catchup.run_of(context))
        filled = self._create(dag_id, due, looked_ms, not self._catches_up)
        if filled.seen is not None and filled.seen.paused and due:
            self.log.info("%s is paused: windows that are ready wait until it is unpaused", dag_id)
        for run_id in filled.created:
            self.log.info("%s: created %s, which its schedule had gone past", dag_id, run_id)
        for run_id in filled.started:
            self.log.info("%s: started %s, which was queued behind runs that wait", dag_id, run_id)
        return filled.seen

    def _create(self, dag_id: str, due: Due, looked_ms: int, create: bool = True) -> runs.Filled:
        """Wait for the scheduler as a catch-up does: the next maintenance comes in minutes."""
        with runs.unless_held(dag_id) as (session, held):
            return runs.create_missing_runs(dag_id, due, looked_ms, session, create=create, held=held)

    def _at_work(self, windows: Sequence[WindowKey]) -> set[int]:
        with create_session() as session:
            return replay_runs.at_work(self.pipeline.name, windows, session)


class CatchUpOperator(PipelineOperator):
    """Publish many ready windows without a run in one process; each gets a run that has succeeded."""

    runs_spark = True

    def __init__(self, *, pipeline: Pipeline, archive_dag_id: str, **operator_args: Any) -> None:
        super().__init__(pipeline=pipeline, **operator_args)
        self.archive_dag_id = archive_dag_id

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """Publish at most `core.publish.catchup.MOST` windows for LONGEST_S seconds; the next maintenance run goes
        on."""
        catchup.carry_out(self, self.archive_dag_id, ctx, context)
