"""A bug is where its seam is: wherever the function has moved, whoever imports it, and only while it is planted."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.copies import planted as copied
from tests.copies import planted_places as lost
from tests.copies import planted_servers as of_servers
from tests.deliver import planted as delivered
from tests.failover import planted as failed_over
from tests.mirror import planted as mirrored
from tests.mirror import planted_workflow as applied
from tests.mutants import bugs, seams
from tests.mutants.planting import Bug, NoLongerApplies, Patch, Planted, always, nothing
from tests.offline import planted as offline
from tests.simulation import planted as simulated

HOME = """
def rule(x, *, more=1):
    return x + more

class Thing:
    size = 2
    @property
    def twice(self): return 2 * self.size
    @staticmethod
    def zero(): return 0
    def grown(self, by=1): return self.size + by

def kept(x):
    return lambda: x

closure = kept(1)
"""
USER = """
from home import rule as judged, Thing
TABLE = {"rule": judged}

def use():
    return judged(1), TABLE["rule"](1, more=2)
"""


@pytest.fixture
def modules() -> Iterator[dict[str, ModuleType]]:
    made = {}
    for name, text in (("home", HOME), ("user", USER)):
        sys.modules[name] = made[name] = ModuleType(name)
        exec(text, made[name].__dict__)
    yield made
    for name in made:
        del sys.modules[name]


def bug(*patches: Patch) -> Bug:
    return Bug("a rule is broken", "R0", "an attack", "an invariant", patches)


def ten_more(original, x, **options):
    return original(x, **options) + 10


@pytest.mark.parametrize("seam", ["home:rule", "user:judged"])
def test_everybody_who_has_imported_a_function_meets_the_bug(modules: dict[str, ModuleType], seam: str) -> None:
    """Also where it is named by the module that it has moved away from, as long as that imports it."""
    assert modules["user"].use() == (2, 3)
    with Planted(bug(Patch(seam, ten_more))):
        assert modules["user"].use() == (12, 13)
        assert modules["home"].rule(1) == 12
    assert modules["user"].use() == (2, 3)


def test_methods_are_seams_too(modules: dict[str, ModuleType]) -> None:
    thing = modules["home"].Thing()
    patches = (
        Patch("home:Thing.twice", lambda original, self: -original(self)),
        Patch("home:Thing.zero", always(7)),
        Patch("user:Thing.grown", lambda original, self, by=1: original(self, by) * 100),
    )
    with Planted(bug(*patches)):
        assert (thing.twice, thing.zero(), thing.grown(), thing.grown(by=3)) == (-4, 7, 300, 500)
    assert (thing.twice, thing.zero(), thing.grown()) == (4, 0, 3)


def test_a_seam_that_was_not_passed_is_told(modules: dict[str, ModuleType]) -> None:
    with Planted(bug(Patch("home:rule", ten_more), Patch("home:Thing.zero", nothing))) as planted:
        modules["home"].rule(1)
        assert planted.never_called() == ["home:Thing.zero"]
        planted.forget_calls()
        assert planted.never_called() == ["home:rule", "home:Thing.zero"]


@pytest.mark.parametrize(
    ("seam", "by"),
    [
        ("nowhere:rule", ten_more),
        ("home:gone", ten_more),
        ("home:Thing.gone", nothing),
        ("home:Thing", nothing),
        ("home:closure", nothing),
        ("home:rule", lambda original, y, **options: 0),
        ("home:rule", lambda original, x: 0),
        ("home:rule", lambda original, x, more, another: 0),
    ],
)
def test_a_seam_that_is_gone_or_has_changed_is_told_before_anything_runs(
    modules: dict[str, ModuleType], seam: str, by
) -> None:
    with pytest.raises(NoLongerApplies, match=f"a rule is broken: {re.escape(seam)}"):
        Planted(bug(Patch("home:rule" if seam != "home:rule" else "home:Thing.zero", nothing), Patch(seam, by)))
    assert modules["user"].use() == (2, 3)


def test_two_patches_of_one_seam_are_refused(modules: dict[str, ModuleType]) -> None:
    with pytest.raises(NoLongerApplies, match="two of its patches"):
        Planted(bug(Patch("home:rule", nothing), Patch("home:rule", nothing)))


def test_each_seam_is_one_line_that_a_bug_needs() -> None:
    """And no bug names code in any other way, so that code which moves is followed in `seams.py` alone; each fits."""
    named = {name: value for name, value in vars(seams).items() if name.isupper()}
    assert len(set(named.values())) == len(named)
    sets = (
        bugs.BUGS,
        simulated.BUGS,
        mirrored.BUGS,
        mirrored.TABLE_BUGS,
        mirrored.LOG_BUGS,
        mirrored.READING_BUGS,
        mirrored.AUDIT_BUGS,
        mirrored.DAY_BUGS,
        applied.WORKFLOW_BUGS,
        copied.COPY_BUGS,
        of_servers.SERVER_BUGS,
        lost.PLACE_BUGS,
        offline.OFFLINE_BUGS,
        delivered.DELIVERY_BUGS,
        delivered.CLUSTER_BUGS,
        delivered.SIDE_BUGS,
        failed_over.FAILOVER_BUGS,
    )
    planted = [bug for each in sets for bug in each.values()]
    used = {p.seam for b in planted for p in b.patches}
    assert used == set(named.values())
    for each in planted:
        Planted(each)  # raises where it no longer fits
    files = [
        *Path(bugs.__file__).parent.glob("bugs_*.py"),
        *(Path(m.__file__) for m in (simulated, mirrored, applied, copied, lost, offline, delivered, failed_over)),
    ]
    assert [f.name for f in files if re.search(r"\"(tidegate|spark_jobs|tests)[\w.]*:", f.read_text())] == []
