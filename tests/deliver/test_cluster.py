"""Hours on their way to another cluster: bytes, checksums, one rename; a try goes on where one ended."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.deliver.cluster_lab import T0, TABLE, Around, ClusterLab, more_columns, send, take
from tests.world import record, window
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import (
    CatalogueError,
    DeliveryRefused,
)
from tidegate.core.doctor.findings import OK, WRONG
from tidegate.kinds import delivery_kind
from tidegate.targets.cluster.copying import Pace
from tidegate.targets.hive.ports import TableDef
from tidegate.wiring import sender_of
from tidegate.workflow.replay import rollback


@pytest.fixture
def lab(tmp_path: Path) -> ClusterLab:
    return ClusterLab(tmp_path)


def test_an_hour_arrives_byte_by_byte(lab: ClusterLab) -> None:
    lab.hours(2)
    assert lab.deliver() == ["delivered", "delivered"]
    for hour in (0, 1):
        assert lab.copied(hour) == lab.own(hour) != []
        assert lab.ids(hour) == [f"{hour}-0", f"{hour}-1"]
    assert lab.states() == ["STANDING 1.1", "STANDING 1.1"]
    assert lab.deliver() == []
    assert lab.names("copies") == []
    assert lab.verify(0, 1) == ["unchanged", "unchanged"]


def test_what_is_not_in_the_manifest_is_not_copied(lab: ClusterLab) -> None:
    lab.hours(1)
    own = next((lab.world.folder / "lake").rglob("*.parquet"))
    shutil.copy(own, own.with_name("stray.parquet"))
    lab.deliver()
    assert lab.ids() == ["0-0", "0-1"]


def test_success_is_an_option(tmp_path: Path) -> None:
    for success in (True, False):
        folder = tmp_path / str(success)
        folder.mkdir()
        lab = ClusterLab(folder, success=str(success))
        lab.hours(1)
        lab.deliver()
        assert bool(list(lab.root.rglob("_SUCCESS"))) == success
        assert lab.verify(0) == ["unchanged"]


def test_one_rename_of_a_directory_brings_a_window(tmp_path: Path) -> None:
    around = Around()
    lab = ClusterLab(tmp_path, wrap_far=around, success="False")
    lab.hours(1)
    lab.deliver()
    renames = [call for call in around.calls if call.startswith("rename")]
    assert len(renames) == 1
    assert "_tidegate/copies/" in renames[0]
    # and the catalogue was asked only once all was there
    assert around.calls.index(renames[0]) < next(i for i, c in enumerate(around.calls) if c.startswith("add_part"))


def test_a_replay_and_a_rollback_follow(lab: ClusterLab) -> None:
    lab.hours(2)
    lab.deliver()
    first = lab.locations()
    more_columns(lab)
    assert lab.world.replay(0).generation == 2
    assert lab.deliver() == ["delivered"]
    assert lab.copied() == lab.own()
    assert {row["x"] for row in lab.rows()} == {"0-0", "0-1"}
    assert "x" in dict(lab.far._tables[TABLE].definition.columns)
    second = lab.locations()
    assert set(first).isdisjoint(second)
    with lab.context() as ctx:
        rollback.rollback(ctx, window(0), 1, "worse")
    assert lab.deliver() == ["delivered"]
    assert lab.copied() == lab.own()
    assert set(lab.locations()).isdisjoint(first + second)
    assert lab.states() == ["STANDING 3.3", "STANDING 1.1"]


def test_a_metastore_turns_a_window_at_once(tmp_path: Path) -> None:
    around = Around()
    lab = ClusterLab(tmp_path, wrap_far=around, metastore_conn_id="metastore")
    lab.hours(1)
    lab.deliver()
    more_columns(lab)
    lab.world.replay(0)
    around.calls.clear()
    lab.deliver()
    assert [c for c in around.calls if c.startswith(("set_", "switch_"))] == [f"switch_partitions {TABLE}"]
    assert lab.copied() == lab.own()


def test_an_empty_hour_without_other_partitions_has_a_partition(tmp_path: Path) -> None:
    lab = ClusterLab(tmp_path)
    lab.world.change_spec(partition_by=("date", "hour"), where="value > 100")
    lab.hours(1)
    assert lab.deliver() == ["delivered"]
    (place,) = lab.locations()
    assert [p.name for p in Path(place.removeprefix("file://")).iterdir()] == ["_SUCCESS"]
    assert lab.verify(0) == ["unchanged"]


@pytest.mark.parametrize("left", [1, 0])
def test_values_that_vanish_leave_no_partition(lab: ClusterLab, left: int) -> None:
    """An hour that has no rows any more has none (D6)."""
    lab.hours(2)
    lab.deliver()
    row, generation = take(lab)
    newer = replace(row, generation=2), replace(generation, files=generation.files[:left])
    standing = send(lab, newer, holds=True)
    assert standing.content.rows == left == len(lab.ids()) == len(lab.locations())
    assert lab.system().standing(T0) == standing
    assert lab.ids(1) == ["1-0", "1-1"]


def test_another_pipelines_directory_is_refused(lab: ClusterLab) -> None:
    lab.hours(1)
    lab.deliver()
    lab.one = replace(lab.one, name="other")
    system = lab.system()
    system._options = replace(system._options, delivery="other")
    with pytest.raises(DeliveryRefused, match="belongs to the delivery shop of readings"):
        system.prepare()
    (lab.root / "_tidegate" / "delivery.json").unlink()
    (lab.root / "_tidegate" / "hwm").mkdir()
    with pytest.raises(DeliveryRefused, match="is the table of a pipeline"):
        lab.system().prepare()


def test_a_table_that_is_another_one_is_refused(lab: ClusterLab) -> None:
    lab.hours(1)
    columns = (("id", "string"),)
    lab.far.ensure_table(TableDef(name=TABLE, columns=columns, partitions=columns[:0], location="file:///elsewhere"))
    with pytest.raises(DeliveryRefused, match="is not the one that the spec describes") as caught:
        lab.deliver()
    assert not caught.value.retry


def test_records_of_late_rows_stay_at_home(lab: ClusterLab) -> None:
    lab.hours(1)
    lab.world.produce(record("late", 0.2))
    lab.world.ingest("second")
    lab.deliver()
    assert lab.ids() == ["0-0", "0-1"]


# ---------------------------------------------------------------- checksums


def test_bytes_that_change_on_their_way_are_never_shown(lab: ClusterLab) -> None:
    lab.hours(1)
    real = lab.storage.open_new

    def spoilt(path: str) -> Any:
        file = real(path)
        write = file.write
        file.write = lambda data: write(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])  # type: ignore[method-assign]
        return file

    lab.storage.open_new = spoilt  # type: ignore[method-assign]
    assert lab.deliver() == ["failed"]
    assert lab.locations() == []
    lab.storage.open_new = real  # type: ignore[method-assign]
    assert lab.deliver() == ["delivered"]
    assert lab.copied() == lab.own()


@pytest.mark.parametrize("damage", ["shorter", "other rows"])
def test_a_file_that_is_not_its_manifests_is_never_shown(lab: ClusterLab, damage: str) -> None:
    lab.hours(2)
    own = {p.parent.name + p.parent.parent.name: p for p in sorted((lab.world.folder / "lake").rglob("*.parquet"))}
    first, second = (own[f"site=ahour=0{hour}"] for hour in (0, 1))
    if damage == "shorter":
        first.write_bytes(first.read_bytes()[:-1])
    else:
        size = first.stat().st_size
        first.write_bytes(second.read_bytes())
        if first.stat().st_size != size:  # lengths alone must not find it
            pytest.skip("the files differ in length")
    assert lab.deliver() == ["refused", "delivered"]
    assert lab.locations() == []


def test_what_somebody_changes_there_is_found_when_it_is_compared(lab: ClusterLab) -> None:
    lab.hours(1)
    for damage in ("bytes", "gone", "more", "partition"):
        lab.deliver()
        file = lab.files()[0]
        if damage == "bytes":
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(bytes(content))
        elif damage == "gone":
            file.unlink()
        elif damage == "more":
            shutil.copy(file, file.with_name("stray.parquet"))
        else:
            (values, *_) = lab.far.partitions(TABLE)
            lab.far.drop_partitions(TABLE, [values])
        assert lab.verify(0) == ["delivered"], damage
        assert lab.copied() == lab.own(), damage
        assert lab.verify(0) == ["unchanged"], damage


def test_a_rate_is_kept() -> None:
    now, slept = [100.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = Pace(1000, lambda: now[0], sleep)
    for _ in range(4):
        pace.wait_for(500)
    assert now[0] == pytest.approx(102.0)
    now[0] += 60  # what was not used then is not made up for
    pace.wait_for(1000)
    assert now[0] == pytest.approx(163.0)
    Pace(None, lambda: now[0], sleep).wait_for(10**12)
    assert now[0] == pytest.approx(163.0)


# ---------------------------------------------------------------- a try goes on where one ended


def test_a_file_that_was_copied_whole_is_not_copied_again(tmp_path: Path) -> None:
    around = Around()
    lab = ClusterLab(tmp_path, wrap_far=around)
    lab.hours(1)
    copies = [0]

    def breaks(do: Callable[[], Any]) -> Any:
        """The second file."""
        copies[0] += 1
        if copies[0] == 2:
            raise CatalogueError("the disk is full")
        around.changes["open_new"] = breaks
        return do()

    around.changes["open_new"] = breaks
    assert lab.deliver() == ["failed"]
    around.calls.clear()
    assert lab.deliver() == ["delivered"]
    assert len([call for call in around.calls if call.startswith("open_new")]) == 1
    assert lab.copied() == lab.own()
    assert lab.names("copies") == []


@pytest.mark.parametrize("damage", ["part", "bytes"])
def test_a_file_that_was_not_copied_whole_is_copied_again(tmp_path: Path, damage: str) -> None:
    around = Around(rename_no_replace=lambda do: (_ for _ in ()).throw(CatalogueError("gone")))
    lab = ClusterLab(tmp_path, wrap_far=around)
    lab.hours(1)
    assert lab.deliver() == ["failed"]
    for file in (lab.root / "_tidegate" / "copies").rglob("*.parquet"):
        content = file.read_bytes()
        half = len(content) // 2
        file.write_bytes(content[:half] if damage == "part" else content[:half] + b"\x00\x01\x02" + content[half + 3 :])
    assert lab.deliver() == ["delivered"]
    assert lab.copied() == lab.own()


def test_a_catalogue_that_was_down_makes_no_second_copy(tmp_path: Path) -> None:
    def down(do: Callable[[], Any]) -> Any:
        raise CatalogueError("connection refused")

    around = Around(add_partitions=down)
    lab = ClusterLab(tmp_path, wrap_far=around)
    lab.hours(1)
    assert lab.deliver() == ["failed"]
    around.calls.clear()
    assert lab.deliver() == ["delivered"]
    assert [call for call in around.calls if call.startswith("open_new")] == []
    assert lab.verify(0) == ["unchanged"]


# ---------------------------------------------------------------- the doctor


def test_the_doctor_asks_the_other_hive_and_its_files(lab: ClusterLab) -> None:
    c = Connection(conn_id="hive_there", conn_type="hiveserver2", host="127.0.0.1", port=1)
    hive, files = delivery_kind("cluster").examined(lab.pipeline, lab.one, c, 2.0)
    assert (hive.check, hive.level, files.check, files.level) == ("hive", WRONG, "storage", OK)
    assert hive.about == files.about == "readings.shop"
    assert "there/readings/_tidegate" in files.what
    assert not (lab.root / "_tidegate").exists(), "nothing is left there"


def test_its_process_is_told_of_both_connections(tmp_path: Path) -> None:
    lab = ClusterLab(tmp_path, metastore_conn_id="metastore")
    known = {name: Connection(conn_id=name, host=f"{name}.there", extra={"a": 1}) for name in ("pg", "metastore")}
    told = json.loads(json.dumps(sender_of(lab.pipeline, lab.one, known.__getitem__)._settings()))  # type: ignore[attr-defined]
    assert told["conn_id"] == "pg"
    assert {name: Connection(**fields) for name, fields in told["connections"].items()} == known
    (need,) = delivery_kind("cluster").needs(lab.one)
    assert (need.conn_id, need.port) == ("metastore", 9083)
