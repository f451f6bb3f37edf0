"""Every command on a mirror: what it says of merges, and that those about windows say that there are none."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.test_cli_commands import Tide, the_json
from tests.mirror.worlds import YAML, MirrorWorld, event
from tidegate.cli import surroundings
from tidegate.cli.main import main
from tidegate.targets.iceberg import snapshot
from tidegate.targets.iceberg.live import look
from tidegate.workflow.batch import ingest


@pytest.fixture
def world(tmp_path: Path) -> Iterator[MirrorWorld]:
    """Two batches have landed; the first is merged. A pipelines folder and an env file lie beside."""
    (tmp_path / "pipelines").mkdir()
    text = YAML.format(location=f"file://{tmp_path}/lake/readings")
    (tmp_path / "pipelines/readings.yaml").write_text(text)
    made = MirrorWorld(tmp_path)
    made.land(event(1, "a", 10), event(2, "b", 11))
    made.apply()
    made.land(event(1, None, 20), event(3, "c", 21))
    catalogue = {"conn_type": "sqlite", "host": f"{tmp_path}/catalogue.db", "extra": {"catalog_name": "tidegate"}}
    env = {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__TIDEGATE__PIPELINES_FOLDER": str(tmp_path / "pipelines"),
        "AIRFLOW_CONN_TIDEGATE_LEDGER": json.dumps({"conn_type": "sqlite", "host": str(made.database)}),
        "AIRFLOW_CONN_ICEBERG_DEFAULT": json.dumps(catalogue),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "none:1"}}),
    }
    (tmp_path / ".tidegate/stack").mkdir(parents=True)
    (tmp_path / ".tidegate/stack/env").write_text("".join(f"{k}={v}\n" for k, v in env.items()))
    yield made
    made.close()


@pytest.fixture
def tide(world: MirrorWorld, monkeypatch: pytest.MonkeyPatch) -> Tide:
    for name in [n for n in os.environ if n.startswith(("AIRFLOW", "TIDEGATE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(world.folder)
    monkeypatch.setattr(surroundings, "source", lambda pipeline, timeout_s=1.0: world.kafka)

    def run(*arguments: str) -> Result:
        world.close()
        result = CliRunner().invoke(main, arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def test_status_says_how_far_the_table_is(tide: Tide) -> None:
    found = tide("status", "readings")
    print(found.output)
    assert "table" in found.output
    assert "batches 1 to 1: 2 rows and 0 tombstones, of 2 events" in found.output
    assert "to merge" in found.output
    assert "watermark" not in found.output
    assert "windows" not in found.output
    listed = tide("status")
    assert "batch 1" in listed.output


def test_batches_that_wait_too_long_are_a_concern(tide: Tide) -> None:
    found = the_json(tide("status", "readings", "--json"))["pipelines"][0]
    assert [c["kind"] for c in found["concerns"]] == ["late_merge"], "the world's batches landed in 2013"
    assert found["merging"]["waiting_batches"] == 1
    assert found["merging"]["table"]["upto"] == 1
    assert "tidegate apply readings" in found["concerns"][0]["advice"]


def test_apply_merges_what_has_landed(tide: Tide, world: MirrorWorld) -> None:
    found = tide("apply", "readings", "--dry-run")
    assert (found.exit_code, found.stdout) == (
        0,
        "readings: the table holds batches 1 to 1; the next merge takes batches 2 to 2\n",
    )
    assert world.rows() == {1: "a", 2: "b"}
    found = tide("apply", "readings")
    assert (found.exit_code, found.stdout) == (
        0,
        "readings: 1 merge of 2 events; 2 rows and 1 tombstone up to batch 2\n",
    )
    assert world.rows() == {2: "b", 3: "c"}
    assert tide("apply", "readings").stdout.startswith("readings: nothing to merge; 2 rows")
    assert the_json(tide("apply", "readings", "--json"))["merges"] == 0
    assert tide("status", "readings").exit_code == 0


def test_a_refused_merge_is_told_with_the_way_on(tide: Tide, world: MirrorWorld) -> None:
    world.land(event(7, "x", 30), event(7, "y", 30))
    found = tide("apply", "readings")
    assert found.exit_code == 1
    assert "two contents of one key at one position" in found.output
    said = tide("status", "readings").output
    assert "the merge of batches 2 to 3 was refused: attempt 2-3." in said
    assert "tidegate apply readings --again" in said
    assert tide("apply", "readings", "--again").exit_code == 1
    assert tide("apply", "readings", "--take-conflicts").exit_code == 2
    assert tide("apply", "readings", "--take-conflicts", "--why", "both are right").exit_code == 0
    assert world.rows().keys() == {2, 3, 7}
    assert tide("status", "readings").exit_code == 0


@pytest.mark.parametrize(
    "command",
    [
        ("explain", "readings", "2013-01-05"),
        ("replay", "readings", "-s", "2013-01-05", "-e", "2013-01-06"),
        ("reopen", "readings", "2013-01-05"),
        ("rollback", "readings", "2013-01-05", "--why", "x"),
        ("files", "readings", "2013-01-05"),
        ("wait", "readings", "2013-01-05"),
        ("backfill", "readings", "-s", "2013-01-05", "-e", "2013-01-06"),
        ("repair", "readings", "--window", "2013-01-05", "--why", "x"),
    ],
    ids=lambda c: c[0],
)
def test_commands_about_windows_say_that_there_are_none(tide: Tide, command: tuple[str, ...]) -> None:
    found = tide(*command)
    assert found.exit_code == 2, found.output
    assert "readings has no windows" in " ".join(found.output.split()), found.output


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("plan", "readings"), 0),
        (("events", "readings"), 0),
        (("dirty", "readings"), 0),
        (("metrics",), 0),
        (("repair", "readings"), 0),
        (("clean", "readings", "--dry-run"), 0),
        (("reopen", "readings"), 0),
        (("spec", "validate"), 0),
    ],
    ids=lambda c: c[0] if isinstance(c, tuple) else "",
)
def test_other_commands_work(tide: Tide, command: tuple[str, ...], code: int) -> None:
    found = tide(*command)
    print(found.output)
    assert found.exit_code == code, found.output


def test_the_audit_holds_the_table_against_its_batches(tide: Tide, world: MirrorWorld) -> None:
    found = tide("audit", "readings")
    print(found.output)
    assert found.exit_code == 0, found.output
    assert "readings: balanced" in found.output
    assert "4 = merged 2 + waiting 2" in found.output
    assert "2 rows + 0 tombstones + 0 purged = 2 inserted, by batches 1 to 1" in found.output
    assert "windows" not in found.stdout
    assert the_json(tide("audit", "readings", "--json"))["mirror"]["upto"] == 1


def test_the_audit_finds_events_that_the_ledger_does_not_have(tide: Tide, world: MirrorWorld) -> None:
    import sqlite3

    with sqlite3.connect(world.database) as c:
        c.execute("UPDATE batch_files SET rows = rows - 1 WHERE batch_id = 1 AND kind = 'data'")
    found = tide("audit", "readings")
    assert found.exit_code == 1
    assert "its merges have taken 2 events of batches 1 to 1, which have landed 1" in " ".join(found.output.split())


def test_the_audit_finds_rows_that_others_took_away(tide: Tide, world: MirrorWorld) -> None:
    taken_away(world)
    found = tide("audit", "readings")
    assert found.exit_code == 1
    said = " ".join(found.output.split())
    assert "rows of bucket" in said
    assert "tidegate apply <pipeline> --back-to" in said


def test_apply_goes_back_to_an_earlier_snapshot_first(tide: Tide, world: MirrorWorld) -> None:
    good = str(world.loaded().metadata.current_snapshot_id)
    world.apply()
    taken_away(world)
    looked = tide("apply", "readings", "--back-to", good, "--dry-run")
    assert f"at {good} the table holds batches 1 to 1; the next merge takes batches 2 to 2" in looked.output
    assert tide("apply", "readings", "--back-to", good).exit_code == 2, "without --why"
    done = tide("apply", "readings", "--back-to", good, "--why", "rows were taken away")
    assert done.exit_code == 0, done.output
    assert "1 merge of 2 events" in done.output
    assert world.rows() == {2: "b", 3: "c"}


def taken_away(world: MirrorWorld) -> None:
    """Another writer lets a file of the table go."""
    loaded = world.loaded()
    seen = look(loaded.metadata, loaded.io, None)
    left = sorted(seen.files, key=lambda f: f.file_path)[1:]
    world.iceberg.commit(loaded, (), snapshot.replaced(loaded.metadata, loaded.io, seen, left, {}, None))


def test_the_audit_finds_a_table_beyond_the_ledger(tide: Tide, world: MirrorWorld) -> None:
    import sqlite3

    world.apply()
    world.close()
    with sqlite3.connect(world.database) as c:
        c.execute("UPDATE batches SET state = 'WRITING' WHERE batch_id = 2")
    found = tide("audit", "readings")
    assert found.exit_code == 1
    assert "it holds batches 1 to 2, but the newest that has landed is 1" in " ".join(found.output.split())


def test_where_says_what_became_of_an_event(tide: Tide) -> None:
    found = tide("where", "readings", "0", "0")
    print(found.output)
    assert found.exit_code == 0, found.output
    assert "readings partition 0 offset 0: merged" in found.output
    waits = tide("where", "readings", "0", "3")
    assert waits.exit_code == 1
    assert "readings partition 0 offset 3: waiting" in waits.output
    assert "tidegate apply readings" in waits.output


def test_maintenance_has_nothing_to_do_with_windows(world: MirrorWorld) -> None:
    from tidegate.workflow.maintain import reconcile

    assert reconcile.maintain(world.context()) == []
    assert list(reconcile.due(world.context())) == []
    assert ingest.preview(world.context()) is not None
