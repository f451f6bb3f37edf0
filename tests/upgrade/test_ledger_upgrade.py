"""Ledgers with data in them, made by the code of each earlier revision: they are migrated, and life goes on."""

from __future__ import annotations

import json
import sqlite3
import tarfile
import uuid
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

import tests.world
from tests.unit.test_audit import in_process
from tests.upgrade.scene import FOLDER, other_sites, produce, renamed
from tests.world import World, make_pipeline, record, window
from tidegate.core.base.errors import LedgerError, WrongRevision
from tidegate.core.target.tables import data_table, dirty_table, late_table
from tidegate.core.window.cut import window_id
from tidegate.ledger.migrate import migrate, revisions
from tidegate.ledger.store import HEAD, make_engine
from tidegate.workflow.audit.audit import audit
from tidegate.workflow.batch import ingest
from tidegate.workflow.dirty import redrive
from tidegate.workflow.late import reopen
from tidegate.workflow.replay import rollback
from tidegate.workflow.restore import adoption

FIXTURES = Path(__file__).parents[1] / "fixtures" / "upgrade"
EARLIER = sorted(p.name for p in FIXTURES.iterdir())
MADE_BY_OLD_CODE = {"00": [(0, 0), (0, 1), (0, 2)], "01": [(0, 3)]}


def test_every_earlier_revision_has_a_ledger() -> None:
    assert revisions()[:-1] == EARLIER
    assert revisions()[-1] == HEAD


def restored(folder: Path, revision: str) -> World:
    """The world as the old code left it, its ledger still at the old revision."""
    old, root = FIXTURES / revision, str(folder)
    with tarfile.open(fileobj=BytesIO((old / "lake.tar.gz").read_bytes()), mode="r:gz") as tar:
        for member in tar:
            file = tar.extractfile(member)
            assert file is not None
            path = folder / "lake" / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(renamed(file.read(), FOLDER, root))
    world = World(folder)
    world.database.unlink()
    with sqlite3.connect(world.database) as connection:
        connection.executescript((old / "ledger.sql").read_text().replace(FOLDER, root))
    for table in (data_table(world.pipeline), late_table(world.pipeline), dirty_table(world.pipeline)):
        world.catalogue.ensure_table(table)
    shown = json.loads((old / "catalogue.json").read_text().replace(FOLDER, root))
    for name, partitions in shown.items():
        places = {tuple(tuple(pair) for pair in values): where for values, where in partitions}
        world.catalogue.add_partitions(name, places)
    for part in (1, 2, 3):
        produce(world, record, part)
    other_sites(world)
    return world


@pytest.fixture(params=EARLIER)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    world = restored(tmp_path, request.param)
    yield world
    world.close()


def on_postgres(world: World, revision: str, url: str) -> sa.engine.Engine:
    """A database of its own at the old revision, with the rows of the old ledger."""
    name = f"upgrade_{uuid.uuid4().hex}"
    with sa.create_engine(url, isolation_level="AUTOCOMMIT").connect() as c:
        c.exec_driver_sql(f"CREATE DATABASE {name}")
    engine = make_engine(make_url(url).set(database=name).render_as_string(hide_password=False))
    migrate(engine, revision)
    tables = sa.MetaData()
    tables.reflect(engine)
    with sqlite3.connect(world.database) as source, engine.begin() as c:
        source.row_factory = sqlite3.Row
        for table in tables.sorted_tables:
            rows = [dict(row) for row in source.execute(f"SELECT * FROM {table.name}")]
            for row in rows:
                for column in table.columns:
                    if isinstance(column.type, sa.Boolean) and row[column.name] is not None:
                        row[column.name] = bool(row[column.name])
            if rows and table.name != "alembic_version":
                c.execute(table.insert(), rows)
        for table in tables.sorted_tables:
            for column in table.columns:
                if column.autoincrement is True or "nextval" in str(
                    column.server_default and column.server_default.arg
                ):
                    c.exec_driver_sql(
                        f"SELECT setval(pg_get_serial_sequence('{table.name}', '{column.name}'), "
                        f"(SELECT coalesce(max({column.name}), 1) FROM {table.name}))"
                    )
    return engine


# ---------------------------------------------------------------- life goes on


def balanced(world: World) -> None:
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, in_process)  # type: ignore[attr-defined]
    world.close()
    assert report.balanced, "\n".join(f"{p.subject}: {p.what}" for p in report.problems)


def life_goes_on(world: World) -> None:
    """What was planned is written by the plan's own spec; every step on old rows, files and records."""
    assert world.by_window() == MADE_BY_OLD_CODE
    balanced(world)
    world.change_spec(columns=make_pipeline(world.location).columns)  # between plan and write
    assert ingest.plan(world.context(), "r3") == 3
    world.ingest("r3")
    assert [world.archive(hour).generation for hour in (0, 1)] == [2, 1]  # cleared: as they were published
    world.produce(record("e0", 8.2), record("too late", 0.4))
    world.produce(record("e1", 8.5), partition=1)
    world.ingest("r4")
    for hour in (2, 3, 4, 5):
        assert world.archive(hour).new
    sites = [dict(values)["site"] for values in world.catalogue.partitions("lake.readings", hour_values(4))]
    assert sites == [None]  # `$.place`, which the plan pins: today's columns would give a and b
    assert world.replay(0).new  # with today's columns again
    rolled = rollback.rollback(world.context(), window(0), 2, "generation 2 was made by the old code")
    assert (rolled.new, rolled.rows) == (True, 3)
    assert reopen.reopen(world.context(), window(0)).rows == 5
    assert world.replay(1).note == "unchanged"
    assert redrive.plan(world.context(), "redrive 1") is not None
    redrive.carry_out(world.context(), "redrive 1")
    assert world.by_window() == {
        "00": [(0, 0), (0, 1), (0, 2), (0, 5), (0, 10)],
        "01": [(0, 3)],
        "02": [(0, 6)],
        "03": [(1, 0)],
        "04": [(0, 7), (0, 8)],
        "05": [(1, 1)],
    }
    assert world.table("__late") == []
    assert world.table("__dirty") == [(0, 4)]
    balanced(world)


def hour_values(hour: int) -> tuple[tuple[str, str], ...]:
    return (("date", "2013-01-05"), ("hour", f"{hour:02d}"))


def test_an_old_ledger_is_refused_by_one_line_until_it_is_migrated(old: World) -> None:
    with pytest.raises(WrongRevision, match=r"schema is at revision 000\d, this version needs ") as refused:
        old.context()
    assert "tidegate db migrate" in refused.value.advice
    assert not refused.value.retry


def test_on_sqlite(old: World) -> None:
    for _ in range(2):
        assert migrate(f"sqlite:///{old.database}") == HEAD
    life_goes_on(old)


@pytest.mark.parametrize("revision", [EARLIER[0], EARLIER[-1]])
def test_on_postgresql(tmp_path: Path, revision: str, postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    world = restored(tmp_path, revision)
    engine = on_postgres(world, revision, postgres.ledger_url)
    try:
        assert migrate(engine) == HEAD
        monkeypatch.setattr(tests.world, "_engine", lambda database: engine)
        life_goes_on(world)
        world.close()
    finally:
        engine.dispose()


def test_a_table_that_somebody_holds_is_not_waited_for_long(
    tmp_path: Path, postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every task would wait behind the migration."""
    world = restored(tmp_path, "0004")
    engine = on_postgres(world, "0004", postgres.ledger_url)
    with engine.connect() as other, monkeypatch.context() as patch:
        patch.setattr("tidegate.ledger.migrate.LOCK_MS", 200)  # the server's own cleaning may take longer
        other.exec_driver_sql("SELECT count(*) FROM batches")
        with pytest.raises(LedgerError, match="nothing is migrated"):
            migrate(engine)
    assert migrate(engine) == HEAD
    engine.dispose()
    world.close()


def test_a_fresh_ledger_has_the_same_schema_as_a_migrated_one(old: World, tmp_path: Path) -> None:
    migrate(f"sqlite:///{old.database}")
    migrate(f"sqlite:///{tmp_path}/fresh.db")

    def schema(path: Path) -> dict[str, set[tuple[str, str]]]:
        found = sa.inspect(sa.create_engine(f"sqlite:///{path}"))
        return {t: {(c["name"], str(c["type"])) for c in found.get_columns(t)} for t in found.get_table_names()}

    assert schema(Path(old.database)) == schema(tmp_path / "fresh.db")


@pytest.mark.parametrize("revision", EARLIER[1:])
def test_a_lost_ledger_is_made_again_from_what_an_earlier_release_recorded(tmp_path: Path, revision: str) -> None:
    """The first release's marks say no more than that an id is taken."""
    world = restored(tmp_path, revision)
    world.database.unlink()
    migrate(f"sqlite:///{world.database}")
    ctx = world.context()
    adoption.adopt(ctx, adoption.survey(ctx), "the ledger was lost")
    world.close()
    assert world.by_window() == MADE_BY_OLD_CODE
    world.ingest("r3")
    assert (world.table("__late"), world.table("__dirty")) == ([(0, 5)], [(0, 4)])
    balanced(world)
    world.close()


def test_what_an_earlier_release_restored_is_known_as_decoded_by_nobody_knows_what(tmp_path: Path) -> None:
    """Its records did not name the specs; what was reopened on top has the same rows, a later replay has not."""
    world = restored(tmp_path, "0004")
    kinds = {3: ("replay", "DISCARDED"), 4: ("reopen", "RETIRED"), 5: ("replay", "RETIRED"), 6: ("reopen", "BUILT")}
    with sqlite3.connect(world.database) as c:
        c.row_factory = sqlite3.Row
        (replayed,) = map(dict, c.execute("SELECT * FROM generations WHERE number = 2"))
        for number, (kind, state) in kinds.items():
            row = replayed | {"number": number, "kind": kind, "state": state}
            c.execute(f"INSERT INTO generations VALUES ({', '.join('?' * len(row))})", tuple(row.values()))
        event = ("restored", f"window {window_id(window(0).start_ms)}", '{"generation": 2, "state": "CURRENT"}')
        columns = "at_ms, pipeline, actor, what, subject, detail"
        c.execute(f"INSERT INTO events ({columns}) VALUES (1, 'readings', 'cli', ?, ?, ?)", event)
    migrate(f"sqlite:///{world.database}")
    with sqlite3.connect(world.database) as c:
        found = c.execute("SELECT number, spec_version FROM generations WHERE window_ms = ?", (window(0).start_ms,))
        assert dict(found.fetchall()) == {1: None, 2: 0, 3: None, 4: 0, 5: None, 6: None}
    world.close()
