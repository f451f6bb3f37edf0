"""From a folder of pipeline YAMLs to Airflow DAGs, a few for each pipeline. Nothing but the YAMLs is read.

<name>.ingest    plan >> write >> land     by `ingest.schedule`, one run at a time
<name>.archive   ready >> publish          one run for each window
<name>.replay    replay                    by backfill or by hand
<name>.apply     apply                     of a mirror: after each landing, and every ten minutes
<name>.copy      copy                      of a mirror with the section copy: until all is read
<name>.compare   compare                   of one that is compared with its source, by `copy.compare`
<name>.deliver   one for each      with the list deliver: after each publication, and every ten minutes
<name>.maintain  maintain >> catch_up      every ten minutes; without windows nothing is caught up
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.models.dag import DAG
from airflow.timetables.base import Timetable
from airflow.timetables.datasets import DatasetOrTimeSchedule
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow.utils.dag_parsing_context import get_parsing_context

from tidegate.adapters.expressions import ExpressionChecker, Lenient, available
from tidegate.airflow import datasets, docs, messages, weights
from tidegate.airflow.backfill import airflow_command
from tidegate.airflow.backfill.stranded_runs import to_scheduled
from tidegate.airflow.deliveries import DeliverOperator
from tidegate.airflow.operators import (
    ApplyOperator,
    CatchUpOperator,
    CompareOperator,
    CopyOperator,
    LandOperator,
    MaintainOperator,
    PlanOperator,
    PublishOperator,
    ReplayOperator,
    WriteOperator,
)
from tidegate.airflow.sensors import WindowReadySensor
from tidegate.airflow.task import PipelineOperator
from tidegate.airflow.timetable import BackfillOnlyTimetable, DeliveryTimetable, WindowTimetable, from_ms
from tidegate.core.base.errors import SpecError
from tidegate.core.spec.pipeline import Pipeline
from tidegate.kinds import dags_of
from tidegate.settings import Settings, load
from tidegate.spec import loader
from tidegate.spec.expressions import Judge

SINCE = datetime(2000, 1, 1, tzinfo=UTC)
"""start_date of DAGs without windows; with catchup=False any past date will do."""
MAINTAIN_SCHEDULE = "*/10 * * * *"
APPLY_SCHEDULE = "*/10 * * * *"
"""For what no landing has triggered; a run that finds nothing to merge is skipped within a second or two."""
RETRY_DELAY, LONGEST_RETRY_DELAY = timedelta(seconds=15), timedelta(minutes=10)
MAINTAIN_RETRIES = 5
"""Enough to outlast five minutes without a server (`core.base.patience`), never longer than to its next run."""


def build_dags(settings: Settings | None = None) -> dict[str, DAG]:
    """DAGs by id, for a DAG file's globals. For a task that is about to run: its own DAG only.

    Raises SpecError when there is no pipelines folder.
    """
    settings = settings or load()
    asked = get_parsing_context().dag_id
    if asked is not None:
        return _one(asked, settings)
    dags: dict[str, DAG] = {}
    with _judging() as judge:
        for found in loader.load_folder(settings.pipelines_folder, judge=judge):
            dags |= _dags_of(found, settings)
    return dags


@contextmanager
def _judging() -> Iterator[Judge | None]:
    """A judge of expressions, which keeps its answers; None without DuckDB: then the worker checks them."""
    if not available():
        yield None
        return
    with ExpressionChecker() as checker:
        yield Lenient(checker)


def _one(dag_id: str, settings: Settings) -> dict[str, DAG]:
    name, _, kind = dag_id.rpartition(".")
    path = settings.pipelines_folder / f"{name}{loader.SUFFIX}"
    if kind not in _KINDS or not path.is_file():
        return {}
    text = path.read_text("utf-8-sig", errors="replace")
    try:
        with _judging() as judge:
            pipeline, error = loader.load_file(path, judge=judge), None
    except SpecError as e:
        pipeline, error = None, e
    found = loader.Loaded(name, path, pipeline, error, text)
    return _dags_of(found, settings, {kind: _KINDS[kind]})


def _dags_of(
    found: loader.Loaded, settings: Settings, kinds: Mapping[str, Callable[..., DAG]] | None = None
) -> dict[str, DAG]:
    if found.pipeline is None:
        return _broken(found, found.error or SpecError("cannot be loaded", where=str(found.path)))
    try:
        wanted = dags_of(found.pipeline)
        dags = [build(found.pipeline, found, settings) for k, build in (kinds or _KINDS).items() if k in wanted]
    except Exception as e:
        # a pipeline that Airflow refuses must not take the file's other DAGs with it
        return _broken(found, e)
    return {dag.dag_id: dag for dag in dags}


def _broken(found: loader.Loaded, error: Exception) -> dict[str, DAG]:
    dag = PipelineDag(f"{found.name}.broken", found, error=error, schedule=None, start_date=SINCE)
    return {dag.dag_id: dag}


class PipelineDag(DAG):
    """DAG whose errors are its own: the UI lists them under its YAML, and the file's other DAGs go on.

    Airflow keeps one import error for a file name and stops every DAG of that file. `validate` is called before a DAG
    is taken into a bag, and the error is filed under what `fileloc` says when it raises.
    """

    def __init__(
        self,
        dag_id: str,
        found: loader.Loaded,
        *,
        error: Exception | None = None,
        no_backfill: str = "",
        **dag_args: Any,
    ) -> None:
        """`no_backfill`: why a range of dates means nothing to it, and what does instead."""
        super().__init__(
            dag_id,
            on_success_callback=to_scheduled,
            on_failure_callback=to_scheduled,
            auto_register=False,  # else a pipeline whose second DAG is refused would leave its first one behind
            **dag_args,
        )
        # The callbacks matter inside `airflow dags backfill`, which has this object and calls them itself. Announced to
        # the scheduler they would make the DAG processor parse the whole folder at the end of every run.
        self.has_on_success_callback = self.has_on_failure_callback = False
        self._file_name, self._error, self._no_backfill = found.path.name, error, no_backfill
        self._backfilling = False

    def run(self, start_date: Any = None, end_date: Any = None, **options: Any) -> None:
        """Run a range, for `airflow dags backfill`. Raises AirflowException unless every run of it succeeds; SystemExit
        with a line that says why not, where a range means nothing."""
        if self._no_backfill:
            raise SystemExit(self._no_backfill)
        if start_date is None or end_date is None:
            super().run(start_date, end_date, **options)
            return
        with airflow_command.backfilling(self, start_date, end_date) as found:
            self._backfilling = True
            for first, last in found.parts(options.get("run_backwards", False)):
                super().run(first, last, **options)

    def get_num_active_runs(self, *args: Any, **options: Any) -> int:
        """Number to compare with max_active_runs; 0 within a backfill, whose parts have room."""
        return 0 if self._backfilling else super().get_num_active_runs(*args, **options)

    def validate(self) -> None:
        """Raises the error of a broken pipeline."""
        try:
            if self._error is not None:
                raise self._error
            super().validate()
        except Exception:
            self.fileloc = f"{self.fileloc}:{self._file_name}"
            raise


def _dag(
    kind: str,
    pipeline: Pipeline,
    found: loader.Loaded,
    settings: Settings,
    schedule: Timetable | None,
    *,
    start_date: datetime = SINCE,
    max_active_runs: int = 1,
    catchup: bool = False,
    no_backfill: str = "",
) -> PipelineDag:
    retries = pipeline.ingest.retries if kind == "ingest" else pipeline.archive.retries
    return PipelineDag(
        f"{pipeline.name}.{kind}",
        found,
        schedule=schedule,
        start_date=start_date,
        max_active_runs=max_active_runs,
        catchup=catchup,
        no_backfill=no_backfill,
        description=docs.description(kind, pipeline),
        doc_md=docs.page(kind, pipeline, found.text, settings.runbook_url),
        tags=sorted({"tidegate", pipeline.name, kind, *pipeline.tags}),
        default_args={
            "owner": pipeline.owner,
            "retries": retries,
            "retry_delay": RETRY_DELAY,
            "retry_exponential_backoff": True,
            "max_retry_delay": LONGEST_RETRY_DELAY,
            **({"on_failure_callback": messages.on_failure} if messages.configured(pipeline) else {}),
        },
    )


def _undated(
    kind: str, pipeline: Pipeline, found: loader.Loaded, settings: Settings, schedule: str | None
) -> PipelineDag:
    """A DAG whose runs mean no range of dates."""
    return _dag(kind, pipeline, found, settings, _cron(schedule), no_backfill=docs.no_backfill(kind, pipeline.name))


def _cron(schedule: str | None) -> Timetable | None:
    """Runs by a cron expression, in UTC; by hand alone without one."""
    return CronDataIntervalTimetable(schedule, timezone="UTC") if schedule else None


def _task(
    operator: type[PipelineOperator], task_id: str, pipeline: Pipeline, pool: str, weight: int, **own: Any
) -> PipelineOperator:
    """A task. Its weight is absolute unless `own` says otherwise: Airflow's rule would let every plan go before any
    land."""
    about = {"doc_md": docs.TASKS.get(task_id), "priority_weight": weight, "weight_rule": "absolute"}
    return operator(task_id=task_id, pipeline=pipeline, pool=pool, **about | own)


def _ingest(pipeline: Pipeline, found: loader.Loaded, settings: Settings) -> DAG:
    with _dag("ingest", pipeline, found, settings, _cron(pipeline.ingest.schedule)) as dag:
        pool = pipeline.ingest.pool
        plan = _task(PlanOperator, "plan", pipeline, pool, weights.PLAN)
        write = _task(WriteOperator, "write", pipeline, pool, weights.WRITE)
        land = _task(LandOperator, "land", pipeline, pool, weights.LAND)
        plan >> write >> land
    return dag


def _archive(pipeline: Pipeline, found: loader.Loaded, settings: Settings) -> DAG:
    with _dag(
        "archive", pipeline, found, settings, WindowTimetable.of(pipeline.windows), catchup=True,
        start_date=from_ms(pipeline.windows.start_ms), max_active_runs=pipeline.archive.max_active_runs,
    ) as dag:  # fmt: skip
        pool, own = pipeline.archive.pool, {"poll_s": settings.poll_s, "weight_rule": weights.rule()}
        ready = _task(WindowReadySensor, "ready", pipeline, pool, weights.READY, **own)
        publish = _task(PublishOperator, "publish", pipeline, pool, weights.PUBLISH, **own)
        ready >> publish
    return dag


def _replay(pipeline: Pipeline, found: loader.Loaded, settings: Settings) -> DAG:
    with _dag(
        "replay", pipeline, found, settings, BackfillOnlyTimetable.of(pipeline.windows),
        start_date=from_ms(pipeline.windows.start_ms), max_active_runs=pipeline.archive.max_active_runs,
    ) as dag:  # fmt: skip
        _task(ReplayOperator, "replay", pipeline, pipeline.archive.pool, weights.REPLAY)
    return dag


def _apply(pipeline: Pipeline, found: loader.Loaded, settings: Settings) -> DAG:
    with _undated("apply", pipeline, found, settings, APPLY_SCHEDULE) as dag:
        _task(ApplyOperator, "apply", pipeline, pipeline.archive.pool, weights.APPLY)
    return dag


def _copy(pipeline: Pipeline, found: loader.Loaded, settings: Settings) -> DAG:
    assert pipeline.copy is not None
    with _undated("copy", pipeline, found, settings, pipeline.copy.schedule) as dag:
        _task(CopyOperator, "copy", pipeline, pipeline.copy.pool, weights.COPY)
    return dag


def _compare(pipeline: Pipeline, found: loader.Loaded, settings: Settings) -> DAG:
    assert pipeline.copy is not None
    with _undated("compare", pipeline, found, settings, pipeline.copy.compare) as dag:
        _task(CompareOperator, "compare", pipeline, pipeline.copy.pool, weights.COPY)
    return dag


def _deliver(pipeline: Pipeline, found: loader.Loaded, settings: Settings) -> DAG:
    schedule = DatasetOrTimeSchedule(
        timetable=DeliveryTimetable.of(pipeline.windows), datasets=[datasets.dataset_of(pipeline)]
    )
    start = from_ms(pipeline.windows.start_ms)
    with _dag("deliver", pipeline, found, settings, schedule, start_date=start) as dag:
        pool, about = pipeline.archive.pool, {"doc_md": docs.TASKS["deliver"]}
        for one in pipeline.deliver:
            _task(DeliverOperator, one.name, pipeline, pool, weights.DELIVER, delivery=one.name, **about)
    return dag


def _maintain(pipeline: Pipeline, found: loader.Loaded, settings: Settings) -> DAG:
    with _dag("maintain", pipeline, found, settings, _cron(MAINTAIN_SCHEDULE)) as dag:
        kinds, pool = dags_of(pipeline), pipeline.archive.pool
        archive = f"{pipeline.name}.archive" if "archive" in kinds else None
        own: dict[str, Any] = {"archive_dag_id": archive, "retries": MAINTAIN_RETRIES}
        dag_ids = [f"{pipeline.name}.{kind}" for kind in kinds]
        maintain = _task(MaintainOperator, "maintain", pipeline, pool, weights.MAINTAIN, dag_ids=dag_ids, **own)
        if archive is not None:
            maintain >> _task(CatchUpOperator, "catch_up", pipeline, pool, weights.CATCH_UP, **own)
    return dag


_KINDS: dict[str, Callable[[Pipeline, loader.Loaded, Settings], DAG]] = {
    "ingest": _ingest,
    "archive": _archive,
    "replay": _replay,
    "apply": _apply,
    "copy": _copy,
    "compare": _compare,
    "deliver": _deliver,
    "maintain": _maintain,
}
