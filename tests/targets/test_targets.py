"""Kinds of tables: how they are found; and a whole life on one that a package brings, to which Hive means nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.clean.cleanings import days_later
from tests.fakes.target import FakeTargets
from tests.world import World, record, window
from tidegate import kinds
from tidegate.adapters.connections import ConnectionMissing
from tidegate.cli.examination import Examination
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import CatalogueError, SpecError
from tidegate.core.base.plain import from_plain, to_plain
from tidegate.core.doctor.findings import Finding, ok
from tidegate.core.spec import pipeline
from tidegate.core.spec.compatibility import incompatible
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.port import Targets
from tidegate.kinds import Connect, Need, TargetKind
from tidegate.spec import Loaded, fingerprint, schema
from tidegate.spec.loader import load_text
from tidegate.spec.reference import markdown
from tidegate.spec.section import key
from tidegate.spec.sink import SinkSection
from tidegate.spec.values import ConnectionId, Text
from tidegate.targets.hive.kind import KIND, Hive
from tidegate.workflow.audit.audit import Depth, audit

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests/fixtures/pipelines"
LAKE = {"LAKE": "file:///lake", "TIDEGATE_LAKE": "/lake"}


class BoxSection(SinkSection):
    """A kind of a package's own."""

    conn_id: ConnectionId = key("Where the boxes are.", alias="shelf_conn_id")
    label: Text | None = key("What stands on each box.", None)


SHELF = FakeTargets()


def _opened(pipeline: Pipeline, connect: Connect, looking: bool) -> Targets:
    return SHELF


def _examined(pipeline: Pipeline, connection: Connection, seconds: float) -> list[Finding]:
    return [ok("boxes", f"{connection.host} has room", pipeline.name)]


BOXES = TargetKind(
    name="boxes",
    title="Boxes",
    needs=lambda p: [Need(p.sink.conn_id, ("shelf",)), Need("boxes_door", port=77)],
    section=lambda: BoxSection,
    opened=_opened,
    examined=_examined,
    dags=("ingest", "maintain"),
)


@pytest.fixture
def boxes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package brings the kind `boxes`."""
    points = EntryPoints([EntryPoint("boxes", f"{__name__}:BOXES", "tidegate.targets")])
    monkeypatch.setattr(kinds, "_brought", lambda group: points.select(group=group))
    yield
    kinds.TARGETS.forget()


def loaded(sink: str) -> Pipeline:
    text = (FOLDER / "tram_positions.yaml").read_text()
    head, _, rest = text.partition("\nsink:\n")
    where = "table: transit.tram_positions, location: file:///lake/transit/tram_positions"
    return load_text(
        FOLDER / "tram_positions.yaml", f"{head}\nsink: {{{where}{sink}}}{rest[rest.index(chr(10) * 2) :]}", LAKE
    )


# ---------------------------------------------------------------- kinds


def test_hive_is_a_kind_and_an_unknown_one_is_named() -> None:
    assert kinds.target_kind("hive") is KIND
    with pytest.raises(CatalogueError, match="no kind of target jars; there are: hive, iceberg, mirror") as refused:
        kinds.target_kind("jars")
    assert not refused.value.retry
    assert "sink.kind" in refused.value.advice


def test_a_package_brings_a_kind_by_an_entry_point(boxes: None) -> None:
    assert kinds.target_kind("boxes") == BOXES
    assert kinds.TARGETS.names() == ["boxes", "hive", "iceberg", "mirror"]
    assert "boxes" not in kinds.SOURCES.names(), "an entry point of tables is no source"


def test_nothing_outside_of_its_folder_imports_hive() -> None:
    """Nor does the kind import what it needs to work before it is asked to."""
    modules = (
        "tidegate.wiring, tidegate.inspection, tidegate.spec, tidegate.cli.examination, tidegate.workflow.clean.round"
    )
    code = (
        f"import sys, {modules}, tidegate.workflow.publish.archive, tidegate.workflow.audit.audit\n"
        "print([m for m in sys.modules if m.startswith('tidegate.targets')])\n"
        "tidegate.wiring.target_kind('hive')\nprint('tidegate.targets.hive.catalogue' in sys.modules)"
    )
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])
    found = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert found.stdout.split("\n")[:2] == ["[]", "False"], found.stdout + found.stderr


# ---------------------------------------------------------------- the YAML section


def test_hive_is_the_default_and_leaves_no_trace_in_compiled_specs() -> None:
    plain, named = loaded(""), loaded(", kind: hive")
    assert plain == named
    assert (plain.sink.kind, plain.sink.conn_id) == ("hive", "hiveserver2_default")
    assert fingerprint(plain) == fingerprint(named)
    assert {"kind", "options"} & to_plain(plain)["sink"].keys() == set(), "0.1.0 refuses fields that it does not know"
    assert loaded(", metastore_conn_id: m").sink.options == ()


def test_a_kind_has_keys_of_its_own(boxes: None) -> None:
    found = loaded(", kind: boxes, shelf_conn_id: s, label: fragile").sink
    assert (found.kind, found.conn_id, found.options) == ("boxes", "s", (("label", "fragile"),))
    assert from_plain(pipeline.Sink, to_plain(found)) == found
    with pytest.raises(SpecError, match=r"sink\.metastore_conn_id: unknown key"):
        loaded(", kind: boxes, shelf_conn_id: s, metastore_conn_id: m")
    with pytest.raises(SpecError, match=r"sink\.shelf_conn_id: is required"):
        loaded(", kind: boxes")
    with pytest.raises(SpecError, match=r"tram_positions\.yaml:\d+: sink\.kind: .*there are: boxes, hive, iceberg"):
        loaded(", kind: bxes")


def test_keys_of_each_kind_of_a_release_are_described(boxes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "sink.label" not in markdown()
    monkeypatch.setattr(kinds.TARGETS, "own", {**kinds.TARGETS.own, "boxes": f"{__name__}:BOXES"})
    assert "| `sink.label` | text or `null` | `null` | Kind `boxes` only. What stands on each box. |\n" in markdown()
    assert "shelf_conn_id" in schema()["properties"]["sink"]["properties"]


def test_a_pipeline_keeps_its_kind_of_table(boxes: None) -> None:
    after = loaded(", kind: boxes, shelf_conn_id: hiveserver2_default")
    assert incompatible(loaded(""), after) == ["sink.kind was hive, is boxes"]


# ---------------------------------------------------------------- doctor


def test_the_doctor_asks_the_kind(boxes: None) -> None:
    spec = loaded(", kind: boxes, shelf_conn_id: s")
    one = Loaded("tram_positions", FOLDER / "tram_positions.yaml", spec, None, "")
    doctor = Examination([one], 1.0)
    uses = doctor._uses()
    assert (uses["s"][0], uses["boxes_door"][0]) == (("shelf",), ())
    doctor._connections = {c: Connection(conn_id=c, host=f"host of {c}") for c in ("s", "boxes_door")}
    assert doctor._plain_servers() == {"boxes_door": 77}
    assert [f.what for f in doctor._table(spec)] == ["host of s has room"]


# ---------------------------------------------------------------- Hive's connections


def test_who_only_looks_asks_for_no_connection_before_a_question() -> None:
    def missing(conn_id: str) -> Any:
        raise ConnectionMissing(f"no connection {conn_id}")

    spec = loaded(", metastore_conn_id: m")
    opened = KIND.opened(spec, missing, True)
    assert isinstance(opened, Hive)
    with pytest.raises(ConnectionMissing):
        opened.catalogue.partitions("a.b")
    for there, gone in (({"m"}, "hiveserver2_default"), ({"hiveserver2_default"}, "m")):
        with pytest.raises(ConnectionMissing, match=f"no connection {gone}"):
            KIND.opened(spec, lambda c, t=there: Connection(conn_id=c, host="h") if c in t else missing(c), False)  # type: ignore[misc]
    assert [n.conn_id for n in KIND.needs(spec)] == ["hiveserver2_default", "m"]


# ---------------------------------------------------------------- a whole life


class _Nothing:
    """What Hive would be asked by."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"Hive is asked: {name}")


@pytest.fixture
def world(boxes: None, tmp_path: Path) -> Iterator[World]:
    SHELF.__init__()  # type: ignore[misc]
    made = World(tmp_path)
    made.catalogue = _Nothing()  # type: ignore[assignment]
    made.change_spec(sink=replace(made.pipeline.sink, kind="boxes", conn_id="s", options=(("label", "x"),)))
    made.tables = lambda w: kinds.target_kind(w.pipeline.sink.kind).opened(w.pipeline, Connection, False)
    yield made
    made.close()


def test_a_whole_life_without_hive(world: World) -> None:
    """Ingest, publish, late and dirty rows, Clear after a loss, a replay, cleaning, and the audit of the table."""

    def rows(kind: str = "data") -> list[tuple[int, int]]:
        target = world.context().target if kind == "data" else world.context().sides[kind]
        return sorted(at for place in target.shown().values() for at in world.rows_at(place, kind))

    world.produce(record("a", 0.1), record("b", 0.2), record("next", 1.1))
    world.produce(record("later", 3.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    assert rows() == [(0, 0), (0, 1)]
    world.produce(record("late", 0.7), b"not json")
    world.produce(record("later", 6.5), partition=1)
    world.ingest("r2")
    assert (rows("late"), rows("dirty")) == ([(0, 3)], [(0, 4)])

    first = SHELF.windows[window(0).start_ms][1]
    SHELF.windows.clear()
    assert world.archive(0).generation == 1, "Clear: what was lost from the table is shown again"
    assert SHELF.windows[window(0).start_ms][1] == first

    id_, site, value = world.pipeline.columns
    world.change_spec(columns=(id_, site, replace(value, path="$.other")))
    assert world.replay(0).generation == 2
    world.archive(1)
    assert rows() == [(0, 0), (0, 1), (0, 2)]
    assert SHELF.windows[window(0).start_ms][1] != first

    world.change_spec(archive=replace(world.pipeline.archive, keep_generations=1))
    gone = days_later(world, 40)
    assert any(item.path.startswith(first) for item in gone.deleted), "the retired generation's files"
    assert rows() == [(0, 0), (0, 1), (0, 2)]

    ctx = world.context()
    depth = Depth(footers=False, coordinates=False)
    reader: Any = SimpleNamespace(close=lambda: None)
    assert audit(ctx, ctx.ledger.reads, reader, depth).problems == ()
    SHELF.windows.clear()
    SHELF.sides["late"].clear()
    problems = audit(ctx, ctx.ledger.reads, reader, depth).problems
    assert len(problems) == 3
    assert "show it again" in {p.advice for p in problems}
