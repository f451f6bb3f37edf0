"""`tidegate status`: what is well, what is not, and what a command says that cannot do its work."""

from __future__ import annotations

import re
import sqlite3

import pytest
from click.testing import Result

from tests.cli.test_cli_commands import Tide, add_yaml, the_json, tide, world
from tests.world import HOUR, T0, TOPIC, World, record, window
from tidegate.cli.status_table import COLUMNS
from tidegate.core.base.errors import BatchRefused
from tidegate.core.spec.pipeline import DirtyLimits
from tidegate.core.window.due import ArchiveNote
from tidegate.core.window.states import PublishedGeneration
from tidegate.ledger.store import FIRST, HEAD
from tidegate.spec import load_file
from tidegate.workflow.batch import ingest
from tidegate.workflow.publish import archive

__all__ = ["tide", "world"]  # fixtures


def test_status_of_a_well_pipeline(tide: Tide, world: World) -> None:
    world.archive(1)
    result = tide("status")
    assert result.exit_code == 0, result.output
    assert re.search(r"^readings +well ", result.output, re.MULTILINE), result.output
    assert "2013-01-05T02:30Z" in result.output


def test_status_as_json_says_everything(tide: Tide, world: World) -> None:
    world.produce(record("e", 3.6), record("f", 3.7), record("late", 0.2))
    ingest.plan(world.context(), "readings.ingest/r2")
    world.produce(record("g", 3.8), partition=1)
    found = the_json(tide("status", "readings", "--json"))["pipelines"][0]
    assert found["open_batch"]["batch_id"] == 2
    assert found["open_batch"]["state"] == "PLANNED"
    assert found["open_batch"]["ranges"] == [{"partition": 0, "start": 4, "end": 7}]
    assert found["newest_landed"]["landed"] == "2013-01-09T04:00Z"
    assert found["lag"] == {"records": 1, "by_partition": {"0": 0, "1": 1}, "lost": 0}
    assert found["watermark"] == "2013-01-05T02:30Z"
    assert found["next_window"]["start"] == "2013-01-05T02:00Z"
    assert found["next_window"]["blockers"] == [0, 1]
    assert found["due"] == [{"start": "2013-01-05T01:00Z", "end": "2013-01-05T02:00Z"}]
    assert found["due_since"] == "2013-01-09T04:00Z"
    assert (found["windows"], found["generations"]) == ({"CLOSED": 1}, {"CURRENT": 1})
    assert found["totals"]["dirty"] == 1
    assert found["events"][0]["what"] == "planned"


def test_status_counts_changes_without_an_answer(tide: Tide, world: World) -> None:
    ledger = world.context().ledger
    generation = ledger.windows.generation("readings", window(0), 1)
    assert isinstance(generation, PublishedGeneration)
    ledger.windows.declare_intent(generation, "here", 10**13)  # the command looks by this year's clock
    assert "1 change without an answer" in words(tide("status", "readings"))


def test_status_names_hours_that_nobody_publishes_once_they_are_overdue(tide: Tide) -> None:
    result = tide("status")  # the world's batches landed in 2013
    assert result.exit_code == 1
    assert "1 window is ready and not published, the oldest (2013-01-05T01:00Z) for" in result.output
    assert "airflow dags backfill readings.archive -s 2013-01-05T01:00Z -e 2013-01-05T01:00Z" in result.output


def test_hours_become_due_with_the_batch_that_made_them_ready(tide: Tide, world: World) -> None:
    world.clock.advance(60_000)
    world.produce(record("x", 9.0))
    world.ingest("r2")
    world.clock.advance(60_000)
    world.produce(record("y", 9.1))
    world.ingest("r3")
    world.archive(1)
    assert the_json(tide("status", "--json"))["pipelines"][0]["due_since"] == "2013-01-09T04:01Z"


def test_a_broken_yaml_is_listed_with_file_line_and_field(tide: Tide, world: World) -> None:
    add_yaml(world.folder, "broken", partition_by="partition_buy")
    result = tide("status")
    assert result.exit_code == 2
    assert f"{world.folder}/pipelines/broken.yaml:12: partition_buy: unknown key (did you mean partition_by?)" in (
        result.output
    )
    assert "readings" in result.output
    found = {p["name"]: p for p in the_json(tide("status", "--json"))["pipelines"]}
    assert "broken.yaml:12" in found["broken"]["error"]
    assert found["readings"]["error"] is None


def test_a_new_pipeline_has_no_runs_yet_and_is_well(tide: Tide, world: World) -> None:
    add_yaml(world.folder, "fresh")
    result = tide("status", "fresh")
    assert result.exit_code == 0
    assert "no run has registered this pipeline yet" in result.output
    assert "6 records" in result.output


def test_status_registers_nothing(tide: Tide, world: World) -> None:
    add_yaml(world.folder, "fresh")
    for command in (("status",), ("plan", "fresh"), ("explain", "fresh", "2013-01-05T00")):
        tide(*command)
    assert world.context().ledger.reads.names() == ["readings"]


def test_pipelines_without_a_yaml_are_named(tide: Tide, world: World) -> None:
    world.produce(record("e", 3.6))
    ingest.plan(world.context(), "readings.ingest/r2")
    (world.folder / "pipelines/readings.yaml").rename(world.folder / "elsewhere.yaml")
    result = tide("status")
    assert "in the ledger, without a YAML here: readings" in result.output
    assert "batch 2 of readings is PLANNED, and no task goes on with it: bring its YAML back" in result.output
    for command in (("status", "readings"), ("explain", "readings", "2013-01-05T00")):
        assert "the ledger knows readings: its YAML was removed or renamed" in tide(*command).output.replace("\n", " ")


def test_kafka_is_never_needed(tide: Tide, world: World) -> None:
    world.archive(1)
    world.kafka.unavailable = True
    result = tide("status")
    assert result.exit_code == 0
    assert "lag not known of readings: Kafka at fake:9092" in result.output


def test_a_recreated_topic_and_lost_records_are_not_well(tide: Tide, world: World) -> None:
    world.archive(1)
    world.produce(*[record(str(i), 3.6) for i in range(5)])
    world.kafka.trim(TOPIC, 0, 7)
    assert "3 offsets are gone from the topic" in tide("status").output
    world.kafka.create(TOPIC, 2)
    result = tide("status")
    assert result.exit_code == 1
    assert "tidegate source reset readings" in result.output


def test_a_refused_batch_is_not_well(tide: Tide, world: World) -> None:
    world.archive(1)
    world.change_spec(dirty=DirtyLimits(max_count=0, max_ratio=None))
    world.produce(b"x")
    with pytest.raises(BatchRefused):
        world.ingest("r2")
    result = tide("status", "readings")
    assert result.exit_code == 1
    assert "batch 2 was refused: batch 2: 1 of 1 records are dirty" in " ".join(result.output.split())
    listed = tide("repair", "readings")
    assert (listed.exit_code, "tidegate repair readings --release 2 --why" in words(listed)) == (1, True)
    assert the_json(tide("repair", "readings", "--json"))["refused"].startswith("batch 2: 1 of 1 records are dirty")


def test_a_spec_that_contradicts_what_has_landed_is_not_well(tide: Tide, world: World) -> None:
    world.archive(1)
    yaml = world.folder / "pipelines/readings.yaml"
    yaml.write_text(yaml.read_text().replace("{name: value, type: int}", "{name: value, type: string}"))
    assert tide("spec", "validate").exit_code == 0, "the file alone is valid"
    shown = tide("status", "readings")
    assert (shown.exit_code, "column value was int, is string" in words(shown)) == (1, True)
    assert "take the change back, or make it a pipeline of its own" in words(shown)
    assert tide("status").exit_code == 1
    planned = tide("plan", "readings")
    assert (planned.exit_code, "column value was int, is string" in words(planned)) == (2, True)


def test_no_ledger_is_exit_code_3_and_one_message(tide: Tide, world: World) -> None:
    world.database.unlink()
    result = tide("status")
    assert result.exit_code == 3
    assert "the ledger's schema is at revision none" in result.output
    assert "what to do: run `tidegate db migrate`" in result.output


def test_an_earlier_revision_is_not_gone_back_to(tide: Tide) -> None:
    said = tide("db", "migrate", "--revision", FIRST).output.splitlines()
    assert said[-1:] == [f"the ledger's schema is at revision {HEAD}"], said
    assert tide("status").exit_code != 3


@pytest.mark.parametrize("command", [["status"], ["db", "revision"], ["db", "migrate"]])
def test_a_ledger_that_a_newer_release_migrated_is_refused_with_what_helps(
    tide: Tide, world: World, command: list[str]
) -> None:
    """Migrating it by the older release can't help, nor is it a defect."""
    world.close()
    with sqlite3.connect(world.database) as c:
        c.execute("UPDATE alembic_version SET version_num = '9999'")
    result = tide(*command)
    assert result.exit_code == 3
    assert f"the ledger's schema is at revision 9999, this version needs {HEAD}" in result.output
    assert "a newer release has migrated it: use that one" in words(result)
    assert "run `tidegate db migrate`" not in result.output
    assert "Traceback" not in result.output
    (world.folder / ".tidegate/stack/env").write_text("AIRFLOW_HOME=/nowhere\n")
    result = tide("status")
    assert result.exit_code == 3
    assert "AIRFLOW_CONN_TIDEGATE_LEDGER" in result.output
    assert "tidegate stack up" in result.output


def test_debug_shows_the_trace(tide: Tide, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.database.unlink()
    monkeypatch.setenv("TIDEGATE_DEBUG", "1")
    with pytest.raises(Exception, match="revision none"):
        tide("status")


def test_an_unknown_pipeline_is_a_usage_error_with_a_hint(tide: Tide) -> None:
    for command in ("status", "audit", "plan", "repair"):
        result = tide(command, "reading")
        assert result.exit_code == 2, command
        assert "did you mean readings?" in result.output


def test_an_unknown_command_has_a_hint(tide: Tide) -> None:
    result = tide("audti")
    assert result.exit_code == 2
    assert "audit" in result.output


def test_the_command_that_fills_is_for_windows_that_it_fills(tide: Tide, world: World) -> None:
    """A backfill leaves a run that has failed as it is, and one of a window that a count holds would wait as well."""
    world.produce(record("x", 9.0))
    world.ingest("r2")
    to_fill = "to fill: airflow dags backfill readings.archive -s 2013-01-05T0{}:00Z -e 2013-01-05T0{}:00Z"
    assert to_fill.format(1, 7) in words(tide("status", "readings"))
    world.context().ledger.due.save("readings", ArchiveNote((), False, (T0 + HOUR,), world.clock.now_ms()), None)
    shown = words(tide("status", "readings"))
    assert to_fill.format(2, 7) in shown
    assert "1 of them has a run that has ended" in shown
    path = world.folder / "pipelines/readings.yaml"
    path.write_text(path.read_text() + "\ncompleteness: {from: topic, topic: audit}\n")
    world.pipeline = load_file(path)
    for hour in range(1, 8):
        archive.ready(world.context(), window(hour))
    shown = words(tide("status", "readings"))
    assert "7 windows are due and not published" in shown
    assert "to fill" not in shown


def test_a_batch_whose_offsets_have_gone_is_given_up(tide: Tide, world: World) -> None:
    """What the job said that helps: no spec and no clearing brings back what retention took after the plan."""
    world.produce(*[record(f"m{i}", 1.9) for i in range(4)])
    ingest.plan(world.context(), "readings.ingest/r2")
    world.kafka.trim(TOPIC, 0, 6)
    with pytest.raises(BatchRefused):
        ingest.write(world.context(), "readings.ingest/r2")
    for shown in (tide("status", "readings"), tide("explain", "readings", "2013-01-05T02")):
        assert "fix the spec" not in shown.output
        assert "`tidegate repair readings --reread 2` reads what is left and records the rest as lost" in words(shown)


@pytest.mark.parametrize("width", range(46, 150, 8))
def test_a_narrow_terminal_has_fewer_columns_and_cuts_none(
    tide: Tide, world: World, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    header, line, *_ = tide("status").output.splitlines()
    shown = [name for name in COLUMNS if f" {name} " in f" {header} "]
    assert "\u2026" not in header + line
    assert " ".join(shown) == " ".join(header.split())
    assert {"pipeline", "is", "behind", "due"} <= set(shown)
    assert (len(shown) == len(COLUMNS)) == (width >= 110)


def test_commands_can_be_copied_in_one_piece(tide: Tide, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """However narrow the terminal is: a line break would run half of it."""
    monkeypatch.setenv("COLUMNS", "60")
    path = world.folder / "pipelines/readings.yaml"
    path.write_text(path.read_text() + "\nlate: {reopen_after: 1m}\n")
    world.pipeline = load_file(path)
    world.produce(record("late", 0.7))
    world.ingest("r2")
    shown = tide("status", "readings").output
    assert "to fill: airflow dags backfill readings.archive -s 2013-01-05T01:00Z -e 2013-01-05T01:00Z\n" in shown
    assert "tidegate reopen readings 2013-01-05T00:00Z --over-budget --why '...'\n" in shown


def words(result: Result) -> str:
    return " ".join(result.output.split())
