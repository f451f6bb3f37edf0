"""`tidegate failover` as an operator runs it: words, exit codes, JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_cli_commands import Tide, add_yaml, the_json, tide, write_env
from tests.cli.test_cli_status import words
from tests.failover.sites import Copier, TwoSites
from tests.world import TOPIC
from tidegate.cli import surroundings
from tidegate.core.failover import counting
from tidegate.spec import load_file
from tidegate.workflow.base.columns import at_active_site

__all__ = ["tide"]  # a fixture
SITES = (
    "{conn_id: kafka, topic: readings, gaps: allow, sites: [{name: oslo, conn_id: kafka}, "
    "{name: bergen, conn_id: kafka_2}]}"
)
WHY = ("--why", "Oslo has no power")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TwoSites]:
    add_yaml(tmp_path, "readings")
    path = tmp_path / "pipelines/readings.yaml"
    path.write_text(path.read_text().replace("{conn_id: kafka, topic: readings}", SITES))
    made = TwoSites(tmp_path)
    made.pipeline = load_file(path)
    made.write("oslo", "a", "b")
    made.drain("r1")
    made.write("oslo", "c", "d")
    made.there.run(3, partition=0)
    write_env(tmp_path, made.database)
    yield made
    made.close()


@pytest.fixture
def fo(tide: Tide, world: TwoSites, monkeypatch: pytest.MonkeyPatch) -> Tide:
    def source(pipeline, timeout_s=1.0):
        with surroundings.ledger() as ledger:
            return world.at[at_active_site(pipeline, ledger).source.site]

    monkeypatch.setattr(surroundings, "source", source)
    monkeypatch.setattr("tidegate.wiring.standby_of", lambda pipeline, site, lookup=None: world.standbys[site])
    return tide


def test_a_plan_shows_both_readings_and_changes_nothing(fo: Tide, world: TwoSites) -> None:
    shown = fo("failover", "plan", "readings", "--to", "bergen", "--stopped")
    assert shown.exit_code == 0, shown.output
    said = words(shown)
    assert "site oslo is active, by batches of topic id id-1" in said
    assert "partition 0: oslo has landed up to 2; copies reach up to 3" in said
    assert "bergen: mark 3, 1 copied record to read; new records from there on" in said
    assert "of oslo, offsets from 3 on never crossed: they are read when it returns" in said
    assert "plan " in said
    told = the_json(fo("failover", "plan", "readings", "--to", "bergen", "--stopped", "--json"))
    assert (told["site"], told["before"], told["refusals"]) == ("bergen", "oslo", [])
    assert told["partitions"][0]["landed"] == 2
    assert fo("failover", "plan", "readings", "--to", "bergen", "--stopped").output.endswith(f"plan {told['plan']}\n")
    assert world.context().pipeline.source.site == "oslo"


def test_a_refusal_says_what_to_do(fo: Tide, world: TwoSites) -> None:
    world.there.plain = True
    world.there.run()
    shown = fo("failover", "plan", "readings", "--to", "bergen")
    assert shown.exit_code == 1
    assert "REFUSED, mark unknown: nobody says that copying to site bergen has stopped" in words(shown)
    assert "REFUSED, no coordinates: partition 0: 1 record from offset 3 to 3" in words(shown)
    assert "2 reasons above" in words(shown)
    run = fo("failover", "run", "readings", "--to", "bergen", "--stopped", *WHY, "--yes")
    assert (run.exit_code, world.context().pipeline.source.site) == (1, "oslo")
    assert fo("failover", "plan", "readings", "--to", "tromso").exit_code == 1
    assert fo("failover", "plan", "readings", "--to", "bergen", "--mark", "0:3").exit_code == 2


def test_there_and_back(fo: Tide, world: TwoSites) -> None:
    run = ("failover", "run", "readings", "--to", "bergen", "--stopped")
    assert "--why is needed" in fo(*run).output
    assert fo(*run, *WHY, input="n\n").exit_code == 1
    assert fo(*run, *WHY, "--yes", "--plan", "000000000000").exit_code == 1
    done = fo(*run, *WHY, input="y\n")
    assert done.exit_code == 0, done.output
    assert "site bergen is active (failover 1): the next run of readings.ingest reads there" in words(done)
    event = the_json(fo("events", "readings", "-n", "1", "--json"))["events"][0]
    assert (event["what"], event["subject"], event["detail"]["why"]) == ("failover", "site bergen", WHY[1])
    world.write("bergen", "e")
    world.drain("r2")
    status = fo("status", "readings")
    assert "recreated" not in status.output, status.output

    assert fo("failover", "run", "readings", "--to", "oslo", "--stopped", *WHY, "--yes").exit_code == 1
    noted = fo("failover", "back", "readings", *WHY, "--yes")
    assert noted.exit_code == 0, noted.output
    assert "partition 0: [3, 4), 1 offset at most" in words(noted)
    assert "copy from site bergen to site oslo, from these offsets on: partition 0: 3 partition 1: 0" in words(noted)
    Copier(world.at["bergen"], world.at["oslo"], starts={0: 3, 1: 0}).run()
    back = fo("failover", "back", "readings", "--stopped", *WHY, "--yes")
    assert back.exit_code == 0, back.output
    assert "site oslo is active (failover 2)" in words(back)
    world.write("oslo", "f")
    world.drain("r3")
    assert world.rows() == sorted(world.produced)
    assert the_json(fo("audit", "readings", "--json", "-q"))["balanced"]


def test_a_partition_that_came_meanwhile_is_copied_back_from_its_beginning(fo: Tide, world: TwoSites) -> None:
    assert fo("failover", "run", "readings", "--to", "bergen", "--stopped", *WHY, "--yes").exit_code == 0
    for site in world.at.values():
        site.add_partitions(TOPIC, 3)
    world.write("bergen", "e", partition=2)
    world.drain("r2")
    noted = fo("failover", "back", "readings", *WHY, "--yes")
    assert noted.exit_code == 0, noted.output
    assert "from these offsets on: partition 0: 3 partition 1: 0 partition 2: 0" in words(noted)


def test_a_lost_switch_is_adopted(fo: Tide, world: TwoSites) -> None:
    assert fo("failover", "adopt", "readings", *WHY, "--yes").exit_code != 0
    world.close()
    before = world.database.read_bytes()
    assert fo("failover", "run", "readings", "--to", "bergen", "--stopped", *WHY, "--yes").exit_code == 0
    world.close()
    world.database.write_bytes(before)
    done = fo("failover", "adopt", "readings", *WHY, "--yes")
    assert done.exit_code == 0, done.output
    assert "failover 1: from site oslo to site bergen, because: Oslo has no power" in words(done)
    assert world.context().pipeline.source.site == "bergen"


def test_a_known_pair_is_proven_by_rows_that_have_landed(
    fo: Tide, world: TwoSites, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "FEWEST", 2)
    world.stamped = True
    world.write("oslo", "e", "f", "g")
    world.drain("r2")
    world.write("oslo", "h")
    copier = Copier(world.at["oslo"], world.at["bergen"], plain=True, starts={0: 3})
    world.at["bergen"].create(TOPIC, 2)
    copier.run()
    told = ("failover", "plan", "readings", "--to", "bergen", "--stopped", "--pair")
    shown = fo(*told, "0=4:1")
    assert shown.exit_code == 0, shown.output
    assert "counted from pair 4:1 on; compared with what oslo has, once that returns" in words(shown)
    assert "bergen: mark 5, 1 copied record to read" in words(shown)
    wrong = fo(*told, "0=4:0")
    assert wrong.exit_code == 1
    assert "REFUSED, a difference in the overlap: partition 0: from pair 4:0 on, the record at 4 landed" in words(wrong)
    assert fo(*told, "0=4").exit_code == 2
    assert the_json(fo(*told, "0=4:1", "--json"))["partitions"][0]["pair"] == {"before": 4, "here": 1}
    done = fo("failover", "run", "readings", "--to", "bergen", "--stopped", "--pair", "0=4:1", *WHY, "--yes")
    assert done.exit_code == 0, done.output
    event = the_json(fo("events", "readings", "-n", "1", "--json"))["events"][0]
    assert event["detail"]["pairs"] == {"0": "4:1"}
    noted = fo("failover", "back", "readings", *WHY, "--yes")
    assert "if the copier writes no header, with --pair 0=5:8 --pair 1=0:0" in words(noted), noted.output
    world.drain("r3")
    assert world.rows() == sorted(world.produced)


def test_where_counted_copies_end_is_told_as_a_lower_bound(
    fo: Tide, world: TwoSites, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offsets of control records are known of what has landed alone."""
    monkeypatch.setattr(counting, "FEWEST", 2)
    world.stamped = True
    world.write("oslo", "e", "f", "g")
    world.drain("r2")
    world.at["oslo"].skip(TOPIC, 0)
    world.write("oslo", "h")
    world.at["bergen"].create(TOPIC, 2)
    Copier(world.at["oslo"], world.at["bergen"], plain=True, starts={0: 3}).run()
    shown = words(fo("failover", "plan", "readings", "--to", "bergen", "--stopped", "--pair", "0=4:1"))
    assert "partition 0: oslo has landed up to 7; copies reach up to 8 or beyond" in shown
    assert "of oslo, offsets from 8 or a later one on never crossed: it says which when it returns" in shown
    assert "partition 1: oslo has landed up to 0; nothing has crossed" in shown
    assert "of oslo, offsets from 0 on never crossed: they are read when it returns" in shown


@pytest.mark.parametrize("given", [("--pair", "0=4:1", "--pair", "0=4:2"), ("--mark", "0=3", "--mark", "0=3")])
def test_a_partition_is_named_once(fo: Tide, given: tuple[str, ...]) -> None:
    shown = fo("failover", "plan", "readings", "--to", "bergen", *given)
    assert (shown.exit_code, "partition 0 is named twice" in shown.output) == (2, True), shown.output
