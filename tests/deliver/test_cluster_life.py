"""Hours on their way to a real Hive of another cluster, by the process that copies; and between two HDFS."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import index_by_name

from dev.stack.info import StackInfo
from dev.stack.stack import Stack
from tests.crash import lakehouse
from tests.deliver.iceberg_lab import IcebergLab
from tests.deliver.lab import SHOP, Lab
from tests.dirty import redrives
from tests.late import reopenings
from tests.world import window
from tidegate.adapters.delivery import SenderProcess
from tidegate.core.base.connection import Connection
from tidegate.core.deliver.columns import table_of
from tidegate.core.deliver.units import SIDES, name_of
from tidegate.core.spec.pipeline import Column, Delivery
from tidegate.kinds import delivery_kind
from tidegate.storage import for_uri
from tidegate.storage.access import access_of
from tidegate.targets.hive.catalogue import PyHiveCatalogue
from tidegate.targets.iceberg.opening import opened
from tidegate.workflow.replay import rollback


class Real(Lab):
    """Copies to `there`, whose endpoint is `hive`; `here`: the pipeline's own place, for one that is not on this disk,
    and its endpoint."""

    def __init__(
        self,
        folder: Path,
        there: str,
        hive: StackInfo,
        here: str = "",
        own: StackInfo | None = None,
        store: Connection | None = None,
        **keys: str,
    ) -> None:
        storage = for_uri(here) if here else None
        super().__init__(folder, wrap=lambda name, port: storage if storage and name == "storage" else port)
        self.there, self.hive, self.senders = there, hive, list[SenderProcess]()
        self.files: Any = for_uri(there, None, access_of(store) if store else None)
        metastore = Connection(conn_id="metastore", host=hive.hive_host, port=hive.hive_metastore_port)
        self.further = [store] if store else [metastore]
        name = uuid.uuid4().hex[:8]
        self.table, self.own_table = f"there_{name}.readings", "lake.readings"
        options = {"keep": "86400000", "location": there, "success": "True"} | keys
        one = replace(SHOP, kind="cluster", conn_id="hive", table=self.table, options=tuple(sorted(options.items())))
        self.world.change_spec(deliver=(one,))
        if own is not None:
            self.own_table = f"here_{name}.readings"
            sink = replace(self.pipeline.sink, location=here, workdir=f"{here}/_tidegate", table=self.own_table)
            self.world.change_spec(sink=sink)
            self.world.catalogue = PyHiveCatalogue(own.hive_host, own.hive_port)  # type: ignore[assignment]
        self.world.sender = self._process
        self.far = PyHiveCatalogue(hive.hive_host, hive.hive_port, request_timeout_s=300)

    def _process(self, delivery: Delivery) -> SenderProcess:
        connection = Connection(
            conn_id="hive", conn_type="hiveserver2", host=self.hive.hive_host, port=self.hive.hive_port
        )
        kind, table = delivery_kind("cluster"), table_of(self.pipeline, delivery)
        made = SenderProcess(
            "cluster", lambda: kind.settings(connection, *self.further[: len(kind.needs(delivery))]), table
        )
        self.senders.append(made)
        return made

    def close(self) -> None:
        for sender in self.senders:
            sender.close()

    def copy_sides(self) -> None:
        """From now on."""
        one = self.pipeline.deliver[0]
        beside = (replace(one, name=name_of(one.name, side), side=side) for side in SIDES)
        self.world.change_spec(deliver=(one, *beside))

    def offsets(self, side: str) -> list[tuple[int, int]]:
        """What a query of a side table there returns."""
        rows = self.far.execute(f"SELECT `_partition`, `_offset` FROM {self.table}__{side}")
        return sorted((int(partition), int(offset)) for partition, offset in rows)

    def query(self, columns: str = "`id`") -> list[tuple[Any, ...]]:
        """What a query there returns."""
        return sorted(self.far.execute(f"SELECT `hour`, {columns} FROM {self.table}"))

    def bytes_there(self) -> list[tuple[str, str]]:
        """(partition and name, digest) of each file that readers there meet."""
        return _bytes(self.far, self.table, self.files)

    def bytes_here(self) -> list[tuple[str, str]]:
        """The same of the pipeline's own table."""
        own: Any = self.world.catalogue
        return _bytes(own, self.own_table, for_uri(self.pipeline.sink.location))


def _bytes(catalogue: Any, table: str, storage: Any) -> list[tuple[str, str]]:
    found = []
    for values, place in catalogue.partitions(table).items():
        folder = "/".join(f"{name}={value}" for name, value in values)
        for file in storage.list_files(place) or []:
            if not file.path.startswith(("_", ".")):
                with storage.open_existing(f"{place}/{file.path}") as content:
                    found.append((f"{folder}/{file.path}", hashlib.sha256(content.read()).hexdigest()))
    return sorted(found)


def lives(lab: Real) -> None:
    """Delivered, replayed, taken back, damaged there, swept."""
    lab.hours(2)
    assert lab.deliver() == ["delivered", "delivered"]
    whole = [("00", "0-0"), ("00", "0-1"), ("01", "1-0"), ("01", "1-1")]
    assert lab.query() == whole
    assert lab.bytes_there() == lab.bytes_here() != []
    assert lab.verify(0, 1) == ["unchanged", "unchanged"]

    lab.world.change_spec(columns=(*lab.pipeline.columns, Column(name="x", type="string", path="$.id")))
    lab.world.replay(0)
    assert lab.deliver() == ["delivered"]
    assert lab.query("`id`, `x`") == [
        ("00", "0-0", "0-0"), ("00", "0-1", "0-1"), ("01", "1-0", None), ("01", "1-1", None)
    ]  # fmt: skip
    assert lab.bytes_there() == lab.bytes_here()

    with lab.context() as ctx:
        rollback.rollback(ctx, window(0), 1, "worse")
    assert lab.deliver() == ["delivered"]
    assert (lab.query(), lab.bytes_there()) == (whole, lab.bytes_here())

    assert lab.differences() == [[], []]
    place = next(iter(lab.far.partitions(lab.table).values()))
    (gone,) = [f.path for f in lab.files.list_files(place) or [] if f.path.endswith(".parquet")]
    lab.files.delete(f"{place}/{gone}")
    assert lab.verify(0, 1) == ["delivered", "unchanged"]
    assert (lab.query(), lab.bytes_there()) == (whole, lab.bytes_here())
    assert not lab.files.list_names(f"{lab.there}/_tidegate/copies")


@pytest.fixture
def lab(tmp_path: Path, hive_spark: StackInfo) -> Iterator[Real]:
    made = Real(tmp_path, f"file://{tmp_path}/there/readings", hive_spark, rate=str(50 << 20))
    yield made
    made.close()


def test_the_life_of_an_hour_by_its_process(lab: Real) -> None:
    lives(lab)


def moves(lab: Real) -> None:
    """Late and dirty rows are delivered, taken up by their hour or a redrive, and leave there."""
    lab.copy_sides()
    reopenings.begun(lab.world)
    lab.world.produce(redrives.odd("b0", 3.4), redrives.NEVER)
    lab.world.ingest("r3")
    _, late, dirty = (one.name for one in lab.pipeline.deliver)
    assert (lab.deliver(late), lab.deliver(dirty), lab.deliver()) == (["delivered"], ["delivered"], ["delivered"])
    assert (lab.offsets("late"), lab.offsets("dirty")) == ([(0, 3), (0, 4)], [(0, 6), (0, 7)])

    reopenings.reopened(lab.world)
    redrives.mend(lab.world)
    redrives.redriven(lab.world)
    assert lab.deliver() == ["waits"]
    assert (lab.deliver(late), lab.deliver(dirty)) == (["delivered"], ["delivered", "delivered"])
    assert lab.deliver() == ["delivered"]
    assert (lab.offsets("late"), lab.offsets("dirty")) == ([], [(0, 7)])
    assert lab.query() == [("00", name) for name in ("a0", "a1", "late 1", "late 2")]
    assert (lab.deliver(late), lab.deliver(dirty), lab.deliver()) == ([], [], [])


def test_late_and_dirty_rows_by_its_process(lab: Real) -> None:
    moves(lab)


@pytest.fixture(scope="module")
def other_hdfs(stack_roots: Path) -> Iterator[StackInfo]:
    """A NameNode and a DataNode of another cluster."""
    stack = Stack(stack_roots / "other-hdfs", parts=("hdfs",))
    yield stack.up()
    stack.down()


def test_the_life_of_an_hour_between_two_clusters(
    tmp_path: Path, hdfs: StackInfo, hive_spark: StackInfo, other_hdfs: StackInfo, hive4: StackInfo
) -> None:
    """Two HDFS; Spark's Thrift server here, HiveServer2 and its metastore there."""
    folder = f"lives/{uuid.uuid4().hex}/readings"
    there, here = f"{other_hdfs.hdfs_uri}/{folder}", f"{hdfs.hdfs_uri}/{folder}"
    lab = Real(tmp_path, there, hive4, here, hive_spark, metastore_conn_id="metastore")
    assert lab.there.split("/")[2] != lab.pipeline.sink.location.split("/")[2]
    try:
        lives(lab)
    finally:
        lab.close()


# ---------------------------------------------------------------- an object store

HADOOPS_CLIENT = pytest.mark.skipif(os.environ.get("TIDEGATE_NIGHTLY") != "all", reason="make test-nightly")
"""280 MB of jars."""


def connection_to(objects: StackInfo) -> Connection:
    """As a user would write it."""
    return Connection(
        conn_id="aws", conn_type="aws", login=objects.objects_key, password=objects.objects_secret,
        extra={"endpoint_url": objects.objects_endpoint, "region_name": "us-east-1"},
    )  # fmt: skip


def folder_in(objects: StackInfo) -> str:
    """Of this test alone."""
    return f"{objects.objects_uri}/{uuid.uuid4().hex}/readings"


@HADOOPS_CLIENT
def test_hours_into_a_hive_table_in_an_object_store(
    tmp_path: Path, objects: StackInfo, hive_tables_on_objects: StackInfo
) -> None:
    store = connection_to(objects)
    lab = Real(tmp_path, folder_in(objects), hive_tables_on_objects, store=store, object_store_conn_id="aws")
    try:
        lives(lab)
        id_, site, *others = lab.pipeline.columns
        lab.world.change_spec(columns=(id_, replace(site, path="$.id"), *others))
        lab.world.replay(1)
        assert lab.deliver() == ["delivered"]  # values vanish, others come
        assert lab.query("`id`, `site`")[2:] == [("01", "1-0", "1-0"), ("01", "1-1", "1-1")]
        assert len(lab.far.partitions(lab.table)) == 4
    finally:
        lab.close()


@HADOOPS_CLIENT
@pytest.mark.parametrize("beside", [False, True], ids=["hours", "late and dirty rows"])
def test_hiveserver2_with_an_object_store(
    tmp_path: Path, objects: StackInfo, hive4_on_objects: StackInfo, beside: bool
) -> None:
    """Its metastore reaches the store, too: it looks at the place of each partition that is added."""
    store = connection_to(objects)
    lab = Real(tmp_path, folder_in(objects), hive4_on_objects, store=store, object_store_conn_id="aws")
    try:
        (moves if beside else lives)(lab)
    finally:
        lab.close()


@HADOOPS_CLIENT
def test_hours_without_rows_in_an_object_store(
    tmp_path: Path, objects: StackInfo, hive_tables_on_objects: StackInfo
) -> None:
    """Readers meet partitions at places that hold nothing at all."""
    keys = {"object_store_conn_id": "aws", "success": "False"}
    lab = Real(tmp_path, folder_in(objects), hive_tables_on_objects, store=connection_to(objects), **keys)
    try:
        lab.world.change_spec(partition_by=("date", "hour"), where="id > '1'")
        lab.hours(2)
        assert lab.deliver() == ["delivered", "delivered"]
        assert (lab.query(), lab.verify(0, 1)) == ([("01", "1-0"), ("01", "1-1")], ["unchanged", "unchanged"])
        (values,) = [values for values, at in lab.far.partitions(lab.table).items() if lab.files.list_files(at)]
        lab.far.set_location(lab.table, values, f"{lab.there}/nowhere")
        assert lab.query() == []
    finally:
        lab.close()


@HADOOPS_CLIENT
def test_late_and_dirty_rows_in_an_object_store(
    tmp_path: Path, objects: StackInfo, hive_tables_on_objects: StackInfo
) -> None:
    store = connection_to(objects)
    lab = Real(tmp_path, folder_in(objects), hive_tables_on_objects, store=store, object_store_conn_id="aws")
    try:
        moves(lab)
    finally:
        lab.close()


# ---------------------------------------------------------------- Iceberg


class RealIceberg(IcebergLab):
    """By the process that copies; `connections`: the catalogue there, and its object store."""

    def __init__(self, folder: Path, connections: list[Connection], **keys: str) -> None:
        super().__init__(folder, **keys)
        self.connections, self.senders = connections, list[SenderProcess]()
        self.one = replace(self.one, table=f"there_{uuid.uuid4().hex[:8]}.readings")
        self.world.change_spec(deliver=(self.one,))
        options = dict(self.one.options)
        access = access_of(connections[1]) if connections[1:] else None
        self.storage = for_uri(options["location"], None, access)  # type: ignore[assignment]
        self.world.sender = self._process

    def _process(self, delivery: Delivery) -> SenderProcess:
        kind = delivery_kind("cluster")
        made = SenderProcess("cluster", lambda: kind.settings(*self.connections), table_of(self.pipeline, self.one))
        self.senders.append(made)
        return made

    def loaded(self) -> Any:
        """By a catalogue of the reader's own."""
        return opened(self.connections[0], self.storage, 30.0).load(self.one.table)

    def close(self) -> None:
        for sender in self.senders:
            sender.close()


def iceberg_lives(lab: RealIceberg) -> None:
    """The table there begins when the pipeline's own has a history; delivered, replayed, taken back, damaged."""
    lab.hours(1)
    lab.world.change_spec(columns=(Column(name="x", type="string", path="$.id"), *lab.pipeline.columns))
    assert lab.world.replay(0).generation == 2
    assert lab.deliver() == ["delivered"]
    assert lab.copied() == lab.own() != []
    assert {(row["id"], row["x"]) for row in lab.rows()} == {("0-0", "0-0"), ("0-1", "0-1")}
    own = lakehouse.loaded(lab.world)
    assert own is not None
    here, there = (index_by_name(metadata.schema()) for metadata in (own.metadata, lab.metadata))
    assert there.items() <= here.items()
    assert there["x"] > there["value"]
    assert lab.verify(0) == ["unchanged"]
    with lab.context() as ctx:
        rollback.rollback(ctx, window(0), 1, "worse")
    assert lab.deliver() == ["delivered"]
    assert lab.copied() == lab.own()
    lab.storage.delete(lab.uris()[0])
    assert lab.verify(0) == ["delivered"]
    assert (lab.copied(), lab.ids()) == (lab.own(), ["0-0", "0-1"])


def begins_without_rows(lab: RealIceberg) -> None:
    """The table there is made before any file says how columns are numbered, and has none when the first one does."""
    lab.world.change_spec(where="id > '1'")
    lab.hours(2)
    lab.world.change_spec(columns=(Column(name="x", type="string", path="$.id"), *lab.pipeline.columns))
    assert lab.world.replay(1).generation == 2
    assert lab.deliver() == ["delivered", "delivered"]
    assert (lab.ids(0), lab.copied(1)) == ([], lab.own(1))
    assert {(row["id"], row["x"]) for row in lab.rows(1)} == {("1-0", "1-0"), ("1-1", "1-1")}
    own = lakehouse.loaded(lab.world)
    assert own is not None
    here, there = (index_by_name(metadata.schema()) for metadata in (own.metadata, lab.metadata))
    assert there.items() <= here.items()
    assert lab.verify(0, 1) == ["unchanged", "unchanged"]


@pytest.mark.parametrize("life", [iceberg_lives, begins_without_rows])
def test_an_iceberg_table_by_a_rest_catalogue(
    tmp_path: Path, iceberg_rest: StackInfo, life: Callable[[RealIceberg], None]
) -> None:
    rest = Connection(conn_id="pg", conn_type="iceberg", host=iceberg_rest.iceberg_uri)
    lab = RealIceberg(tmp_path, [rest])
    try:
        life(lab)
    finally:
        lab.close()


def test_an_iceberg_table_in_an_object_store(tmp_path: Path, objects: StackInfo) -> None:
    catalogue = Connection(conn_id="pg", conn_type="sqlite", host=f"{tmp_path}/there.db")
    lab = RealIceberg(
        tmp_path, [catalogue, connection_to(objects)], location=folder_in(objects), object_store_conn_id="aws"
    )
    try:
        iceberg_lives(lab)
    finally:
        lab.close()
