"""Iceberg's catalogue in SQL: rows that other clients share, and metadata files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyiceberg.table.update import SetPropertiesUpdate
from sqlalchemy import create_engine

from tests.targets.iceberg.catalogues import Site, same, snapshot
from tidegate.core.base.errors import CatalogueMismatch, CatalogueUnsure


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
    with engine.begin() as c:
        c.exec_driver_sql("UPDATE iceberg_tables SET metadata_location = NULL, iceberg_type = NULL "
                          "WHERE table_name = 'seen'")  # fmt: skip
    with pytest.raises(CatalogueMismatch, match="has no metadata file"):
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
    assert len([name for name in (p.name for p in tmp_path.rglob("*")) if name.endswith(".json")]) == 5, (
        "C6: a cleaner's, not the library's"
    )


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
