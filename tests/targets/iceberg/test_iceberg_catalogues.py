"""The contract of Iceberg catalogues: SQLite, PostgreSQL."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url

from tests.fakes.proxy import Fate, LossyProxy
from tests.targets.iceberg.catalogues import SCHEMA, SPEC, Site, snapshot
from tidegate.core.base.errors import CatalogueError, CatalogueMismatch, CatalogueUnsure
from tidegate.targets.iceberg.catalogue import Catalogue, Conflict, Loaded

COMMIT = b"COMMIT\x00"
"""The statement, not the words `READ COMMITTED`."""


@pytest.fixture(params=["sqlite", "postgres"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    if request.param == "sqlite":
        return Site("sql", tmp_path, f"sqlite:///{tmp_path}/catalogue.db")
    return request.getfixturevalue("on_postgres")


@pytest.fixture
def on_postgres(postgres, tmp_path: Path) -> Iterator[Site]:
    url, name = make_url(postgres.ledger_url), f"iceberg_{uuid4().hex[:12]}"
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as c:
        c.exec_driver_sql(f"CREATE DATABASE {name}")
    yield Site("sql", tmp_path, url.set(database=name).render_as_string(hide_password=False), url.port or 5432)
    with engine.connect() as c:
        c.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    engine.dispose()


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and path.suffix in (".json", ".avro"))


def same(a: Loaded | None, b: Loaded) -> bool:
    return a is not None and (a.metadata_location, a.metadata) == (b.metadata_location, b.metadata)


def test_the_life_of_a_table(site: Site) -> None:
    catalogue = site.opened()
    assert catalogue.answers()
    assert catalogue.load("transit.nothing") is None
    made = site.made(catalogue, **{"gc.enabled": "false", "format-version": "2"})
    again = catalogue.load(made.name)
    assert same(again, made)
    m = made.metadata
    assert (m.format_version, m.current_snapshot_id, m.properties) == (2, None, {"gc.enabled": "false"})
    assert m.schema() == SCHEMA, "field ids are the caller's"
    assert m.last_column_id == 31
    assert m.spec() == SPEC
    assert m.last_partition_id == 1001

    first = catalogue.commit(made, (), (*snapshot(made, 11, token="a"), SetPropertiesUpdate(updates={"x": "1"})))
    assert same(site.opened().load(made.name), first)
    assert first.metadata.current_snapshot_id == 11
    assert first.metadata.snapshot_by_id(11).summary["token"] == "a"
    second = catalogue.commit(first, (AssertRefSnapshotId(ref="main", snapshot_id=11),), snapshot(first, 12))
    log = [entry.metadata_file for entry in second.metadata.metadata_log]
    assert log == [made.metadata_location, first.metadata_location]
    assert [p.rpartition("/")[2][:6] for p in (*log, second.metadata_location)] == ["00000-", "00001-", "00002-"]
    assert {p.rpartition("/")[0] for p in log} == {f"{m.location}/metadata"}


def test_a_commit_is_against_what_was_loaded(site: Site) -> None:
    """C1: neither a younger table nor an old commit that comes late is changed; nothing is loaded or tried again."""
    catalogue, other = site.opened(), site.opened()
    made = site.made(catalogue)
    mine = other.commit(made, (), snapshot(made, 21))
    with pytest.raises(Conflict):
        catalogue.commit(made, (), snapshot(made, 22))
    with pytest.raises(Conflict):
        catalogue.commit(made, (), (SetPropertiesUpdate(updates={"x": "1"}),))
    assert same(catalogue.load(made.name), mine)
    newer = other.commit(mine, (), snapshot(mine, 23))
    with pytest.raises(Conflict):
        catalogue.commit(made, (), snapshot(made, 24))
    with pytest.raises(Conflict):
        catalogue.commit(mine, (AssertRefSnapshotId(ref="main", snapshot_id=21),), snapshot(mine, 25))
    assert same(catalogue.load(made.name), newer)


def test_a_requirement_that_does_not_hold_refuses(site: Site) -> None:
    catalogue = site.opened()
    made = site.made(catalogue)
    with pytest.raises(Conflict, match="Requirement failed"):
        catalogue.commit(made, (AssertRefSnapshotId(ref="tag", snapshot_id=5),), snapshot(made, 31))
    assert same(catalogue.load(made.name), made)


def test_of_two_that_commit_at_once_one_wins(site: Site) -> None:
    made = site.made(site.opened())
    outcomes = at_once(lambda n: site.opened().commit(made, (), snapshot(made, 40 + n)))
    assert sorted(type(o).__name__ for o in outcomes) == ["Conflict", "Conflict", "Conflict", "Loaded"]
    won = next(o for o in outcomes if isinstance(o, Loaded))
    assert same(site.opened().load(made.name), won)


def test_of_two_that_create_at_once_one_wins(site: Site) -> None:
    """Also in an empty database, where they make the catalogue's own tables, and the namespace."""
    outcomes = at_once(
        lambda n: site.opened().create("new.one", SCHEMA, SPEC, f"file://{site.folder}/one", {"by": str(n)})
    )
    assert sorted(type(o).__name__ for o in outcomes) == ["Conflict", "Conflict", "Conflict", "Loaded"], outcomes
    won = next(o for o in outcomes if isinstance(o, Loaded))
    assert same(site.opened().load("new.one"), won)


def test_a_table_that_is_there_is_not_made_again(site: Site) -> None:
    catalogue = site.opened()
    made = site.made(catalogue)
    with pytest.raises(Conflict):
        catalogue.create(made.name, SCHEMA, SPEC, made.metadata.location, {})
    assert same(catalogue.load(made.name), made)


def test_a_server_that_is_away_refuses(site: Site, tmp_path: Path) -> None:
    made = site.made(site.opened())
    if site.port is None:
        gone: Catalogue = Site("sql", tmp_path, f"sqlite:///{tmp_path}/no/folder.db").opened()
    else:
        with LossyProxy("127.0.0.1", site.port, b"", Fate.LOSE_REQUEST) as proxy:
            port = proxy.port
        gone = site.opened(port)
    assert not gone.answers()
    for call in (lambda: gone.load(made.name), lambda: gone.commit(made, (), snapshot(made, 51))):
        with pytest.raises(CatalogueError) as told:
            call()
        assert type(told.value) is CatalogueError
        assert told.value.advice
        assert told.value.retry
        assert gone.address in str(told.value)
        assert "tidegate_" not in str(told.value)


def test_names(site: Site) -> None:
    for name in ("trams", "transit.", ".trams", "a..b"):
        with pytest.raises(CatalogueError, match=r"namespace\.table"):
            site.opened().load(name)
    deep = site.opened().create("a.b.c", SCHEMA, SPEC, f"file://{site.folder}/c", {})
    assert same(site.opened().load("a.b.c"), deep)


# ---------------------------------------------------------------- what SQL alone has


def test_a_lost_answer_to_a_commit_is_unsure(on_postgres: Site) -> None:
    """It was executed, and the next load finds it; before COMMIT a lost connection is an answer."""
    made = on_postgres.made(on_postgres.opened())
    with LossyProxy("127.0.0.1", on_postgres.port or 0, COMMIT, Fate.LOSE_REPLY) as proxy:
        catalogue = on_postgres.opened(proxy.port)
        with pytest.raises(CatalogueUnsure, match="may have been executed"):
            catalogue.commit(made, (), snapshot(made, 61))
        found = on_postgres.opened().load(made.name)
        assert found is not None
        assert found.metadata.current_snapshot_id == 61

        proxy.lose_next(COMMIT, Fate.LOSE_REQUEST)
        with pytest.raises(CatalogueUnsure):
            catalogue.commit(found, (), snapshot(found, 62))
        assert same(on_postgres.opened().load(made.name), found)

        proxy.lose_next(b"UPDATE iceberg_tables", Fate.LOSE_REPLY)
        with pytest.raises(CatalogueError) as told:
            catalogue.commit(found, (), snapshot(found, 63))
        assert not isinstance(told.value, CatalogueUnsure)
        assert same(on_postgres.opened().load(made.name), found)

        proxy.lose_next(COMMIT, Fate.LOSE_REPLY)
        with pytest.raises(CatalogueUnsure):
            catalogue.create("transit.lost", SCHEMA, SPEC, f"file://{on_postgres.folder}/lost", {})


def test_a_lock_is_waited_for_no_longer_than_the_time_out(on_postgres: Site) -> None:
    made = on_postgres.made(on_postgres.opened())
    engine = create_engine(on_postgres.at)
    on_postgres_short = on_postgres.opened()
    on_postgres_short._seconds = 0.3  # type: ignore[attr-defined]
    with engine.begin() as c:
        c.exec_driver_sql("LOCK TABLE iceberg_tables")
        with pytest.raises(CatalogueError, match="statement timeout") as told:
            on_postgres_short.commit(made, (), snapshot(made, 71))
    engine.dispose()
    assert type(told.value) is CatalogueError
    assert same(on_postgres.opened().load(made.name), made)


def test_rows_are_those_of_other_clients(tmp_path: Path) -> None:
    """The tables' older schema has no column for views; what another client has made is read and changed."""
    url = f"sqlite:///{tmp_path}/catalogue.db"
    engine = create_engine(url)
    v0 = (
        "CREATE TABLE iceberg_tables(catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, "
        "table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), "
        "PRIMARY KEY (catalog_name, table_namespace, table_name))"
    )
    with engine.begin() as c:
        c.exec_driver_sql(v0)
    site = Site("sql", tmp_path, url)
    catalogue = site.opened()
    made = site.made(catalogue)
    done = catalogue.commit(made, (), snapshot(made, 81))
    with engine.begin() as c:
        names = ("iceberg", *made.name.split("."))
        places = (done.metadata_location, made.metadata_location)
        assert [tuple(row) for row in c.exec_driver_sql("SELECT * FROM iceberg_tables")] == [(*names, *places)]
        exists = [("iceberg", "transit", "exists", "true")]
        assert [tuple(row) for row in c.exec_driver_sql("SELECT * FROM iceberg_namespace_properties")] == exists
        c.exec_driver_sql("ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)")
    newer = catalogue.commit(done, (), snapshot(done, 82))
    with engine.begin() as c:
        c.exec_driver_sql("INSERT INTO iceberg_tables SELECT catalog_name, table_namespace, 'seen', "
                          "metadata_location, NULL, 'VIEW' FROM iceberg_tables")  # fmt: skip
    assert same(catalogue.load(made.name), newer)
    with pytest.raises(CatalogueMismatch, match="is a view"):
        catalogue.load("transit.seen")
    site.made(catalogue)
    with engine.begin() as c:
        assert c.exec_driver_sql("SELECT count(*) FROM iceberg_tables WHERE iceberg_type = 'TABLE'").scalar() == 1
    engine.dispose()


def test_the_log_of_metadata_is_bounded_and_its_files_stay(tmp_path: Path) -> None:
    site = Site("sql", tmp_path, f"sqlite:///{tmp_path}/catalogue.db")
    catalogue = site.opened()
    loaded = site.made(
        catalogue,
        **{"write.metadata.previous-versions-max": "2", "write.metadata.delete-after-commit.enabled": "true"},
    )
    for number in range(1, 5):
        loaded = catalogue.commit(loaded, (), snapshot(loaded, number))
    assert [entry.metadata_file[-60:-41] for entry in loaded.metadata.metadata_log] != []
    assert len(loaded.metadata.metadata_log) == 2
    assert len([name for name in files(tmp_path) if name.endswith(".json")]) == 5, "C6: a cleaner's, not the library's"


def test_metadata_may_be_compressed_and_elsewhere(tmp_path: Path) -> None:
    site = Site("sql", tmp_path, f"sqlite:///{tmp_path}/catalogue.db")
    catalogue = site.opened()
    elsewhere = f"file://{tmp_path}/elsewhere"
    made = site.made(catalogue, **{"write.metadata.path": elsewhere, "write.metadata.compression-codec": "gzip"})
    assert made.metadata_location.startswith(f"{elsewhere}/00000-")
    assert made.metadata_location.endswith(".gz.metadata.json")
    done = catalogue.commit(made, (), snapshot(made, 1))
    assert done.metadata_location.startswith(f"{elsewhere}/00001-")
    assert same(catalogue.load(made.name), done)


def test_the_time_of_a_table_does_not_go_back(tmp_path: Path) -> None:
    """By a host whose clock is behind: Java refuses to read metadata that is older than its log by over a minute."""
    site = Site("sql", tmp_path, f"sqlite:///{tmp_path}/catalogue.db")
    catalogue = site.opened()
    made = site.made(catalogue)
    ahead = made.metadata.last_updated_ms + 3_600_000
    first = catalogue.commit(made, (), snapshot(made, 1, ms=ahead))
    second = catalogue.commit(first, (), (SetPropertiesUpdate(updates={"x": "1"}),))
    assert second.metadata.last_updated_ms == ahead


@pytest.mark.parametrize("damage", ["missing", "cut", "not json"])
def test_metadata_that_cannot_be_read_is_said(tmp_path: Path, damage: str) -> None:
    site = Site("sql", tmp_path, f"sqlite:///{tmp_path}/catalogue.db")
    catalogue = site.opened()
    made = site.made(catalogue)
    path = Path(made.metadata_location.removeprefix("file://"))
    if damage == "missing":
        path.unlink()
    else:
        path.write_text(path.read_text()[:100] if damage == "cut" else json.dumps({"format-version": 9}))
    with pytest.raises(CatalogueMismatch, match=f"{path.name} (is missing|cannot be read)"):
        catalogue.load(made.name)


def test_metadata_that_cannot_be_written_refuses(tmp_path: Path) -> None:
    site = Site("sql", tmp_path, f"sqlite:///{tmp_path}/catalogue.db")
    catalogue = site.opened()
    made = site.made(catalogue)
    updates = snapshot(made, 1)
    folder = Path(made.metadata.location.removeprefix("file://")) / "metadata"
    kept = folder.rename(folder.with_name("kept"))
    folder.write_text("a file")
    with pytest.raises(Exception) as told:
        catalogue.commit(made, (), updates)
    assert not isinstance(told.value, CatalogueUnsure)
    folder.unlink()
    kept.rename(folder)
    assert same(catalogue.load(made.name), made)


def at_once(call) -> list[object]:
    """Outcomes of four calls that begin together."""
    barrier, outcomes = threading.Barrier(4), [None] * 4

    def run(n: int) -> None:
        barrier.wait()
        try:
            outcomes[n] = call(n)
        except Exception as error:
            outcomes[n] = error

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes
