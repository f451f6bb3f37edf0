"""The contract of Iceberg catalogues: SQL on SQLite and on PostgreSQL, and Iceberg's own REST server."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate
from sqlalchemy import create_engine
from sqlalchemy.engine import Connection as SqlConnection

from dev.stack.info import StackInfo
from tests.fakes.proxy import Fate, LossyProxy
from tests.targets.iceberg.catalogues import SCHEMA, SPEC, Site, same, snapshot
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import CatalogueError, CatalogueUnsure
from tidegate.storage.local import LocalStorage
from tidegate.targets.iceberg.catalogue import Catalogue, Conflict, Loaded
from tidegate.targets.iceberg.opening import opened
from tidegate.targets.iceberg.sql_catalogue import SqlCatalogue

COMMIT = b"COMMIT\x00"
"""The statement, not the words `READ COMMITTED`."""


@pytest.fixture(params=["sqlite", "postgres", "rest"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    if request.param == "sqlite":
        return Site("sql", tmp_path, f"sqlite:///{tmp_path}/catalogue.db")
    return request.getfixturevalue(f"on_{request.param}")


def test_the_life_of_a_table(site: Site) -> None:
    catalogue = site.opened()
    assert catalogue.answers()
    assert catalogue.load(f"{site.namespace}.nothing") is None
    made = site.made(catalogue, **{"gc.enabled": "false", "format-version": "2"})
    again = catalogue.load(made.name)
    assert same(again, made)
    m = made.metadata
    assert (m.format_version, m.current_snapshot_id, m.properties["gc.enabled"]) == (2, None, "false")
    assert [(f.name, f.field_type) for f in m.schema().fields][:2] == [(f.name, f.field_type) for f in SCHEMA.fields][
        :2
    ]
    assert [(f.name, f.transform) for f in m.spec().fields] == [(f.name, f.transform) for f in SPEC.fields]
    assert m.sort_order().order_id == 0
    if site.kind == "sql":  # a server gives ids of its own
        assert (m.schema(), m.last_column_id) == (SCHEMA, 31)
        assert (m.spec(), m.last_partition_id) == (SPEC, 1001)

    first = catalogue.commit(made, (), (*snapshot(made, 11, token="a"), SetPropertiesUpdate(updates={"x": "1"})))
    assert same(site.opened().load(made.name), first)
    assert first.metadata.current_snapshot_id == 11
    assert first.metadata.snapshot_by_id(11).summary["token"] == "a"
    second = catalogue.commit(first, (AssertRefSnapshotId(ref="main", snapshot_id=11),), snapshot(first, 12))
    log = [entry.metadata_file for entry in second.metadata.metadata_log]
    assert log == [made.metadata_location, first.metadata_location]
    assert [p.rpartition("/")[2][:6] for p in (*log, second.metadata_location)] == ["00000-", "00001-", "00002-"]
    plain = f"{m.location}/metadata".replace("file://", "file:")  # as Java writes it
    assert {p.rpartition("/")[0].replace("file://", "file:") for p in log} == {plain}


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
    with pytest.raises(Conflict, match=r"[Rr]equirement failed"):
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
    name = f"{site.namespace}_new.one"
    outcomes = at_once(lambda n: site.opened().create(name, SCHEMA, SPEC, f"file://{site.folder}/one", {"by": str(n)}))
    assert sorted(type(o).__name__ for o in outcomes) == ["Conflict", "Conflict", "Conflict", "Loaded"], outcomes
    won = next(o for o in outcomes if isinstance(o, Loaded))
    assert same(site.opened().load(name), won)


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
    deep = site.opened().create(f"{site.namespace}.b.c", SCHEMA, SPEC, f"file://{site.folder}/c", {})
    assert same(site.opened().load(deep.name), deep)


def test_java_and_we_share_a_catalogue_in_sql(iceberg_rest: StackInfo, on_rest: Site) -> None:
    """Java's own (JdbcCatalog, as Spark's) stands behind the REST server: what one has made the other reads, changes
    and refuses to change from what is older."""
    ours = SqlCatalogue(f"sqlite:///{iceberg_rest.root}/iceberg/catalogue.db", "rest", LocalStorage(), 5.0)
    java = on_rest.opened()
    made = on_rest.made(ours, **{"write.metadata.compression-codec": "gzip"})
    seen = java.load(made.name)
    assert seen is not None
    assert (seen.metadata.schema(), seen.metadata.spec(), seen.metadata.table_uuid) == (
        SCHEMA, SPEC, made.metadata.table_uuid,
    )  # fmt: skip
    theirs = java.commit(seen, (), snapshot(seen, 81))
    with pytest.raises(Conflict):
        ours.commit(made, (), snapshot(made, 82))
    found = ours.load(made.name)
    assert found is not None
    assert found.metadata.current_snapshot_id == 81
    newest = ours.commit(found, (), snapshot(found, 83))
    with pytest.raises(Conflict):
        java.commit(theirs, (), snapshot(theirs, 84))
    again = java.load(made.name)
    assert again is not None
    assert [s.snapshot_id for s in again.metadata.snapshots] == [81, 83]
    assert again.metadata.last_sequence_number == 2
    assert again.metadata_location == newest.metadata_location

    by_java = on_rest.made(java)
    found = ours.load(by_java.name)
    assert found is not None
    ours.commit(found, (), snapshot(found, 85))
    again = java.load(by_java.name)
    assert again is not None
    assert again.metadata.current_snapshot_id == 85
    with pytest.raises(Conflict):
        ours.create(by_java.name, SCHEMA, SPEC, f"file://{on_rest.folder}/again", {})
    with pytest.raises(Conflict):
        java.create(made.name, SCHEMA, SPEC, f"file://{on_rest.folder}/again", {})


# ---------------------------------------------------------------- answers that are lost


def test_a_lost_answer_of_a_server_is_unsure(on_rest: Site) -> None:
    """It was executed, or not, and the next load tells; without a connection nothing was."""
    made = on_rest.made(on_rest.opened())
    with LossyProxy("127.0.0.1", on_rest.port or 0, b"add-snapshot", Fate.LOSE_REPLY) as proxy:
        catalogue = on_rest.opened(proxy.port)
        with pytest.raises(CatalogueUnsure, match="may have been executed"):
            catalogue.commit(made, (), snapshot(made, 61))
        found = on_rest.opened().load(made.name)
        assert found is not None
        assert found.metadata.current_snapshot_id == 61

        proxy.lose_next(b"add-snapshot", Fate.LOSE_REQUEST)
        with pytest.raises(CatalogueUnsure):
            catalogue.commit(found, (), snapshot(found, 62))
        assert same(on_rest.opened().load(made.name), found)

        proxy.lose_next(b"add-snapshot", Fate.HANG)
        impatient = on_rest.opened(proxy.port)
        impatient._seconds = 0.3  # type: ignore[attr-defined]
        with pytest.raises(CatalogueUnsure, match="no answer in time"):
            impatient.commit(found, (), snapshot(found, 63))

        proxy.lose_next(b"partition-spec", Fate.LOSE_REPLY)
        name = f"{on_rest.namespace}.lost"
        with pytest.raises(CatalogueUnsure):
            on_rest.opened(proxy.port).create(name, SCHEMA, SPEC, f"file://{on_rest.folder}/lost", {})
        assert on_rest.opened().load(name) is not None

        proxy.lose_next(b"GET /v1/namespaces", Fate.LOSE_REPLY)
        with pytest.raises(CatalogueError) as told:
            on_rest.opened(proxy.port).load(name)
        assert not isinstance(told.value, CatalogueUnsure), "looking changes nothing"


def test_a_lost_answer_of_a_database_is_unsure(on_postgres: Site) -> None:
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


def test_a_database_that_hangs_is_given_up(on_postgres: Site) -> None:
    """libpq waits for an answer as long as the connection stays; so what a connection opens is watched."""
    made = on_postgres.made(on_postgres.opened())
    with LossyProxy("127.0.0.1", on_postgres.port or 0, COMMIT, Fate.HANG) as proxy:
        uri = on_postgres.at.replace(f":{on_postgres.port}/", f":{proxy.port}/")
        lake = Connection(conn_id="lake", conn_type="generic", extra={"type": "sql", "uri": uri})
        catalogue = opened(lake, LocalStorage(), 5.0)
        catalogue._watchdog._limits = 0.7  # type: ignore[attr-defined]
        with pytest.raises(CatalogueUnsure, match=r"no answer within 0\.7 s"):
            catalogue.commit(made, (), snapshot(made, 91))
        proxy.lose_next(b"iceberg_tables", Fate.HANG)
        with pytest.raises(CatalogueError, match=f"load {made.name}: no answer") as told:
            catalogue.load(made.name)
        assert type(told.value) is CatalogueError
    assert same(on_postgres.opened().load(made.name), made)


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


def test_a_host_that_stops_in_the_middle_does_not_keep_its_lock(on_postgres: Site) -> None:
    made = on_postgres.made(on_postgres.opened())
    stopped, other = on_postgres.opened(), on_postgres.opened()
    stopped._seconds = 0.3  # type: ignore[attr-defined]
    outcomes: list[Loaded] = []

    def stops(connection: SqlConnection) -> None:
        connection.exec_driver_sql("UPDATE iceberg_tables SET metadata_location = metadata_location")
        outcomes.append(other.commit(made, (), snapshot(made, 95)))

    with pytest.raises(CatalogueUnsure):
        stopped._change(stops, "")  # type: ignore[attr-defined]
    assert same(on_postgres.opened().load(made.name), outcomes[0])


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
