"""The Airflow dataset of a pipeline's table, `tidegate://<database>.<table>`, and its events: one for each generation.

Tidegate writes an event itself, in a transaction of its own, and not at the end of the task: a task may have several
(maintenance) or die after it, and a second try must see that the first one has written it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow.datasets import Dataset
from airflow.datasets.manager import dataset_manager
from airflow.models.dataset import DatasetEvent, DatasetModel
from airflow.utils.session import create_session
from sqlalchemy import select

from tidegate.core.base.errors import SpecError
from tidegate.core.base.instants import iso
from tidegate.core.spec.pipeline import Pipeline

if TYPE_CHECKING:
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy.orm import Session

    from tidegate.core.tell.announcement import Notice
    from tidegate.workflow.base.context import Context as PipelineContext

CLOCKS_DIFFER = timedelta(hours=1)
"""Most that clocks may differ between the host that published and the one that looks for the event."""


def dataset_of(pipeline: Pipeline) -> Dataset:
    """The outlet of the publishing tasks, and what a consumer names in its `schedule`."""
    return dataset_named(pipeline.sink.table)


def dataset_named(name: str) -> Dataset:
    """The dataset of the table `database.table`."""
    return Dataset(f"tidegate://{name}")


def table(name: str) -> Dataset:
    """The dataset for a consumer's `schedule`, by `database.table` or a pipeline's name in the pipelines folder.

    Raises SpecError where there is no such YAML."""
    return dataset_named(name if "." in name else _table_of(name))


def _table_of(pipeline: str) -> str:
    """The table of a pipeline; reads one value of two YAML files, as little as a DAG file should."""
    import yaml

    from tidegate.settings import load

    folder = load().pipelines_folder
    path = folder / f"{pipeline}.yaml"
    if not path.is_file():
        raise SpecError(
            f"there is no {path}", advice=f"name the table instead of the pipeline {pipeline}: table('database.table')"
        )
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for place in (path, folder / "defaults.yaml"):
        content = yaml.load(place.read_bytes(), loader) if place.is_file() else None
        sink = content.get("sink") if isinstance(content, dict) else None
        found = sink.get("table") if isinstance(sink, dict) else None
        if isinstance(found, str) and "$" not in found:
            return found
    from tidegate.spec import load_file  # what the environment says, and every error in its words

    return load_file(path).sink.table


def announce(ctx: PipelineContext, notice: Notice, task_instance: TaskInstance) -> str:
    """Write one event for this generation, however many tasks try. Returns what it did, in words.

    The ledger hears of it last: a task that dies in between finds the event, and only says so."""
    from tidegate.workflow.tell import announcements as work

    with create_session() as session:
        done = register(ctx.pipeline, notice, task_instance, session)
    if done is None:
        return f"{dataset_of(ctx.pipeline).uri}: Airflow does not know the dataset yet; the maintenance DAG tells of it"
    work.told(ctx, notice)
    what = "event of" if done else "there was an event already of"
    return f"{dataset_of(ctx.pipeline).uri}: {what} generation {notice.number}, {iso(notice.window.start_ms)}"


def register(pipeline: Pipeline, notice: Notice, task_instance: TaskInstance, session: Session) -> bool | None:
    """Add the event. Returns False if it existed, None if no DAG that Airflow knows has the dataset."""
    from tidegate.core.tell import announcement

    dataset, extra = dataset_of(pipeline), announcement.extra(pipeline, notice)
    # one at a time: no other process may add it between the look and the event
    known = session.scalar(select(DatasetModel.id).where(DatasetModel.uri == dataset.uri).with_for_update())
    if known is None:
        return None
    since = datetime.fromtimestamp(notice.published_ms / 1000, UTC) - CLOCKS_DIFFER
    told = select(DatasetEvent.extra).where(DatasetEvent.dataset_id == known, DatasetEvent.timestamp >= since)
    if any(announcement.same(other or {}, extra) for other in session.scalars(told)):
        return False
    dataset_manager.register_dataset_change(task_instance=task_instance, dataset=dataset, extra=extra, session=session)
    return True
