"""Hours on their way to another cluster: bytes, checksums, one rename, its catalogue; and tries that come late."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.engine.delivered import DeliveredRows
from tests.deliver.cluster_lab import T0, TABLE, ClusterLab
from tests.world import HOUR, record, window
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import (
    CatalogueError,
    CatalogueUnsure,
    DeliveryAhead,
    DeliveryRefused,
    DeliveryUnsure,
    LostComparison,
    OutcomeUnknown,
)
from tidegate.core.deliver.sender import Generation
from tidegate.core.deliver.states import Delivered
from tidegate.core.doctor.findings import OK, WRONG
from tidegate.core.files.merge import Source
from tidegate.core.spec.pipeline import Column
from tidegate.core.target.paths import join
from tidegate.kinds import delivery_kind
from tidegate.targets.cluster.copying import Copying, Pace
from tidegate.targets.hive.ports import TableDef
from tidegate.wiring import sender_of
from tidegate.workflow.base.context import REQUEST_TTL_MS
from tidegate.workflow.replay import rollback


@pytest.fixture
def lab(tmp_path: Path) -> ClusterLab:
    return ClusterLab(tmp_path)


def more_columns(lab: ClusterLab, name: str = "x") -> None:
    """So that a replay makes another generation."""
    lab.world.change_spec(columns=(*lab.pipeline.columns, Column(name=name, type="string", path="$.id")))


class Around:
    """Before a port: `changes[method]` is called instead of the method, once, with what would do it."""

    def __init__(self, **changes: Callable[[Callable[[], Any]], Any]) -> None:
        self.changes, self.calls = changes, list[str]()

    def __call__(self, name: str, port: Any) -> Any:
        return _Port(self, port)


class _Port:
    def __init__(self, around: Around, port: Any) -> None:
        self._around, self._port = around, port

    def __getattr__(self, method: str) -> Any:
        real = getattr(self._port, method)
        if not callable(real):
            return real

        def called(*given: Any, **named: Any) -> Any:
            self._around.calls.append(f"{method} {given[0] if given else ''}")
            change = self._around.changes.pop(method, None)
            return real(*given, **named) if change is None else change(lambda: real(*given, **named))

        return called


def take(lab: ClusterLab, hour: int = 0) -> tuple[Delivered, Generation]:
    """A try of an hour, begun as a task begins it."""
    with lab.context() as ctx:
        (one,) = [o for o in ctx.ledger.deliveries.in_force("readings", "shop", 0, 2**60)
                  if o.window_ms == T0 + hour * HOUR]  # fmt: skip
        row = ctx.ledger.deliveries.take("readings", "shop", one, "digest", ctx.nonce())
        found = ctx.ledger.windows.generation("readings", window(hour), one.generation)
    files = tuple(Source(0, f, (join(found.location, f.path),)) for f in found.files)
    return row, Generation(files=files)


def send(lab: ClusterLab, tried: tuple[Delivered, Generation], holds: bool | None = None) -> Any:
    row, generation = tried
    system = lab.opened()
    system.prepare()

    def asks() -> bool:
        with lab.context() as ctx:
            return bool(ctx.ledger.deliveries.holds(row)) if holds is None else holds

    return system.send(row.attempt(sum(f.entry.rows for f in generation.files)), generation, asks)


# ---------------------------------------------------------------- what arrives


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


# ---------------------------------------------------------------- tries that come late


def test_an_older_try_that_comes_late_is_refused(lab: ClusterLab) -> None:
    lab.hours(1)
    old, new = take(lab), take(lab)
    send(lab, new)
    with pytest.raises(DeliveryAhead) as caught:
        send(lab, old, holds=True)
    assert (caught.value.generation, caught.value.epoch) == (1, 2)


def test_who_does_not_hold_any_more_shows_nothing(lab: ClusterLab) -> None:
    lab.hours(1)
    tried = take(lab)
    with pytest.raises(LostComparison):
        send(lab, tried, holds=False)
    assert lab.locations() == []
    assert lab.deliver() == ["delivered"]


def test_an_older_generation_that_wakes_up_in_its_request_does_not_come_back(tmp_path: Path) -> None:
    """It stood still after it had asked the ledger; until its request cannot live any more nobody changes the hour."""
    late: list[Callable[[], Any]] = []

    def later(do: Callable[[], Any]) -> Any:
        late.append(do)
        raise CatalogueUnsure("no answer")

    around = Around(add_partitions=later)
    lab = ClusterLab(tmp_path, wrap_far=around)
    lab.hours(1)
    with pytest.raises(DeliveryUnsure):
        send(lab, take(lab))
    more_columns(lab)
    lab.world.replay(0)
    assert lab.deliver() == ["failed"]
    assert lab.locations() == []
    lab.world.clock.advance(REQUEST_TTL_MS // 2)
    assert lab.deliver() == ["failed"]
    late.pop()()  # executed as late as it can be
    assert lab.ids() == ["0-0", "0-1"]
    lab.world.clock.advance(REQUEST_TTL_MS)
    assert lab.deliver() == ["delivered"]
    assert lab.copied() == lab.own()
    assert all("x" in row for row in lab.rows())


def test_a_try_that_is_overtaken_between_its_copy_and_its_request(tmp_path: Path) -> None:
    around = Around()
    lab = ClusterLab(tmp_path, wrap_far=around)
    lab.hours(1)
    old = take(lab)

    def meanwhile(do: Callable[[], Any]) -> Any:
        do()
        more_columns(lab)
        lab.world.replay(0)
        assert lab.deliver() == ["delivered"]

    around.changes["rename_no_replace"] = meanwhile
    with pytest.raises(LostComparison):
        send(lab, old)
    assert lab.copied() == lab.own()
    assert lab.states() == ["STANDING 2.2"]
    assert lab.verify(0) == ["unchanged"]


def test_files_that_a_later_try_took_are_missed_before_anything_is_shown(tmp_path: Path) -> None:
    around = Around()
    lab = ClusterLab(tmp_path, wrap_far=around)
    lab.hours(1)
    old = take(lab)

    def meanwhile(do: Callable[[], Any]) -> Any:
        """Right before its rename another try of the same generation takes the files, and fails."""
        row, generation = take(lab)
        system = lab.system()
        rows = _rows(lab, row, generation)
        attempt = row.attempt(2)
        staging = system._layout.copied(attempt.staging)
        for file in rows.files[:1]:
            system._one(Copying(lab.storage, rows, Pace(None)), file, staging, system._earlier(attempt))
        return do()

    around.changes["rename_no_replace"] = meanwhile
    with pytest.raises(DeliveryRefused, match="is not whole"):
        send(lab, old, holds=True)
    assert lab.locations() == []
    assert lab.deliver() == ["delivered"]
    assert lab.copied() == lab.own()


def _rows(lab: ClusterLab, row: Delivered, generation: Generation) -> Any:
    return DeliveredRows(
        lab.opened().table.columns, row.window_ms, generation.files, generation.columns, lab.storage.open_existing
    )


def test_a_rename_without_an_answer_is_looked_at(tmp_path: Path) -> None:
    def lost(do: Callable[[], Any]) -> Any:
        do()
        raise OutcomeUnknown("no answer")

    lab = ClusterLab(tmp_path, wrap_far=Around(rename_no_replace=lost))
    lab.hours(1)
    assert lab.deliver() == ["delivered"]
    assert lab.copied() == lab.own()


def test_a_ledger_that_was_restored_goes_on_above_what_it_finds(lab: ClusterLab) -> None:
    lab.hours(1)
    lab.world.close()
    before = lab.world.database.read_bytes()
    lab.deliver()
    lab.verify(0, why="twice")
    lab.world.database.write_bytes(before)
    assert lab.deliver() == ["delivered"]
    assert lab.states() == ["STANDING 1.3"]
    assert lab.verify(0) == ["unchanged"]


# ---------------------------------------------------------------- what makes way


def test_replaced_files_stay_for_queries_under_way_and_go_then(lab: ClusterLab) -> None:
    lab.hours(2)
    lab.deliver()
    old = lab.files()
    more_columns(lab)
    lab.world.replay(0)
    lab.deliver()
    assert all(path.exists() for path in old)
    assert [name.partition("-")[0].split(".", 1)[1] for name in lab.names("replaced")] == ["20130105T000000Z.2.2"]
    lab.world.clock.advance(86_400_001)
    lab.deliver()
    assert not any(path.exists() for path in old)
    assert lab.names("replaced") == []
    assert len(lab.names("generations/20130105T000000Z")) == len(lab.names("delivered/20130105T000000Z")) == 1
    assert lab.copied() == lab.own()
    assert lab.verify(0, 1) == ["unchanged", "unchanged"]


def test_what_readers_still_meet_does_not_go(tmp_path: Path) -> None:
    """A later try has left its record, and came to no end."""

    def down(do: Callable[[], Any]) -> Any:
        raise CatalogueError("connection refused")

    around = Around()
    lab = ClusterLab(tmp_path, wrap_far=around)
    lab.hours(1)
    lab.deliver()
    more_columns(lab)
    lab.world.replay(0)
    around.changes["set_location"] = down
    assert lab.deliver() == ["failed"]
    assert len(lab.names("replaced")) == 1
    lab.world.clock.advance(10 * 86_400_000)
    with lab.context() as ctx:
        lab.system().sweep(lambda found: ctx.ledger.deliveries.needed("readings", "shop", found))
    assert lab.ids() == ["0-0", "0-1"]


def test_what_has_just_made_way_stays_though_others_did_before(lab: ClusterLab) -> None:
    lab.hours(1)
    lab.deliver()
    more_columns(lab)
    lab.world.replay(0)
    lab.deliver()
    middle = lab.files()
    lab.world.clock.advance(86_400_001)
    more_columns(lab, "y")
    lab.world.replay(0)
    lab.deliver()
    assert all(path.exists() for path in middle)
    lab.world.clock.advance(86_400_001)
    lab.deliver()
    assert not any(path.exists() for path in middle)
    assert lab.names("replaced") == []
    assert lab.copied() == lab.own()


def test_an_hour_that_is_not_replaced_is_left_alone(lab: ClusterLab) -> None:
    lab.hours(1)
    lab.deliver()
    lab.verify(0, why="again")  # another try, the same place
    lab.world.clock.advance(10 * 86_400_000)
    lab.deliver()
    assert lab.ids() == ["0-0", "0-1"]
    assert lab.states() == ["STANDING 1.2"]


def test_records_of_late_rows_stay_at_home(lab: ClusterLab) -> None:
    lab.hours(1)
    lab.world.produce(record("late", 0.2))
    lab.world.ingest("second")
    lab.deliver()
    assert lab.ids() == ["0-0", "0-1"]


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
