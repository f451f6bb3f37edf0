"""A ledger with data in it, made by 0.1.0: it is migrated, and life goes on."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

import tests.world
from tests.audit.audits import balanced
from tests.upgrade import release
from tests.upgrade.release import REVISION
from tests.upgrade.scene import FOLDER, other_sites, produce, renamed
from tests.world import World, make_pipeline, record, window
from tidegate.core.base.errors import LedgerError, WrongRevision
from tidegate.ledger.migrate import migrate, revisions
from tidegate.ledger.store import FIRST, HEAD, make_engine
from tidegate.targets.hive.tables import data_table, dirty_table, late_table
from tidegate.workflow.batch import ingest
from tidegate.workflow.dirty import redrive
from tidegate.workflow.late import reopen
from tidegate.workflow.replay import rollback
from tidegate.workflow.restore import adoption

MADE_BY_OLD_CODE = {"00": [(0, 0), (0, 1), (0, 2)], "01": [(0, 3)]}


def test_the_first_revision_is_that_of_0_1_0() -> None:
    assert revisions()[0] == FIRST == REVISION
    assert revisions()[-1] == HEAD


def restored(folder: Path, old: Path) -> World:
    """The world as 0.1.0 left it, its ledger still at the old revision; `old`: what `scene.py` wrote."""
    root = str(folder)
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


@pytest.fixture
def old(left_behind: Path, tmp_path: Path) -> Iterator[World]:
    world = restored(tmp_path, left_behind)
    yield world
    world.close()


def _empty_database(url: str) -> sa.engine.Engine:
    name = f"upgrade_{uuid.uuid4().hex}"
    with sa.create_engine(url, isolation_level="AUTOCOMMIT").connect() as c:
        c.exec_driver_sql(f"CREATE DATABASE {name}")
    return make_engine(make_url(url).set(database=name).render_as_string(hide_password=False))


def on_postgres(world: World, code: Path, url: str) -> sa.engine.Engine:
    """A database as 0.1.0's migration makes it, with the rows of the old ledger."""
    engine = _empty_database(url)
    mine = engine.url.render_as_string(hide_password=False)
    migration = "import sys; from tidegate.adapters.ledger.migrate import migrate; print(migrate(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", migration, mine], env=release.environment(code), cwd=code, capture_output=True, text=True
    )
    assert done.stdout == f"{REVISION}\n", done.stderr
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


def test_on_sqlite(old: World) -> None:
    for _ in range(2):
        assert migrate(f"sqlite:///{old.database}") == HEAD
    life_goes_on(old)


def test_on_postgresql(
    old: World, old_checkout: Path, postgres, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    engine = on_postgres(old, old_checkout, postgres.ledger_url)
    fresh = _empty_database(postgres.ledger_url)
    try:
        assert migrate(fresh, REVISION) == REVISION
        assert shape(fresh) == shape(engine)
        assert migrate(engine) == migrate(fresh) == HEAD
        assert shape(fresh) == shape(engine)
        monkeypatch.setattr(tests.world, "_engine", lambda database: engine)
        life_goes_on(old)
        old.close()
    finally:
        engine.dispose()
        fresh.dispose()


def test_a_table_that_somebody_holds_is_not_waited_for_long(postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every task would wait behind the migration."""
    engine = _empty_database(postgres.ledger_url)
    with engine.connect() as other, monkeypatch.context() as patch:
        under_way = other.begin()
        patch.setattr("tidegate.ledger.migrate.LOCK_MS", 200)  # the server's own cleaning may take longer
        other.exec_driver_sql("CREATE TABLE batches (batch_id bigint)")
        with pytest.raises(LedgerError, match="nothing is migrated"):
            migrate(engine)
        under_way.rollback()
    assert migrate(engine) == HEAD
    engine.dispose()


def test_a_fresh_ledger_has_the_same_schema_as_a_migrated_one(old: World, tmp_path: Path) -> None:
    fresh = sa.create_engine(f"sqlite:///{tmp_path}/fresh.db")
    migrated = sa.create_engine(f"sqlite:///{old.database}")
    migrate(str(fresh.url), REVISION)
    assert shape(fresh) == shape(migrated)
    migrate(str(fresh.url))
    migrate(str(migrated.url))
    assert shape(fresh) == shape(migrated)


def shape(engine: sa.engine.Engine) -> dict[str, list[str]]:
    """Of each table its columns in their order, its keys and its indexes."""
    found = sa.inspect(engine)
    return {
        table: [
            *(f"{c['name']} {c['type']} {c['nullable']} {c['default']}" for c in found.get_columns(table)),
            str(found.get_pk_constraint(table)),
            *map(str, found.get_unique_constraints(table)),
            *sorted(map(_index, found.get_indexes(table))),
        ]
        for table in found.get_table_names()
    }


def _index(found: Any) -> str:
    options = {name: str(value) for name, value in found.get("dialect_options", {}).items()}
    return f"{found['name']} {found['column_names']} {found['unique']} {options}"


@pytest.mark.parametrize("revision", ["0001", "0005"])
def test_a_ledger_from_before_the_first_release_is_refused_in_one_line(tmp_path: Path, revision: str) -> None:
    world = World(tmp_path)
    with sqlite3.connect(world.database) as c:
        c.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    before = world.database.read_bytes()
    for step in (world.context, lambda: migrate(f"sqlite:///{world.database}")):
        with pytest.raises(WrongRevision) as refused:
            step()
        assert refused.value.args[0] == (
            f"the ledger's schema is at revision {revision}, of a version before 0.1.0: it cannot be upgraded"
        )
        assert "a new sink.table and sink.location" in refused.value.advice
    world.close()
    assert world.database.read_bytes() == before


def test_a_lost_ledger_is_made_again_from_what_0_1_0_recorded(old: World) -> None:
    old.database.unlink()
    migrate(f"sqlite:///{old.database}")
    ctx = old.context()
    adoption.adopt(ctx, adoption.survey(ctx), "the ledger was lost")
    old.close()
    assert old.by_window() == MADE_BY_OLD_CODE
    old.ingest("r3")
    assert (old.table("__late"), old.table("__dirty")) == ([(0, 5)], [(0, 4)])
    balanced(old)


def test_without_0_1_0_in_its_history_a_clone_fails_and_a_source_archive_skips(tmp_path: Path) -> None:
    with pytest.raises(pytest.skip.Exception):
        release.checkout(tmp_path / "code", tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    with pytest.raises(pytest.fail.Exception, match="git fetch --unshallow"):
        release.checkout(tmp_path / "code", tmp_path)
