"""Base of a pipeline's tasks: context, last line of a failure, report of a publication."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.models.baseoperator import BaseOperator
from airflow.utils.session import create_session

from tidegate.adapters.airflow_connections import airflow_connection
from tidegate.airflow import datasets, failures, last_line
from tidegate.airflow.clear import leftovers
from tidegate.airflow.links import BoardLink
from tidegate.airflow.timetable import to_ms
from tidegate.core.base.errors import SpecError, TidegateError
from tidegate.core.base.instants import iso
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.cut import window_end, window_start
from tidegate.core.window.states import WindowKey

if TYPE_CHECKING:
    from airflow.utils.context import Context

    from tidegate.airflow.launcher import AirflowSparkLauncher
    from tidegate.workflow.base.context import Context as PipelineContext
    from tidegate.workflow.base.context import Published


CERTIFICATE = "certificate"
"""XCom key of the certificates of `ready` and `publish`, for people; no code reads it."""


class PipelineOperator(BaseOperator):
    """A task of one pipeline. `pipeline` is the compiled spec that the DAG file was parsed with."""

    template_fields: Sequence[str] = ()
    operator_extra_links = (BoardLink(),)
    runs_spark: ClassVar[bool] = False
    publishes: ClassVar[bool] = False
    """Whether the table's dataset is an outlet of its."""
    of: ClassVar[str] = ""
    """Subject of a run: a batch, a window, or none."""

    def __init__(self, *, pipeline: Pipeline, **operator_args: Any) -> None:
        if self.publishes:
            operator_args["outlets"] = [datasets.dataset_of(pipeline)]
        super().__init__(do_xcom_push=False, **operator_args)
        self.pipeline = pipeline
        self.about = ""
        self._launcher: AirflowSparkLauncher | None = None
        self._context: Context | None = None

    @property
    def begun_here(self) -> bool:
        return self._context is not None

    def execute(self, context: Context) -> None:
        """Do the task's work. Raises AirflowFailException for errors that no retry cures."""
        self._begin(context)
        self.prepare()
        self.perform(context)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Go on after a trigger, called by Airflow."""
        self._begin(context)
        return super().resume_execution(next_method, next_kwargs, context)

    def _begin(self, context: Context) -> None:
        """Make a failure of the try end with a line that names its work and what to do."""
        self._context = context
        if self.of == "window":
            self.about = f"window {iso(to_ms(context['data_interval_start']))}"
        last_line.arm(self)

    def perform(self, context: Context) -> None:
        """Do the work alone, as after a wait in the triggerer."""
        with in_airflow_terms():
            ctx = self._open(context)
            try:
                if self.of == "batch":
                    batch = ctx.ledger.batches.bound(self.pipeline.name, run_key(context))
                    self.about = "" if batch is None else f"batch {batch}"
                self.work(ctx, context)
            except AirflowSkipException:
                self._ended_well(ctx, context)
                raise
            else:
                self._ended_well(ctx, context)
            finally:
                ctx.ledger.close()

    def _ended_well(self, ctx: PipelineContext, context: Context) -> None:
        if self.of != "window":
            failures.over(ctx.ledger, self.pipeline.name, context)

    def post_execute(self, context: Context, result: Any = None) -> None:
        """Let followers run, also where this task was cleared alone after it had failed."""
        super().post_execute(context, result)
        if self.downstream_task_ids:
            with create_session() as session:
                for task_id in leftovers.free(context["ti"], self.downstream_task_ids, session):
                    self.log.info("%s runs after this task: it was given up when this one had failed", task_id)

    def prepare(self) -> None:
        """Do what needs Airflow's own database only, whatever else is down."""

    def work(self, ctx: PipelineContext, context: Context) -> None:
        """Make the one call into the workflow."""
        raise NotImplementedError

    def on_kill(self) -> None:
        """End the Spark job; one that survives can only write into its own attempt's directory."""
        if self._launcher is not None:
            self._launcher.kill()
        if self._context is not None:
            self.log.error("%s", last_line.terminated(self._context, self.about))

    def _open(self, context: Context) -> PipelineContext:
        from tidegate.wiring import context_for, job_secrets

        if self.runs_spark:
            from tidegate.airflow.launcher import AirflowSparkLauncher

            secrets = partial(job_secrets, self.pipeline, airflow_connection)
            self._launcher = AirflowSparkLauncher(self.pipeline, secrets)
        return context_for(
            self.pipeline, self.log.info, self._launcher, actor=actor_of(context), lookup=airflow_connection
        )


@contextmanager
def in_airflow_terms() -> Iterator[None]:
    """Raise TidegateError as what Airflow acts on; its text, with the advice, ends the traceback."""
    try:
        yield
    except TidegateError as e:
        if e.retry:
            raise AirflowException(str(e)) from None
        raise AirflowFailException(str(e)) from None


def run_key(context: Context) -> str:
    """Key that binds an ingest run to its batch."""
    run = context["dag_run"]
    return f"{run.dag_id}/{run.run_id}"


def actor_of(context: Context) -> str:
    """The task's name in the ledger's event log."""
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
        task.log.info("another generation is in force by now; its own publication announces it")
    else:
        task.log.info(datasets.announce(ctx, notice, context["ti"]))
