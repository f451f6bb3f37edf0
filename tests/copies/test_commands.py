"""`tidegate copy` and `tidegate compare` of a mirror, on a source in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cli.test_cli_commands import Tide, the_json, write_env
from tests.copies import test_servers
from tests.copies.servers import SERVERS, A, B, ServersWorld
from tests.copies.test_parts import begun
from tests.copies.worlds import COPYING, CopyWorld
from tests.mirror.audits import Here
from tests.world import TOPIC, World
from tidegate import wiring
from tidegate.adapters import mirror_comparison
from tidegate.cli import surroundings
from tidegate.cli.main import main
from tidegate.core.base.errors import SourceUnavailable


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopyWorld]:
    """Copied once; a file of its YAML and one of its environment lie beside."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines/readings.yaml").write_text(COPYING.format(location=f"file://{tmp_path}/lake/readings"))
    made = begun(tmp_path)
    write_env(tmp_path, made.database)
    yield made
    made.close()


@pytest.fixture
def tide(world: CopyWorld, monkeypatch: pytest.MonkeyPatch) -> Tide:
    return commands(world, monkeypatch)


def commands(world: World, monkeypatch: pytest.MonkeyPatch) -> Tide:
    """The CLI, of that world."""
    for name in [n for n in os.environ if n.startswith(("AIRFLOW", "TIDEGATE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(world.folder)

    @contextmanager
    def working(*_: Any) -> Iterator[Any]:
        yield world.context()

    @contextmanager
    def database(*_: Any, server: str = "") -> Iterator[Any]:
        if server in getattr(world, "down", ()):
            raise SourceUnavailable(f"{server} gives no answer")
        yield world.copied_from(server)

    monkeypatch.setattr(surroundings, "working", working)
    monkeypatch.setattr(surroundings, "looking", working)
    monkeypatch.setattr(wiring, "open_database", database)
    monkeypatch.setattr(mirror_comparison, "TableProcess", lambda **_: Here())

    def run(*arguments: str) -> Result:
        world.close()
        result = CliRunner().invoke(main, arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def test_some_keys_are_compared_and_read_again(tide: Tide, world: CopyWorld) -> None:
    world.source_table.lose(8)
    found = tide("compare", "readings", "--from", "7", "--until", "9")
    assert found.exit_code == 1
    assert "2 rows of the source" in found.stdout
    assert "1 key in the mirror, not in the source" in found.stdout
    assert tide("compare", "readings", "--from", "7").exit_code == 0, "one key alone"
    found = tide("copy", "readings", "--again", "--from", "7", "--until", "9", "--why", "deleted by hand")
    assert found.exit_code == 0, found.output
    assert found.stdout == (
        "readings: 2 rows of 1 chunk read; copy 4 (id 7 to 9) is in; copy 1 is whole: 11 rows up to batch 1\n"
    )
    assert the_json(tide("compare", "readings", "--from", "1", "--until", "12", "--json"))["differ"] == {}


def test_the_whole_table_is_read_again(tide: Tide, world: CopyWorld) -> None:
    world.source_table.lose(8)
    found = tide("copy", "readings", "--again", "--why", "deleted by hand")
    assert found.stdout == "readings: 11 rows of 4 chunks read; copy 2 is whole: 11 rows up to batch 1\n"
    assert tide("copy", "readings").stdout == "readings: nothing to read; copy 2 is whole: 11 rows up to batch 1\n"


def test_a_topic_that_was_recreated_says_what_reads_the_changes_it_has_lost(tide: Tide, world: CopyWorld) -> None:
    world.kafka.delete(TOPIC)
    world.kafka.create(TOPIC, 1)
    found = tide("source", "reset", "readings", "--why", "more partitions", "--yes")
    assert found.exit_code == 0, found.output
    assert "tidegate copy readings --again --why ..." in found.stdout


def test_what_does_not_go_together_is_refused(tide: Tide) -> None:
    for arguments, why in (
        (("copy", "readings", "--from", "7"), "--from and --until go with --again"),
        (("copy", "readings", "--again", "--until", "7", "--why", "x"), "--until needs --from"),
        (("copy", "readings", "--again", "--from", "7"), "--again needs --why"),
        (("compare", "readings", "-s", "2013-01-05"), "is a mirror, which has no deliveries"),
    ):
        found = tide(*arguments)
        assert (found.exit_code, why in found.output) == (2, True), found.output


def several(
    begun: Callable[[Path], ServersWorld], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[ServersWorld, Tide]:
    """A mirror of several servers, and its commands."""
    (folder / "pipelines").mkdir()
    (folder / "pipelines/readings.yaml").write_text(SERVERS.format(location=f"file://{folder}/lake/readings"))
    world = begun(folder)
    write_env(folder, world.database)
    return world, commands(world, monkeypatch)


def test_servers_are_read_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, tide = several(test_servers.begun, tmp_path, monkeypatch)
    assert tide("copy", "readings", "--dry-run").stdout == (
        f"readings: copy 1 would read shop.readings of server {A} by id, about 8 rows\n"
        f"readings: copy 1 would read shop.readings of server {B} by id, about 5 rows\n"
    )
    found = tide("copy", "readings")
    assert found.stdout == "readings: 13 rows of 5 chunks read; copy 2 is whole: 13 rows up to batch 1\n"
    world.source_tables[B].lose(1)
    found = tide("copy", "readings", "--again", "--server", B, "--why", "it was restored")
    assert found.stdout == "readings: 4 rows of 2 chunks read; copy 3 is whole: 12 rows up to batch 1\n"
    assert world.found() == world.source
    world.down = {A}
    world.again(A, "it died in its copy")
    world.source_tables[B].lose(2)
    found = tide("copy", "readings", "--again", "--server", B, "--why", "it was restored")
    assert (found.exit_code, "3 rows of 2 chunks read; the copy is not whole yet" in found.stdout) == (0, True), (
        found.output
    )
    found = tide("copy", "readings")
    assert (found.exit_code, f"server {A}: not read: {A} gives no answer" in found.stdout) == (3, True)
    assert f"{A} gives no answer" in the_json(tide("copy", "readings", "--json"))["not_read"][A]
    world.down = set()
    assert "copy 5 is whole" in tide("copy", "readings").stdout
    assert world.found() == world.source
    for arguments, why in (
        (("copy", "readings", "--again", "--why", "x"), f"--again needs --server: one of {A}, {B}"),
        (("copy", "readings", "--again", "--server", "c", "--why", "x"), "--again needs --server"),
        (("copy", "readings", "--server", A), "--server goes with --again"),
        (("compare", "readings", "--server", "c"), f"--server is for copy.servers: one of {A}, {B}"),
    ):
        found = tide(*arguments)
        assert (found.exit_code, why in found.output) == (2, True), found.output
    world.close()


def test_each_server_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, tide = several(test_servers.copied, tmp_path, monkeypatch)
    world.source_tables[B].lose(1)
    found = tide("compare", "readings")
    assert found.exit_code == 1
    words = " ".join(found.stdout.split())
    assert f"8 rows of server {A} with readings" in words
    assert f"4 rows of server {B} with readings" in words
    assert f"tidegate compare readings --server {B} --fix --why ..." in words
    assert tide("compare", "readings", "--server", A).exit_code == 0
    told = the_json(tide("compare", "readings", "--json"))["servers"]
    assert [(one["server"], one["differ"]) for one in told] == [(A, {}), (B, {"surplus": 1})]
    assert tide("compare", "readings", "--server", B, "--from", "1", "--fix", "--why", "by hand").exit_code == 0
    assert world.found() == world.source
    found = tide("copy", "readings", "--again", "--server", B, "--from", "2", "--until", "3", "--why", "by hand")
    assert "copy 9 (server shop-b, id 2 to 3) is in; copy 2 is whole: 12 rows up to batch 1" in found.stdout
    world.down = {A}
    found = tide("compare", "readings")
    assert (found.exit_code, f"server {A}: {A} gives no answer" in " ".join(found.stdout.split())) == (1, True)
    assert f"4 rows of server {B}" in " ".join(found.stdout.split())
    world.close()
