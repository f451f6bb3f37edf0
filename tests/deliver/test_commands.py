"""`tidegate deliver`, and what the other commands say of deliveries."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cli.test_cli_commands import YAML, Tide, the_json, write_env
from tests.deliver.lab import Lab, Server
from tests.world import HOUR, T0, record
from tidegate.cli import surroundings
from tidegate.cli.main import main
from tidegate.core.base.errors import DeliveryRefused
from tidegate.core.deliver.port import Missing
from tidegate.spec import load_file

LIST = """\
deliver:
  - {kind: postgresql, name: shop, conn_id: pg, table: readings, sla: 1h}
  - {kind: mariadb, name: other, conn_id: maria, table: readings}
"""

BESIDE = """\
deliver:
  - {{kind: cluster, name: site, conn_id: b, table: there.readings, location: "{there}", side_tables: [late]}}
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines/readings.yaml").write_text(YAML.format(name="readings", folder=tmp_path, zone="UTC") + LIST)
    pipeline = load_file(tmp_path / "pipelines/readings.yaml")
    made = Lab(tmp_path, Lab.kinds[0], pipeline.deliver[1])
    made.world.pipeline = pipeline
    made.hours(2)
    write_env(tmp_path, made.world.database)
    yield made
    made.world.close()


@pytest.fixture
def tide(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Tide:
    for name in [n for n in os.environ if n.startswith(("AIRFLOW", "TIDEGATE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(lab.world.folder)
    monkeypatch.setattr(surroundings, "source", lambda pipeline, timeout_s=1.0: lab.world.kafka)

    @contextmanager
    def working(pipeline: Any, say: Any) -> Iterator[Any]:
        yield lab.world.context()

    monkeypatch.setattr(surroundings, "working", working)

    def run(*arguments: str) -> Result:
        lab.world.close()
        result = CliRunner().invoke(main, arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def test_deliver_sends_what_is_due(tide: Tide, lab: Lab) -> None:
    found = tide("deliver", "readings", "--dry-run")
    assert "shop: 2 windows\n  2013-01-05T00:00Z generation 1: was never sent\n" in found.stdout
    assert lab.server.sent == []
    found = tide("deliver", "readings", "--to", "shop")
    assert (found.exit_code, found.stdout) == (0, "shop: 2 delivered, 4 rows\n")
    found = tide("deliver", "readings")
    assert (found.exit_code, found.stdout) == (0, "shop: nothing is due\nother: 2 delivered, 4 rows\n")
    assert lab.servers["other"].ids(T0) == ["0-0", "0-1"]


def test_named_windows_are_compared_and_those_that_differ_are_sent(tide: Tide, lab: Lab) -> None:
    tide("deliver", "readings")
    del lab.server.rows[T0]
    found = tide("deliver", "readings", "-s", "2013-01-05T00", "-e", "2013-01-05T01", "--to", "shop")
    assert (found.exit_code, found.stdout) == (0, "shop: 1 delivered, 1 unchanged, 4 rows\n")
    assert lab.server.ids(T0) == ["0-0", "0-1"]
    found = tide("deliver", "readings", "2013-01-05T01", "--again", "--why", "doubts", "--to", "shop", "--json")
    (sent,) = the_json(found)["deliveries"]["shop"]
    assert (sent["what"], sent["rows"]) == ("delivered", 2)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((), "none of these windows is published"),
        (("--again", "--why", "x"), "none of these windows is published"),
        (
            ("--skip", "--why", "x"),
            "none of these windows is published, or it stands there already: nothing to skip",
        ),
    ],
)
def test_what_is_not_there_is_not_said_to_be_done(tide: Tide, more: tuple[str, ...], words: str) -> None:
    assert tide("deliver", "readings", "2013-01-05T17", "--to", "shop", *more).stdout == f"shop: {words}\n"


def test_a_skipped_window_is_not_due(tide: Tide) -> None:
    found = tide("deliver", "readings", "2013-01-05T00", "--skip", "--why", "not wanted there", "--to", "shop")
    assert (found.exit_code, found.stdout) == (0, "shop: 1 skipped, 0 rows\n")
    assert "1 window\n" in tide("deliver", "readings", "--dry-run", "--to", "shop").stdout
    assert "1 skipped" in tide("status", "readings").output


def test_what_is_refused_is_a_concern_with_the_way_on(tide: Tide, lab: Lab) -> None:
    def refuse(name: str, do: Any) -> None:
        raise DeliveryRefused("a text holds NUL", advice="take it out of the source", retry=False)

    lab.server.around = refuse
    found = tide("deliver", "readings")
    assert found.exit_code == 1
    assert "shop: 2 refused, 0 rows" in found.stdout
    assert "  2013-01-05T00:00Z refused: a text holds NUL\n    what to do: take it out of the source" in found.stdout
    assert "other: 2 delivered" in found.stdout
    lab.server.around = lambda name, do: do()
    assert "shop: nothing is due" in tide("deliver", "readings").stdout
    told = the_json(tide("status", "readings", "--json"))["pipelines"][0]
    (concern,) = [c for c in told["concerns"] if c["kind"] == "refused_delivery"]
    assert "tidegate deliver readings 2013-01-05T00:00Z --to shop" in concern["advice"]
    assert [(d["name"], d["refused"], d["standing"]) for d in told["deliveries"]] == [("shop", 2, 0), ("other", 0, 2)]
    assert tide("deliver", "readings", "2013-01-05T00", "--to", "shop").stdout == "shop: 1 delivered, 2 rows\n"


def test_a_system_that_is_down_is_told_and_the_other_is_served(tide: Tide, lab: Lab) -> None:
    lab.server.down = True
    found = tide("deliver", "readings")
    assert found.exit_code == 1
    assert "shop: the server did not answer" in found.stdout
    assert "other: 2 delivered, 4 rows" in found.stdout


def test_windows_that_wait_longer_than_the_sla_are_a_concern(tide: Tide, lab: Lab) -> None:
    told = the_json(tide("status", "readings", "--json"))["pipelines"][0]
    (concern,) = [c for c in told["concerns"] if c["kind"] == "late_delivery"]
    assert "2 published windows wait for the delivery shop" in concern["what"]
    said = tide("status", "readings").output
    assert "shop: 0 windows stand there; 2 wait, the oldest (2013-01-05T00:00Z) for" in said


def test_explain_names_the_deliveries(tide: Tide) -> None:
    tide("deliver", "readings", "--to", "shop")
    said = tide("explain", "readings", "2013-01-05T00").output
    assert "shop: generation 1 stands there (2 rows)" in said
    assert "other: generation 1 was never sent" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--again", "--why", "x"), "need --why, and a WINDOW or a range"),
        (("2013-01-05T00", "--skip"), "need --why, and a WINDOW or a range"),
        (("2013-01-05T00", "--skip", "--again", "--why", "x"), "exclude each other"),
        (("--move", "--why", "x"), "--move needs --why, and --to"),
        (("2013-01-05T00", "--to", "shop", "--skip", "--move", "--why", "x"), "exclude each other"),
        (("--to", "none"), "there is no delivery none; there are: shop, other"),
        (("2013-01-05T00", "-s", "2013-01-05T00"), "name one WINDOW, or a range"),
        (("-e", "2013-01-05T00"), "-e needs -s"),
    ],
)
def test_usage(tide: Tide, arguments: tuple[str, ...], said: str) -> None:
    found = tide("deliver", "readings", *arguments)
    assert found.exit_code == 2
    assert said in found.output


def test_a_pipeline_without_deliveries(tide: Tide, lab: Lab) -> None:
    path = Path(lab.world.folder, "pipelines/readings.yaml")
    path.write_text(path.read_text().replace(LIST, ""))
    found = tide("deliver", "readings")
    assert found.exit_code == 2
    assert "has no list deliver in its YAML" in found.output


def test_doctor_asks_the_systems(tide: Tide, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PG", '{"conn_type": "postgres", "host": "127.0.0.1", "port": 1}')
    monkeypatch.setenv("AIRFLOW_CONN_MARIA", '{"conn_type": "sqlite", "host": "x"}')
    found = the_json(tide("doctor", "--json"))
    said = {f["about"]: f for f in found["findings"] if f["check"] in ("deliveries", "connections")}
    assert said["readings.shop"]["level"] == "wrong"
    assert "windows are published, and wait" in said["readings.shop"]["means"]
    assert said["maria"]["level"] == "wrong", "a connection of another type"


# ---------------------------------------------------------------- late and dirty tables


@pytest.fixture
def beside(lab: Lab) -> Lab:
    """Batch 2 has a late row."""
    there = f"file://{lab.world.folder}/there"
    text = Path(lab.world.folder, "pipelines/readings.yaml").read_text().replace(LIST, BESIDE.format(there=there))
    Path(lab.world.folder, "pipelines/readings.yaml").write_text(text)
    lab.world.pipeline = load_file(lab.world.folder / "pipelines/readings.yaml")
    lab.world.produce(record("late", 0.2))
    lab.world.ingest("second")
    lab.servers |= {one.name: Server() for one in lab.pipeline.deliver}
    return lab


def test_a_batch_without_such_rows_is_named(tide: Tide, beside: Lab) -> None:
    found = tide("deliver", "readings", "--batch", "99", "--skip", "--why", "not wanted")
    words = "no such batch has late rows, or it stands there already: nothing to skip"
    assert found.stdout == f"site.late: {words}\n"


def test_a_side_tables_unit_is_a_batch(tide: Tide, beside: Lab) -> None:
    assert [one.name for one in beside.pipeline.deliver] == ["site.late", "site"]
    found = tide("deliver", "readings", "--dry-run")
    assert "site.late: 1 batch\n  batch 2 version 1: was never sent\nsite: 2 windows\n" in found.stdout
    assert "site.late: 0 batches stand there; 1 waits, the oldest (batch 2) for" in tide("status", "readings").output
    found = tide("deliver", "readings", "2013-01-05T00")
    assert found.stdout == "site: 1 delivered, 2 rows\n"
    assert tide("compare", "readings").stdout == "site.late: no batch was ever sent\nsite: 1 unchanged, 2 rows\n"
    found = tide("deliver", "readings", "--batch", "2", "--skip", "--why", "not there", "--to", "site.late")
    assert (found.exit_code, found.stdout) == (0, "site.late: 1 skipped, 0 rows\n")
    assert "name windows or a batch" in tide("deliver", "readings", "2013-01-05T00", "--batch", "2").output
    found = tide("deliver", "readings", "--to", "site.late")
    assert (found.exit_code, found.stdout) == (0, "site.late: nothing is due\n")
    assert "site.late" not in tide("explain", "readings", "2013-01-05T00").output


# ---------------------------------------------------------------- compare


def test_compare_changes_nothing_and_names_what_differs(tide: Tide, lab: Lab) -> None:
    assert tide("compare", "readings").stdout == "shop: no window was ever sent\nother: no window was ever sent\n"
    tide("deliver", "readings")
    assert tide("compare", "readings").stdout == "shop: 2 unchanged, 4 rows\nother: 2 unchanged, 4 rows\n"
    del lab.server.rows[T0]
    sent = list(lab.server.sent)
    found = tide("compare", "readings", "--to", "shop")
    assert found.exit_code == 1
    assert found.stdout == (
        "shop: 1 differs, 1 unchanged, 2 rows\n"
        "  2013-01-05T00:00Z differs: 0 rows there, 2 were delivered\n"
        "    site=a: 1 row here, 0 there\n"
        "    site=b: 1 row here, 0 there\n"
        "    what to do: to send it again: tidegate deliver readings 2013-01-05T00:00Z --to shop\n"
    )
    assert (lab.server.sent, T0 in lab.server.rows) == (sent, False)
    assert "shop: nothing is due" in tide("deliver", "readings", "--to", "shop").stdout
    assert tide("compare", "readings", "-s", "2013-01-05T01", "--to", "shop").stdout == "shop: 1 unchanged, 2 rows\n"


def test_compare_fixes_what_differs_alone(tide: Tide, lab: Lab) -> None:
    tide("deliver", "readings")
    del lab.server.rows[T0]
    lab.server.rows[T0 + HOUR].pop()
    sent = len(lab.server.sent)
    assert "--fix needs --why" in tide("compare", "readings", "--fix").output
    found = tide("compare", "readings", "--fix", "--why", "deleted by hand", "--json")
    (first, second), others = the_json(found)["deliveries"]["shop"], the_json(found)["deliveries"]["other"]
    assert (found.exit_code, first["what"], second["what"]) == (0, "delivered", "delivered")
    assert [len(first["parts"]), len(second["parts"])] == [2, 1], "it says what it has put right"
    assert [one["what"] for one in others] == ["unchanged", "unchanged"]
    assert (lab.server.ids(T0), len(lab.server.sent)) == (["0-0", "0-1"], sent + 2)


def test_compare_tells_of_what_waits_and_of_a_system_that_is_down(tide: Tide, lab: Lab) -> None:
    tide("deliver", "readings", "2013-01-05T00", "--to", "shop")
    found = tide("compare", "readings", "-s", "2013-01-05T00", "-e", "2013-01-05T01", "--to", "shop")
    assert (found.exit_code, found.stdout) == (0, "shop: 1 unchanged, 1 waits, 2 rows\n")
    lab.server.down = True
    found = tide("compare", "readings", "--to", "shop")
    assert found.exit_code == 1
    assert "failed: the server did not answer" in found.stdout


def test_compare_makes_a_table_again_that_was_dropped_there(tide: Tide, lab: Lab) -> None:
    tide("deliver", "readings")
    lab.server.columns = ()
    lab.server.rows.clear()
    lab.server.tokens.clear()
    found = tide("compare", "readings", "--to", "shop")
    assert found.exit_code == 1
    assert "2013-01-05T00:00Z refused: there is no such table or column" in found.stdout
    advice = "what to do: if the table there, or a column of it, is missing: tidegate compare readings --to shop --fix"
    assert advice in found.stdout
    found = tide("compare", "readings", "--to", "shop", "--fix", "--why", "the table was dropped")
    assert (found.exit_code, lab.server.ids(T0)) == (0, ["0-0", "0-1"]), found.stdout
    assert tide("compare", "readings", "--to", "shop").stdout == "shop: 2 unchanged, 4 rows\n"


def test_a_part_that_is_missing_and_hours_that_differ_are_put_right_in_one_run(
    tide: Tide, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One hour had rows in a shard that has lost its table, the other one has lost rows elsewhere."""
    tide("deliver", "readings")
    monkeypatch.setattr(lab.kind, "missing", lambda _: Missing(left=((T0, 1), (T0 + HOUR, 2))))
    lab.server.rows[T0 + HOUR].pop()
    sent = len(lab.server.sent)
    found = tide("compare", "readings", "--to", "shop", "--fix", "--why", "a shard was lost", "--json")
    first, second = the_json(found)["deliveries"]["shop"]
    assert (found.exit_code, first["what"], second["what"]) == (0, "delivered", "delivered")
    assert (len(second["parts"]), len(lab.server.sent)) == (1, sent + 2)
    assert lab.server.ids(T0 + HOUR) == ["1-0", "1-1"]


def test_compare_without_anything_to_compare_is_refused(tide: Tide, lab: Lab) -> None:
    path = lab.world.folder / "pipelines/readings.yaml"
    path.write_text(path.read_text().replace(LIST, ""))
    found = tide("compare", "readings")
    assert found.exit_code == 2
    assert "neither a section copy nor a list deliver" in found.output
