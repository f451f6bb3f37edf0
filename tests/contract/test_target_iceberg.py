"""The contract of tables on Iceberg's real catalogues, and commits there whose answers are lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.proxy import Fate, LossyProxy
from tests.target_suite import ROWS, Lab, again, publish
from tests.targets.iceberg import test_table
from tests.targets.iceberg.catalogues import Site
from tests.targets.iceberg.lab import Tables, make, metadata_of
from tidegate.targets.iceberg.live import token_in

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
