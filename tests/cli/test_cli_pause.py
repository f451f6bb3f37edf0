"""`tidegate pause` and `tidegate unpause`: what they do to Airflow's DAGs, and what the ledger knows of it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import airflow_home
import pytest
from airflow.jobs.job import Job
from airflow.models.dag import DagModel
from airflow.models.errors import ParseImportError
from airflow.utils import timezone
from airflow.utils.session import create_session

from tests.cli.test_cli_commands import Tide, the_json, tide, world
from tests.world import World
from tidegate.airflow.switches import Switches
from tidegate.kinds import DAGS
from tidegate.ledger import SqlLedger

__all__ = ["tide", "world"]

IDS = [f"readings.{kind}" for kind in DAGS]


@pytest.fixture(autouse=True)
def airflow() -> Iterator[None]:
    """Its four DAGs are there and paused, as new ones are, and a scheduler beats."""
    airflow_home.make_database()
    forget()
    add(*IDS)
    with create_session() as session:
        session.add(Job(job_type="SchedulerJob", state="running", latest_heartbeat=timezone.utcnow()))
    yield
    forget()


def forget() -> None:
    with create_session() as session:
        for table in (Job, ParseImportError, DagModel):
            session.query(table).delete()


def add(*dag_ids: str) -> None:
    with create_session() as session:
        session.add_all(DagModel(dag_id=dag_id, is_paused=True, is_active=True) for dag_id in dag_ids)


def running() -> set[str]:
    return {dag_id for dag_id, paused in Switches(IDS).look().items() if not paused}


def events(world: World) -> list[tuple[str, str]]:
    found = world.context().ledger.reads.events("readings", 10, "DAGs")
    return [(event.what, event.subject) for event in found]


def test_unpause_turns_all_four_on_once_and_says_so(tide: Tide, world: World) -> None:
    first = tide("unpause", "readings")
    assert first.exit_code == 0, first.output
    assert [f"{dag_id}: unpaused" for dag_id in IDS] == first.stdout.splitlines()[:4]
    assert first.stdout.splitlines()[4:] == [
        "readings.ingest has no schedule; to read now: airflow dags trigger readings.ingest"
    ]
    assert running() == set(IDS)
    again = tide("unpause", "readings")
    assert again.exit_code == 0
    assert [f"{dag_id}: was not paused" for dag_id in IDS] == again.stdout.splitlines()[:4]
    assert events(world) == [], "nobody had said why it was paused"
    assert the_json(tide("unpause", "readings", "--json"))["dags"][0] == {
        "dag_id": "readings.ingest", "paused": False, "changed": False,
    }  # fmt: skip


def test_a_pause_is_kept_with_its_reason_and_ends_with_unpause(tide: Tide, world: World) -> None:
    tide("unpause", "readings")
    assert tide("pause", "readings").exit_code == 2, "a reason is needed"
    assert tide("pause", "readings", "--why", " ").exit_code == 2
    assert tide("pause", "readings", "--why", "x", "--until", "2001-01-01").exit_code == 2
    assert running() == set(IDS)
    words = ("pause", "readings", "--only", "ingest", "--why", "broker 2 is rebuilt", "--until", "2126-11-24T08:00Z")
    done = tide(*words)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0] == "readings.ingest: paused"
    assert "(ingest, until 2126-11-24T08:00Z): broker 2 is rebuilt" in done.stdout
    assert running() == set(IDS) - {"readings.ingest"}
    assert "readings.ingest: was paused already" in tide(*words).stdout
    assert events(world) == [("paused on purpose", "DAGs")], "the same again says nothing new"
    more = the_json(tide("pause", "readings", "--why", "the hall has no power", "--json"))["paused_on_purpose"]
    assert (more["kinds"], more["why"], more["until"]) == (list(DAGS), "the hall has no power", None)
    assert running() == set()
    said = tide("status", "readings", "--no-kafka")
    assert (said.exit_code, said.stdout.splitlines()[0]) == (0, "readings: paused")
    assert "the hall has no power" in said.stdout
    assert "to go on   tidegate unpause readings" in said.stdout
    assert "the hall has no power" in tide("status", "--no-kafka").stdout
    assert the_json(tide("status", "--json"))["pipelines"][0]["paused_on_purpose"]["why"] == "the hall has no power"
    part = tide("unpause", "readings", "--only", "archive")
    assert part.exit_code == 0
    assert running() == {"readings.archive"}
    assert world.context().ledger.pauses.standing("readings").kinds == ("ingest", "replay", "maintain")
    rest = tide("unpause", "readings")
    assert "over: paused on purpose since" in rest.stdout
    assert running() == set(IDS)
    assert world.context().ledger.pauses.standing("readings") is None


def test_a_new_pipeline_is_waited_for(tide: Tide, monkeypatch: pytest.MonkeyPatch) -> None:
    with create_session() as session:
        session.query(DagModel).filter(DagModel.dag_id != "readings.ingest").delete()
    monkeypatch.setattr("tidegate.cli.pause.LOOK_S", 0.01)
    parsed = iter([lambda: None, lambda: add(*IDS[1:])])
    look = Switches.look
    monkeypatch.setattr(Switches, "look", lambda self: (next(parsed, lambda: None)(), look(self))[1])
    result = tide("unpause", "readings")
    assert result.exit_code == 0, result.output
    assert "Airflow does not know readings.archive, readings.replay, readings.maintain yet; waiting" in result.stderr
    assert running() == set(IDS)


def test_what_airflow_does_not_know_is_said_with_its_import_error(tide: Tide, world: World) -> None:
    with create_session() as session:
        session.query(DagModel).filter(DagModel.dag_id == "readings.archive").update({"is_active": False})
        for name in ("readings", "other"):
            trace = f"Traceback\n  {name} boom\n  what to do: think"
            session.add(ParseImportError(filename=f"/dags/tidegate_pipelines.py:{name}.yaml", stacktrace=trace))
    result = tide("unpause", "readings", "--wait", "0")
    assert result.exit_code == 1
    assert "readings.archive: Airflow does not know it yet" in result.stdout
    assert "import error: /dags/tidegate_pipelines.py:readings.yaml: readings boom" in result.stderr
    assert "other boom" not in result.stderr
    assert running() == set(IDS) - {"readings.archive"}
    found = json.loads(tide("unpause", "readings", "--wait", "0", "--json").stdout)
    assert (found["missing"], len(found["import_errors"])) == (["readings.archive"], 1)


def test_without_a_scheduler_nothing_is_waited_for(tide: Tide) -> None:
    forget()
    add("readings.ingest")
    result = tide("unpause", "readings")
    assert result.exit_code == 1
    assert "WARNING: no scheduler has given a sign for a minute" in result.stderr
    assert "readings.ingest: unpaused" in result.stdout


def test_a_pipeline_that_no_run_has_registered_is_paused_without_a_reason(tide: Tide, world: World) -> None:
    (world.folder / "pipelines/fresh.yaml").write_text(
        (world.folder / "pipelines/readings.yaml").read_text().replace("readings", "fresh")
    )
    add(*(f"fresh.{kind}" for kind in DAGS))
    tide("unpause", "fresh")
    result = tide("pause", "fresh", "--why", "later")
    assert result.exit_code == 1
    assert "fresh.ingest: paused" in result.stdout
    assert "the reason is kept nowhere: the ledger does not know fresh" in result.stderr


def test_of_two_operators_the_second_is_told(tide: Tide, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = Switches.turn

    def meanwhile(self: Switches, dag_id: str, paused: bool) -> bool:
        if dag_id == "readings.ingest":
            other = SqlLedger(f"sqlite:///{world.database}", actor="anna")
            other.pauses.pause("readings", ["ingest"], "first", None, None)
            other.close()
        return turn(self, dag_id, paused)

    monkeypatch.setattr(Switches, "turn", meanwhile)
    result = tide("pause", "readings", "--why", "second")
    assert result.exit_code == 1
    assert "somebody else has paused or unpaused readings meanwhile" in result.stderr
    assert world.context().ledger.pauses.standing("readings").why == "first"
