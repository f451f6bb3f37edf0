"""The DAGs of a copy and of a comparison: which there are, and what their tasks do. The workflow is a stub."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import airflow_home
import pytest
from airflow.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.models.dagbag import DagBag
from airflow.serialization.serialized_objects import SerializedDAG

from tests.airflow.test_dags_operators import NOTICES, context
from tests.copies.servers import SERVERS, A, B
from tests.copies.worlds import COPYING
from tests.mirror.worlds import mirror
from tidegate import inspection, wiring
from tidegate.adapters import mirror_comparison
from tidegate.airflow import runs, task
from tidegate.airflow.operators import CompareOperator, CopyOperator
from tidegate.core.base.errors import LedgerError, NotReady, SourceUnavailable
from tidegate.workflow.base import servers
from tidegate.workflow.copy import compare as comparing
from tidegate.workflow.copy import each
from tidegate.workflow.copy import narrow as narrowing
from tidegate.workflow.copy.compare import Report
from tidegate.workflow.copy.copy import Read

COMPARED = COPYING.replace("tasks: 1", 'tasks: 1, compare: "0 3 * * 0"')


def bag(folder: Path, monkeypatch: pytest.MonkeyPatch, yaml: str) -> DagBag:
    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(folder))
    (folder / "readings.yaml").write_text(yaml.format(location="file:///lake/readings"))
    dag_file = airflow_home.CHECKOUT / "dags/tidegate_pipelines.py"
    return DagBag(dag_folder=str(dag_file), include_examples=False, read_dags_from_db=False)


def test_a_pipeline_that_copies_has_one_more_dag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = bag(tmp_path, monkeypatch, COPYING)
    assert found.import_errors == {}
    assert sorted(found.dags) == [f"readings.{kind}" for kind in ("apply", "copy", "ingest", "maintain")]
    copy = found.dags["readings.copy"]
    assert (copy.max_active_runs, copy.catchup, copy.task_ids) == (1, False, ["copy"])
    assert "a chunk that was read stays read" in (copy.doc_md or "")
    with pytest.raises(SystemExit, match="reads the source's table as it is now"):
        copy.run()


def test_comparisons_have_a_dag_where_they_have_a_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = bag(tmp_path, monkeypatch, COMPARED)
    assert found.import_errors == {}
    compare = found.dags["readings.compare"]
    assert compare.task_ids == ["compare"]
    for dag in found.dags.values():
        assert SerializedDAG.from_dict(SerializedDAG.to_dict(dag)).task_ids == dag.task_ids
    with pytest.raises(SystemExit, match="nothing to backfill"):
        compare.run()


@pytest.fixture
def triggered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    pipeline = SimpleNamespace(copy=None)
    made = SimpleNamespace(
        ledger=SimpleNamespace(close=lambda: None, notices=NOTICES), keyed="the table", pipeline=pipeline, say=print
    )
    monkeypatch.setattr(task.PipelineOperator, "_open", lambda self, where: made)
    found: list[Any] = []
    monkeypatch.setattr(runs, "trigger_apply", lambda *said: found.append(said) or "triggered")
    monkeypatch.setattr(runs, "trigger", lambda *said: found.append(said) or "triggered")

    @contextmanager
    def database(*_: Any, **__: Any) -> Any:
        yield "the database"

    monkeypatch.setattr(wiring, "open_database", database)
    monkeypatch.setattr(inspection, "storage_secrets", lambda *_: {})
    monkeypatch.setattr(
        mirror_comparison, "TableProcess", lambda **_: SimpleNamespace(close=lambda: None, greatest=None)
    )
    return found


def run(kind: Any, folder: Path, yaml: str = COMPARED) -> None:
    made = kind(task_id="t", dag=None, pipeline=mirror(folder, yaml))
    made.execute(context())


def test_what_was_read_triggers_its_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, triggered: list[Any]
) -> None:
    monkeypatch.setattr(
        each, "copy", lambda ctx, database, go_on, greatest, server: Read(round=1, chunks=3, rows=9, left=True)
    )
    run(CopyOperator, tmp_path)
    (dag_id, run_id), (again, _) = triggered
    assert (dag_id, run_id.startswith("copied_by_")) == ("readings.apply", True)
    assert again, "there is more to read"


def test_nothing_to_read_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, triggered: list[Any]) -> None:
    monkeypatch.setattr(each, "copy", lambda *_, **__: Read())
    with pytest.raises(AirflowSkipException, match="every chunk of the newest copy is read"):
        run(CopyOperator, tmp_path)

    def too_early(*_: Any, **__: Any) -> Read:
        raise NotReady("no event yet")

    monkeypatch.setattr(each, "copy", too_early)
    with pytest.raises(AirflowSkipException, match="no event yet"):
        run(CopyOperator, tmp_path)
    assert triggered == []


def test_one_of_several_servers_that_is_not_read_fails_the_task_behind_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, triggered: list[Any]
) -> None:
    """What was read of the others is merged, and goes on; one that has no event yet fails nothing."""
    monkeypatch.setattr(servers, "to_read", lambda _: [A, B])

    def run_with(**errors: Exception) -> None:
        def copied(*_: Any, server: str, **__: Any) -> Read:
            if server in errors:
                raise errors[server]
            return Read(round=1, chunks=3, rows=9, left=True)

        monkeypatch.setattr(each, "copy", copied)
        triggered.clear()
        run(CopyOperator, tmp_path, SERVERS)

    with pytest.raises(AirflowFailException, match=rf"server {A}: not read: gone(?s:.)*server {B}: 9 rows read"):
        run_with(**{A: SourceUnavailable("gone")})
    assert [of for of, _ in triggered][:1] == ["readings.apply"]
    assert len(triggered) == 2
    run_with(**{A: NotReady("no event yet")})
    assert len(triggered) == 2
    with pytest.raises(AirflowSkipException, match="nothing to read: server"):
        run_with(**{A: NotReady("no event yet"), B: NotReady("no event yet")})
    with pytest.raises(AirflowException, match="the ledger is gone"):
        run_with(**{A: LedgerError("the ledger is gone")})
    monkeypatch.setattr(servers, "to_read", lambda _: [])
    with pytest.raises(AirflowSkipException, match="the newest copy of each server is whole"):
        run_with()
    assert triggered == []


def test_a_difference_fails_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, triggered: list[Any]) -> None:
    monkeypatch.setattr(narrowing, "next_keys", lambda *_: ("1", "9"))
    monkeypatch.setattr(comparing, "compare", lambda *of: Report(round=2, rows=9, differ={"surplus": 2}, keys=of[5]))
    with pytest.raises(
        AirflowFailException, match=r"2 of 9 keys differ(?s:.)*compare readings --from 1 --until 9 --fix"
    ):
        run(CompareOperator, tmp_path)
    monkeypatch.setattr(comparing, "compare", lambda *_: Report(round=2, rows=9, differ={"other": 1}, exact=False))
    run(CompareOperator, tmp_path)
    monkeypatch.setattr(comparing, "compare", lambda *_: Report(round=2, rows=9, differ={}))
    run(CompareOperator, tmp_path)


def test_one_of_several_servers_that_is_down_fails_the_task_behind_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, triggered: list[Any]
) -> None:
    """One that has no event yet does not, and where none has the task is skipped."""
    pipeline, asked = mirror(tmp_path, SERVERS), list[str]()
    made = SimpleNamespace(
        ledger=SimpleNamespace(close=lambda: None, notices=NOTICES), keyed="the table", pipeline=pipeline, say=print
    )
    monkeypatch.setattr(task.PipelineOperator, "_open", lambda self, where: made)
    monkeypatch.setattr(narrowing, "next_keys", lambda *_: None)

    def run_with(**errors: Exception) -> None:
        def compared(*of: Any) -> Report:
            asked.append(of[6])
            if of[6] in errors:
                raise errors[of[6]]
            return Report(round=2, rows=9, differ={}, server=of[6])

        monkeypatch.setattr(comparing, "compare", compared)
        run(CompareOperator, tmp_path, SERVERS)

    with pytest.raises(
        AirflowFailException, match=rf"server {A}: not compared: gone(?s:.)*server {B}: nothing differs"
    ):
        run_with(**{A: SourceUnavailable("gone")})
    run_with(**{A: NotReady("no event yet")})
    with pytest.raises(AirflowSkipException, match="no event yet"):
        run_with(**{A: NotReady("no event yet"), B: NotReady("no event yet")})
    assert asked == [A, B] * 3
