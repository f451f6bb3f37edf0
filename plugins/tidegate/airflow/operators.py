"""The tasks. Thin: each opens the pipeline's context, makes one call into the workflow and tells Airflow the outcome.

Nothing that reads Kafka, storage, Hive or the ledger is imported before a task executes: every scheduler and worker
parses this module.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.models.baseoperator import BaseOperator
from airflow.utils import timezone

from tidegate.airflow import datasets, last_words
from tidegate.airflow.links import BoardLink
from tidegate.airflow.timetable import to_ms
from tidegate.core.base.errors import GivesWay, SpecError, StillClosing, TidegateError
from tidegate.core.base.instants import iso
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.cut import window_end, window_start
from tidegate.core.window.states import WindowKey

if TYPE_CHECKING:
    from airflow.utils.context import Context

    from tidegate.airflow.launcher import AirflowSparkLauncher
    from tidegate.workflow.base.context import Context as PipelineContext
    from tidegate.workflow.base.context import Published

# Airflow's decorators hand every operator `default_args` and its own arguments (task_id, pool, ...) by keyword, so each
# __init__ below has to take and pass on what it doesn't know.

TURN_S, LOOK_S = 180.0, 3.0
"""How long an ingest run that nobody would begin again waits for a redrive to be planned, and how often it looks."""
CERTIFICATE = "certificate"
"""XCom key of what `ready` waits for, and of what the generation in force rests on: for people, nothing reads it."""


class PipelineOperator(BaseOperator):
    """A task of one pipeline. `pipeline` is the compiled spec that the DAG file was parsed with."""

    template_fields: Sequence[str] = ()
    operator_extra_links = (BoardLink(),)
    runs_spark: ClassVar[bool] = False
    of: ClassVar[str] = ""
    """What a run is for: a batch, a window, or nothing of its own."""

    def __init__(self, *, pipeline: Pipeline, **operator_args: Any) -> None:
        super().__init__(do_xcom_push=False, **operator_args)
        self.pipeline = pipeline
        self.about = ""
        self._launcher: AirflowSparkLauncher | None = None
        self._context: Context | None = None

    @property
    def begun_here(self) -> bool:
        """Whether this process has run it."""
        return self._context is not None

    def execute(self, context: Context) -> None:
        """Do the task's work. Raises AirflowFailException for what no retry can mend."""
        self._begin(context)
        self.prepare()
        self.perform(context)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Airflow's way back from a trigger."""
        self._begin(context)
        return super().resume_execution(next_method, next_kwargs, context)

    def _begin(self, context: Context) -> None:
        """From here on the try ends with a line that says what it was working on, and what to do."""
        self._context = context
        if self.of == "window":
            self.about = f"window {iso(to_ms(context['data_interval_start']))}"
        last_words.arm(self)

    def perform(self, context: Context) -> None:
        """The work alone, as it is gone on with after a wait in the triggerer."""
        with in_airflow_terms():
            ctx = self._open(context)
            try:
                if self.of == "batch":
                    batch = ctx.ledger.batches.bound(self.pipeline.name, run_key(context))
                    self.about = "" if batch is None else f"batch {batch}"
                self.work(ctx, context)
            finally:
                ctx.ledger.close()

    def post_execute(self, context: Context, result: Any = None) -> None:
        """What follows gets its turn, also where this task was cleared alone after it had failed."""
        super().post_execute(context, result)
        if self.downstream_task_ids:
            from airflow.utils.session import create_session

            from tidegate.airflow.clear import leftovers

            with create_session() as session:
                for task_id in leftovers.free(context["ti"], self.downstream_task_ids, session):
                    self.log.info("%s runs after this task: it was given up when this one had failed", task_id)

    def prepare(self) -> None:
        """What needs Airflow's own database only, and is done whatever else is down."""

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """The one call into the workflow."""
        raise NotImplementedError

    def on_kill(self) -> None:
        """End the Spark job; one that survives can only write into its own attempt's directory."""
        if self._launcher is not None:
            self._launcher.kill()
        if self._context is not None:
            self.log.error("%s", last_words.terminated(self._context, self.about))

    def _open(self, context: Context) -> PipelineContext:
        from tidegate.adapters.airflow_connections import airflow_connection
        from tidegate.wiring import context_for, job_secrets

        if self.runs_spark:
            from tidegate.airflow.launcher import AirflowSparkLauncher

            secrets = partial(job_secrets, self.pipeline, airflow_connection)
            self._launcher = AirflowSparkLauncher(self.pipeline, secrets)
        return context_for(
            self.pipeline, self.log.info, self._launcher, actor=actor_of(context), lookup=airflow_connection
        )


class PlanOperator(PipelineOperator):
    """Decide which offsets this run reads, and write them to the ledger; skips the rest when there is nothing."""

    of = "batch"

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """Raises AirflowSkipException when nothing is new, or a redrive goes first."""
        from tidegate.airflow import switches

        switches.settle(ctx, [f"{self.pipeline.name}.ingest"], self.log)
        batch = self._planned(ctx, run_key(context))
        if batch is None:  # a skip leaves no mark that a later Clear would trip over, as a ShortCircuit does
            raise AirflowSkipException("nothing to read: no new records, and no window waits for a watermark")
        self.log.info("this run is batch %s", batch)

    def _planned(self, ctx: PipelineContext, run: str) -> int | None:
        """Without a schedule nobody would begin another run: there it waits for the redrive to take its turn."""
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
        """One attempt; what a former one has finished is not done again."""
        from tidegate.workflow.batch import ingest

        ingest.write(ctx, run_key(context))


class LandOperator(PipelineOperator):
    """Land the batch by one rename; with a backlog left, trigger the next run."""

    of = "batch"
    runs_spark = True  # only where the ledger forgot what the write task had done

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """The run that is triggered is named by this run's batch, so a cleared task triggers nothing twice."""
        from tidegate.airflow.runs import trigger_after_backlog
        from tidegate.workflow.batch import ingest

        run = run_key(context)
        if not ingest.land(ctx, run):
            return
        batch = ctx.ledger.batches.bound(self.pipeline.name, run)
        if batch is not None:
            self.log.info(trigger_after_backlog(self.dag_id, batch, self.pipeline.ingest.schedule is not None))


class PublishOperator(PipelineOperator):
    """Close the window, assemble and publish it; a window that is published is verified, and mended if need be."""

    of = "window"
    runs_spark = True

    def __init__(self, *, pipeline: Pipeline, poll_s: float = 30.0, **operator_args: Any) -> None:
        super().__init__(pipeline=pipeline, outlets=[datasets.dataset_of(pipeline)], **operator_args)
        self.poll_s = poll_s

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """A dataset event tells other DAGs of a new generation, and of nothing else.

        Raises TaskDeferred while a batch that was planned before the close has not landed: that may take longer than
        retries last."""
        from tidegate.airflow.sensors import defer_until_closed
        from tidegate.workflow.publish import archive

        window = window_of(self.pipeline, context)
        try:
            published = archive.publish(ctx, window)
        except StillClosing as e:
            self.log.info(str(e))
            defer_until_closed(self, window)
        report(self, ctx, published, context)

    def resume(self, context: Context, event: dict[str, Any]) -> None:
        """After the trigger: close and publish, or fail with the batch that stands in the way."""
        if event["outcome"] == "failed":
            raise AirflowFailException(event["text"])
        if event["outcome"] != "ready":
            raise AirflowException(f"not published, and the time of this try is up: {event['text']}")
        self.perform(context)


class ReplayOperator(PipelineOperator):
    """Rebuild the run's window from Kafka as a new generation; unchanged content publishes nothing. Or what the run's
    conf asks for: other windows, a reopening, a rollback."""

    of = "window"
    runs_spark = True

    def __init__(self, *, pipeline: Pipeline, **operator_args: Any) -> None:
        super().__init__(pipeline=pipeline, outlets=[datasets.dataset_of(pipeline)], **operator_args)

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """The old generation stays readable until the swap."""
        from tidegate.airflow import replay_conf

        replay_conf.carry_out(self, ctx, context)


class MaintainOperator(PipelineOperator):
    """Duties that no other run does: stranded backfill runs, missing archive runs, late rows that waited long enough,
    what batches and windows left."""

    runs_spark = True  # only where a window that is reopened is large

    def __init__(self, *, pipeline: Pipeline, dag_ids: Sequence[str], archive_dag_id: str, **operator_args: Any):
        super().__init__(pipeline=pipeline, **operator_args)
        self.dag_ids, self.archive_dag_id = tuple(dag_ids), archive_dag_id
        self._catches_up = False

    def post_execute(self, context: Context, result: Any = None) -> None:
        """`catch_up` is skipped here, without a process, where there is nothing for it."""
        super().post_execute(context, result)
        if not self._catches_up:
            from tidegate.airflow.clear import leftovers

            leftovers.skip(context["ti"], self.downstream_task_ids)

    def prepare(self) -> None:
        """Runs that a killed backfill left behind."""
        from airflow.utils.session import create_session

        from tidegate.airflow.backfill.rerunnable import sweep
        from tidegate.airflow.clear import leftovers

        with create_session() as session:
            done = sweep(self.dag_ids, session) + leftovers.revive(self.dag_ids, session)
            done += leftovers.hand_on([self.archive_dag_id], session)
            for line in done + leftovers.start(self.archive_dag_id, session):
                self.log.info(line)

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """Archive runs before other duties: a window that waits is what users notice."""
        from airflow.utils.session import create_session

        from tidegate.airflow import gauges, messages, switches
        from tidegate.airflow.catchup import part_of, run_of
        from tidegate.airflow.runs import create_missing_runs, without_run
        from tidegate.core.publish import catchup
        from tidegate.workflow.maintain import reconcile
        from tidegate.workflow.tell import announcements

        switches.settle(ctx, self.dag_ids, self.log)
        looked_ms = to_ms(timezone.utcnow())
        due = reconcile.due(ctx)
        with create_session() as session:
            many_ready = without_run(self.archive_dag_id, due, looked_ms, session)
            self._catches_up = catchup.worth_it(many_ready, part_of(context), run_of(context))
            filled = create_missing_runs(self.archive_dag_id, due, looked_ms, session, create=not self._catches_up)
        if filled.seen is not None and filled.seen.paused and due:
            self.log.info("%s is paused: windows that are ready wait until it is unpaused", self.archive_dag_id)
        for run_id in filled.created:
            self.log.info("%s: created %s, which its schedule had gone past", self.archive_dag_id, run_id)
        for run_id in filled.started:
            self.log.info("%s: started %s, which was queued behind runs that wait", self.archive_dag_id, run_id)
        try:
            for line in reconcile.maintain(ctx, filled.seen, self._at_work):
                self.log.info(line)
        except TidegateError:  # then `catch_up` does not run
            if self._catches_up:
                with create_session() as session:
                    create_missing_runs(self.archive_dag_id, due, looked_ms, session)
            raise
        finally:  # also where something waits for a human: other DAGs wait for these
            for notice in announcements.due(ctx):
                self.log.info(datasets.announce(ctx, notice, context["ti"]))
            gauges.tell(ctx, context["ti"], self.log)
            messages.tell(ctx, self.log)

    def _at_work(self, windows: Sequence[WindowKey]) -> set[int]:
        from airflow.utils.session import create_session

        from tidegate.airflow.replay_runs import at_work

        with create_session() as session:
            return at_work(self.pipeline.name, windows, session)


class CatchUpOperator(PipelineOperator):
    """Publish many windows that are ready and have no run, in this one process; each gets a run that has succeeded."""

    runs_spark = True

    def __init__(self, *, pipeline: Pipeline, archive_dag_id: str, **operator_args: Any) -> None:
        super().__init__(pipeline=pipeline, **operator_args)
        self.archive_dag_id = archive_dag_id

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """At most `core.catchup.MOST` windows or LONGEST_S seconds; then the next maintenance run goes on."""
        from tidegate.airflow import catchup

        catchup.carry_out(self, ctx, context)


@contextmanager
def in_airflow_terms() -> Iterator[None]:
    """TidegateError as what Airflow acts on; its text, with the advice, becomes the last line of the traceback."""
    try:
        yield
    except TidegateError as e:
        if e.retry:
            raise AirflowException(str(e)) from None
        raise AirflowFailException(str(e)) from None


def run_key(context: Context) -> str:
    """What binds an ingest run to its batch."""
    run = context["dag_run"]
    return f"{run.dag_id}/{run.run_id}"


def actor_of(context: Context) -> str:
    """Who acts, for the ledger's event log."""
    ti = context["ti"]
    return f"airflow {ti.dag_id}/{ti.run_id}/{ti.task_id} try {ti.try_number}"


def window_of(pipeline: Pipeline, context: Context) -> WindowKey:
    """The run's window. Raises SpecError when its data interval is not one, as after a change of `windows.size`."""
    start, end = to_ms(context["data_interval_start"]), to_ms(context["data_interval_end"])
    if start != window_start(start, pipeline.windows) or end != window_end(start, pipeline.windows):
        interval = f"{context['data_interval_start']} to {context['data_interval_end']}"
        raise SpecError(
            f"{pipeline.name}: this run's data interval, {interval}, is not a window of the pipeline",
            advice="its windows have changed since the run was made: trigger or backfill the window anew",
        )
    return WindowKey(start, end)


def report(task: BaseOperator, ctx: PipelineContext, published: Published, context: Context) -> None:
    """Say what is in force now, to the log and, if it is new, to the DAGs that are scheduled by the table."""
    from tidegate.workflow.look import certificates

    task.outlets = []  # Airflow would add an event of its own, for an unchanged window too
    what = "published" if published.new else "unchanged"
    task.log.info(
        "%s: generation %s, %s rows, %s", what, published.generation, f"{published.rows:,}", published.location
    )
    if published.new:
        _announce(task, ctx, published, context)
    context["ti"].xcom_push(CERTIFICATE, certificates.published(ctx, published.window, published.generation))


def _announce(task: BaseOperator, ctx: PipelineContext, published: Published, context: Context) -> None:
    from tidegate.workflow.tell import announcements

    notice = announcements.notice(ctx, published.window, published.generation)
    if notice is None:
        task.log.info("another generation is in force by now, and told of by whoever published it")
    else:
        task.log.info(datasets.announce(ctx, notice, context["ti"]))
