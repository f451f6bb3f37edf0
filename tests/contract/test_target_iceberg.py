"""The contract of tables on Iceberg's real catalogues; there, commits whose answers are lost, a server that is down for
a while, and a table that is somebody else's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.proxy import Fate, LossyProxy
from tests.target_suite import ROWS, Lab, again, publish
from tests.targets.iceberg import test_table
from tests.targets.iceberg.catalogues import SCHEMA, SPEC, Site, same, snapshot
from tests.targets.iceberg.lab import Tables, make, metadata_of, reader
from tests.world import World, record, window
from tidegate.core.base.errors import CatalogueError, CatalogueMismatch
from tidegate.core.files.receipt import DATA, DIRTY, LATE
from tidegate.targets.iceberg.live import token_in
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive

COMMITS = {"postgres": b"COMMIT\x00", "rest": b"add-snapshot"}


@pytest.fixture(params=sorted(COMMITS))
def site(request: pytest.FixtureRequest) -> Site:
    found = request.getfixturevalue(f"on_{request.param}")
    assert isinstance(found, Site)
    return found


class TestIcebergOnServers(test_table.TestIceberg):
    @pytest.fixture
    def lab(self, site: Site, tmp_path: Path) -> Lab:
        return make(tmp_path, site.opened())


def test_a_commit_whose_answer_is_lost_is_found_by_looking(site: Site, tmp_path: Path) -> None:
    """C4, C6: executed or not, the same task looks, and the generation stands once."""
    marker = COMMITS["rest" if site.kind == "rest" else "postgres"]
    lab = make(tmp_path, site.opened())
    lab.until_done(publish)
    assert site.port is not None
    with LossyProxy("127.0.0.1", site.port, b"\x00nothing", Fate.LOSE_REPLY) as proxy:
        lab.world.tables = lambda world: Tables(site.opened(proxy.port))
        for generation, (fate, commits) in enumerate(((Fate.LOSE_REPLY, 1), (Fate.LOSE_REQUEST, 2)), 2):
            coming = [fate]

            def around(do: Callable[[], None], coming: list[Fate] = coming) -> None:
                if coming:
                    proxy.lose_next(marker, coming.pop())
                do()

            lab.other_columns()
            lab.made.clear()
            again(lab.context(around))
            assert proxy.matched >= 1
            assert lab.made == ["commit"] * commits
            assert lab.rows() == ROWS
            metadata = metadata_of(lab.world, site.opened())
            assert metadata is not None
            tokens = [token_in(s) for s in metadata.snapshots]
            assert [t.generation for t in tokens if t is not None].count(generation) == 1
    lab.world.close()


def test_a_server_that_is_down_for_a_while_loses_nothing(site: Site, tmp_path: Path) -> None:
    """Batches land meanwhile, with late and dirty rows; a publication says where nobody answers, and the next one goes
    on."""
    lab = make(tmp_path, site.opened())
    lab.until_done(publish)
    world = lab.world
    with LossyProxy("127.0.0.1", site.port or 0, b"\x00nothing", Fate.LOSE_REPLY) as proxy:
        gone = site.opened(proxy.port)
    world.tables = lambda world: Tables(gone)
    world.produce(record("late", 0.2), record("next", 1.2), b"dirty", record("beyond", 5.5))
    world.produce(record("beyond", 5.5), partition=1)
    world.ingest("r2")
    for _ in range(2):
        with pytest.raises(CatalogueError) as told:
            world.archive(1)
        assert gone.address in str(told.value)
        assert told.value.advice
        assert told.value.retry
        world.close()
    assert lab.rows(LATE) + lab.rows(DIRTY) == {}

    world.tables = lambda world: Tables(site.opened())
    lab.until_done(lambda ctx: archive.announced(ctx, archive.publish(ctx, window(1))))
    reconcile.maintain(world.context())
    world.close()
    assert lab.rows() == ROWS + Counter({(0, len(ROWS) + 1): 1})
    assert lab.rows(LATE) == {(0, len(ROWS)): 1}
    assert lab.rows(DIRTY) == {(0, len(ROWS) + 2): 1}


def test_a_table_that_others_made_stays_as_it_is(site: Site, tmp_path: Path) -> None:
    """The first batch is refused before anything is planned, so that the pipeline may still get another table."""
    name = f"{tmp_path.name}.readings".replace("-", "_")
    made = site.opened().create(name, SCHEMA, SPEC, f"file://{tmp_path}/theirs", {})
    theirs = site.opened().commit(made, (), snapshot(made, 11))
    world = World(tmp_path)
    world.change_spec(sink=replace(world.pipeline.sink, kind="iceberg", conn_id="lake", table=name))
    world.tables = lambda world: Tables(site.opened())
    world.produce(record("a", 0.1), record("later", 3.5))
    world.produce(record("later", 3.5), partition=1)
    for _ in range(2):
        with pytest.raises(CatalogueMismatch, match=f"{name} is somebody else's table") as told:
            world.ingest("r1")
        assert "another sink.table" in told.value.advice
        assert not told.value.retry
        world.close()
    assert same(site.opened().load(name), theirs)

    world.change_spec(sink=replace(world.pipeline.sink, table=f"{name}_ours"))
    world.ingest("r1")
    world.archive(0)
    assert reader(world, site.opened())(DATA) == {(0, 0): 1}
    assert same(site.opened().load(name), theirs)
