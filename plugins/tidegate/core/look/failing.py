"""Tasks that have failed for good, where nothing else tells why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.core.base.instants import span
from tidegate.core.look.overdue import Concern
from tidegate.core.look.survey import Survey
from tidegate.core.spec.pipeline import Pipeline

_OF_INGEST = ("source_reset", "data_loss")
"""Kinds of concerns that say in their own words why ingest fails."""


def of_tasks(pipeline: Pipeline, survey: Survey, found: Iterable[Concern], now_ms: int) -> Iterator[Concern]:
    """A concern for each, but where one of `found` says the same. Its message is sent by the task itself."""
    found = tuple(found)
    said = "\n".join(concern.what for concern in found)
    told = any(concern.kind in _OF_INGEST for concern in found)
    for failed in survey.failed:
        dag_id, _, task_id = failed.task.partition(" ")
        kind = dag_id.rpartition(".")[2]
        paused = survey.pause is not None and survey.pause.covers(kind, now_ms)
        if told and kind == "ingest":
            continue
        if not paused and _is_there(pipeline, kind, task_id) and _cause(pipeline, failed.what) not in said:
            what = f"{failed.task} failed for good {span(now_ms - failed.at_ms)} ago: {failed.what}"
            yield Concern(what, failed.advice)


def _cause(pipeline: Pipeline, what: str) -> str:
    """As concerns say it: they leave out the pipeline's name, and a task's last line cuts off what is long."""
    return what.removeprefix(f"{pipeline.name}: ").removesuffix(" ...")


def _is_there(pipeline: Pipeline, kind: str, task_id: str) -> bool:
    """Whether the YAML has that task still."""
    if kind == "deliver":
        return task_id in {one.name for one in pipeline.deliver}
    return kind not in ("copy", "compare") or pipeline.copy is not None
