"""Files for readers by path: those that the ledger has in force are those that Hive's partitions hold."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.test_cli_commands import Tide, the_json, tide
from tests.cli.test_cli_commands import world as command_world
from tests.hooks import Died, die
from tests.late.reopenings import begun, reopened
from tests.world import HOUR, T0, World, make_pipeline, record, window
from tidegate.core.base.errors import LedgerError, NotReady, SpecError
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.publish.in_force import WindowFiles
from tidegate.core.spec.pipeline import Column
from tidegate.files import files_in_force
from tidegate.targets.hive import table
from tidegate.workflow.late import reopen
from tidegate.workflow.look import files
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import rollback

__all__ = ["command_world", "tide"]
HOUR_0 = "2013-01-05T00:00Z"
world = command_world


def life(folder: Path, swap: str) -> World:
    """Hour 0 is published with two rows, two late rows wait for it."""
    spec = make_pipeline(f"file://{folder}/lake/readings")
    return begun(World(folder, replace(spec, archive=replace(spec.archive, swap=swap))))


def asked(world: World, hour: int = 0, late: bool = False) -> WindowFiles:
    ledger = world.context().ledger
    (found,) = (files.late if late else files.in_force)(ledger, world.pipeline, [window(hour)])  # type: ignore[arg-type]
    world.close()
    return found


def in_hive(world: World, table: str = "lake.readings", hour: str = "00") -> dict[PartitionValues, list[str]]:
    """What a query of the hour reads, by its partitions."""
    found = {}
    for values, place in world.partitions(table).items():
        folder = Path(place.removeprefix("file://"))
        here = [f"file://{p}" for p in sorted(folder.iterdir()) if p.is_file() and not p.name.startswith(("_", "."))]
        if dict(values)["hour"] == hour and here:
            found[values] = here
    return found


def same_as_hive(world: World, generation: int, kind: str) -> WindowFiles:
    found = asked(world)
    assert (found.generation, found.kind, found.swapping, found.why) == (generation, kind, None, "")
    assert {values: sorted(paths) for values, paths in found.by_values().items()} == in_hive(world)
    assert found.rows == len(world.by_window()["00"])
    assert found.bytes == sum(Path(p.removeprefix("file://")).stat().st_size for p in found.paths)
    assert Path((found.certificate or "").removeprefix("file://")).exists()
    return found


def another_column(world: World) -> None:
    world.change_spec(columns=(*world.pipeline.columns, Column(name="note", type="string", path="$.id")))


@pytest.mark.parametrize("swap", ["pointer", "directory"])
def test_after_every_way_to_a_new_generation(tmp_path: Path, swap: str) -> None:
    world = life(tmp_path, swap)
    first = same_as_hive(world, 1, "archive")
    assert (first.partition, len(first.files)) == ("date=2013-01-05/hour=00", 2)
    assert set(in_hive(world, "lake.readings__late")) == set(asked(world, late=True).by_values())
    reopened(world)
    same_as_hive(world, 2, "reopen")
    another_column(world)
    world.replay(0)
    replayed = same_as_hive(world, 3, "replay")
    assert any(dict(f.values)["site"] == "new" for f in replayed.files)
    Path(replayed.paths[0].removeprefix("file://")).unlink()
    assert asked(world) == replayed, "no directory is listed"
    world.archive(0)
    healed = same_as_hive(world, 4, "heal")
    assert not set(healed.paths) & set(replayed.paths)
    ctx = world.context()
    archive.announced(ctx, rollback.rollback(ctx, window(0), 2, "a test"))
    world.close()
    same_as_hive(world, 5, "rollback")


def test_a_window_whose_generation_is_being_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a pointer its files stay; where they make way for those of the next one, nobody is sent there."""
    for swap in ("pointer", "directory"):
        (tmp_path / swap).mkdir()
        world = life(tmp_path / swap, swap)
        before = asked(world)
        with monkeypatch.context() as patched:
            patched.setattr(table, "write_success", die)
            with pytest.raises(Died):
                reopened(world)
        found = asked(world)
        assert (found.generation, found.swapping) == (1, 2)
        assert (found.files, bool(found.why)) == (before.files, swap == "directory")
        there = [Path(p.removeprefix("file://")).exists() for p in found.paths]
        assert all(there) is (swap == "pointer")
        if found.why:
            with pytest.raises(NotReady, match=r"generation 2 is taking the directory of generation 1: ask again"):
                files.refuse_unready("readings", [found])
        reopened(world)
        same_as_hive(world, 2, "reopen")


def test_a_generation_that_is_replaced_between_two_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is of one generation, the one that was in force when it was given."""
    world = life(tmp_path, "directory")
    ledger = world.context().ledger.unwrapped  # type: ignore[attr-defined]
    real, looks = ledger.windows.get, list[int]()

    def get(name: str, key: object) -> object:
        seen = real(name, key)  # type: ignore[arg-type]
        looks.append(1)
        if len(looks) == 1:
            reopen.reopen(world.context(), window(0), "a test")
        return seen

    monkeypatch.setattr(ledger.windows, "get", get)
    (found,) = files.in_force(ledger, world.pipeline, [window(0)])  # type: ignore[arg-type]
    assert (found.generation, len(looks)) == (2, 2)
    assert all(Path(p.removeprefix("file://")).exists() for p in found.paths)
    world.close()


def test_late_files_are_those_that_no_generation_holds(tmp_path: Path) -> None:
    world = life(tmp_path, "pointer")
    late = asked(world, late=True)
    assert (late.rows, late.kind, late.generation, late.why) == (2, "late", 1, "")
    assert late.by_values() == in_hive(world, "lake.readings__late")
    assert late.location == f"{world.location}/_tidegate/late"
    world.produce(record("on", 4.5))
    world.produce(record("on", 4.5), partition=1)
    world.ingest("r3")
    world.archive(1)
    world.produce(record("late 3", 0.2), record("late 4", 1.2))
    world.ingest("r4")
    assert asked(world, late=True).rows == 3
    assert asked(world, 1, late=True).by_values() == in_hive(world, "lake.readings__late", "01")
    reopened(world)
    assert (asked(world, late=True).files, asked(world, 1, late=True).rows) == ((), 1)


def test_special_partition_values(tmp_path: Path) -> None:
    """A blank or null value is Hive's default partition; a slash is escaped in the path, which is no URL."""
    world = World(tmp_path)
    world.produce(record("a", 0.1, "x/y z"), record("b", 0.1, ""), record("c", 2.5))
    world.produce(record("d", 0.1) | {"site": None}, record("e", 2.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    found = same_as_hive(world, 1, "archive")
    assert {dict(v)["site"] for v in found.by_values()} == {"x/y z", None}
    assert any("/site=x%2Fy%20z/" in path for path in found.paths)


# ---------------------------------------------------------------- the command and the function


def test_the_command(tide: Tide, world: World) -> None:
    shown = tide("files", "readings", HOUR_0)
    assert shown.exit_code == 0, shown.output
    head, *rows = shown.stdout.splitlines()
    assert head.startswith("2013-01-05T00:00Z generation 1 (archive): 2 rows in 2 files, ")
    assert [row.split()[1] for row in rows] == [f"date=2013-01-05/hour=00/site={s}" for s in "ab"]
    found = the_json(tide("files", "lake.readings", "date=2013-01-05/hour=00", "--json"))
    (one,) = found["windows"]
    assert (found["table"], one["generation"], one["rows"], one["why"]) == ("lake.readings", 1, 2, "")
    assert [f["values"]["site"] for f in one["files"]] == ["a", "b"]
    for f in one["files"]:
        assert Path(f["path"].removeprefix("file://")).stat().st_size == f["bytes"]
    (one,) = the_json(tide("files", "readings", HOUR_0, "--late", "--json"))["windows"]
    assert (one["kind"], one["files"]) == ("late", [])


def test_a_window_that_is_not_published(tide: Tide, world: World) -> None:
    result = tide("files", "readings", HOUR_0, "-e", "2013-01-05T01:00Z")
    assert result.exit_code == 1
    assert "2013-01-05T01:00Z: the window is not published (OPEN)\n" in result.stdout
    assert "  what to do: tidegate explain readings 2013-01-05T01:00Z\n" in result.stdout
    address = f"sqlite:///{world.database}"
    with pytest.raises(NotReady, match=r"readings 2013-01-05T01:00Z: the window is not published"):
        files_in_force("readings", HOUR_0, "2013-01-05T01:00Z", ledger=address)


def test_an_hour_without_rows_has_no_files(tide: Tide, world: World) -> None:
    world.produce(record("late enough", 8.0))
    world.produce(record("late enough", 8.0), partition=1)
    world.ingest("readings.ingest/r2")
    world.archive(4)
    result = tide("files", "readings", "2013-01-05T04:00Z", "--json")
    (one,) = the_json(result)["windows"]
    assert (result.exit_code, one["generation"], one["rows"], one["files"]) == (0, 1, 0, [])


def test_the_function_needs_the_ledger_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.close()
    address = f"sqlite:///{world.database}"
    (one,) = files_in_force("lake.readings", datetime(2013, 1, 5, tzinfo=UTC), ledger=address)
    assert (one.window.start_ms, one.window.end_ms, one.rows) == (T0, T0 + HOUR, 2)
    (world.folder / "pipelines/readings.yaml").unlink()
    assert files_in_force("readings", "20130105T000000Z", ledger=address) == [one]
    monkeypatch.setenv("AIRFLOW_CONN_TIDEGATE_LEDGER", f'{{"conn_type": "sqlite", "host": "{world.database}"}}')
    assert files_in_force("readings", HOUR_0) == [one]
    with pytest.raises(LedgerError, match="the ledger knows no pipeline reading; did you mean readings"):
        files_in_force("reading", HOUR_0, ledger=address)
    with pytest.raises(ValueError, match="'yesterday' is neither an instant"):
        files_in_force("readings", "yesterday", ledger=address)
    with pytest.raises(ValueError, match="is before"):
        files_in_force("readings", "2013-01-05T02:00Z", HOUR_0, ledger=address)
    with pytest.raises(SpecError, match=r"is before windows\.start"):
        files_in_force("readings", "2012-01-05", ledger=address)


@pytest.mark.parametrize(
    ("words", "code"), [(("yesterday",), 2), (("2012-01-05",), 2), ((HOUR_0, "-e", "2013-01-04"), 2)]
)
def test_usage(tide: Tide, words: tuple[str, ...], code: int) -> None:
    assert tide("files", "readings", *words).exit_code == code
    assert tide("files", "nothing", HOUR_0).exit_code == 3
