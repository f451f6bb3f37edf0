"""Sites in the YAML: what is compiled, and that they make no new version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.failover.sites import TwoSites
from tests.mirror.worlds import YAML as MIRROR
from tests.spec_texts import GOOD
from tidegate.core.base.errors import SpecError
from tidegate.core.spec.pipeline import Site
from tidegate.spec import fingerprint, load_file
from tidegate.spec.loader import load_text

SITES = """\
  sites:
  - {name: oslo, conn_id: kafka_default}
  - {name: bergen, conn_id: kafka_2, copiers: [orders-there]}
"""


def loaded(folder: Path, sites: str):
    path = folder / "orders.yaml"
    path.write_text(GOOD.replace("  topic: orders\n", f"  topic: orders\n{sites}"))
    return load_file(path)


def test_sites_are_compiled_in_their_order(tmp_path: Path) -> None:
    source = loaded(tmp_path, SITES).source
    assert source.sites == (
        Site(name="oslo", conn_id="kafka_default"),
        Site(name="bergen", conn_id="kafka_2", copiers=("orders-there",)),
    )
    assert source.site == "oslo"
    assert source.at("bergen").site == "bergen"


def test_sites_and_the_active_one_make_no_new_version(tmp_path: Path) -> None:
    plain, named = loaded(tmp_path, ""), loaded(tmp_path, SITES)
    assert plain.source.sites == ()
    assert plain.source.site == ""
    at_bergen = type(named)(**{**vars(named), "source": named.source.at("bergen")})
    assert fingerprint(plain) == fingerprint(named) == fingerprint(at_bergen)


def test_an_active_site_that_the_yaml_does_not_name_is_refused(tmp_path: Path) -> None:
    world = TwoSites(tmp_path)
    world.write("oslo", "a")
    world.drain("r1")
    world.there.run()
    world.fail_over()
    first, second = world.pipeline.source.sites
    renamed = Site(name="trondheim", conn_id=second.conn_id)
    world.change_spec(source=type(world.pipeline.source)(**{**vars(world.pipeline.source), "sites": (first, renamed)}))
    with pytest.raises(SpecError, match=r"site bergen is active, and source\.sites does not name it"):
        world.context()
    world.close()


def test_a_mirror_takes_no_second_site() -> None:
    sites = "sites: [{name: oslo, conn_id: kafka_default}, {name: bergen, conn_id: kafka_2}]"
    text = MIRROR.format(location="file:///lake/readings").replace(
        "{topic: readings}", f"{{topic: readings, {sites}}}", 1
    )
    assert sites in text
    with pytest.raises(SpecError, match="a mirror takes no second site"):
        load_text(Path("/nowhere/readings.yaml"), text, {})
