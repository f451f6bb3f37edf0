"""Core files that have changed since their mutation score was recorded are no worse tested than before."""

from __future__ import annotations

import os

import pytest

from tests.mutants import core_score

SLACK = 5.0


@pytest.mark.skipif(os.environ.get("TIDEGATE_NIGHTLY") != "all", reason="make test-nightly")
def test_changed_core_files_are_tested_as_well_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    """`make mutation` tries everything and records."""
    if not core_score.RECORD.exists():
        pytest.skip("no score is recorded: `make mutation` does it")
    modules = core_score.changed()
    if not modules:
        return
    stage = core_score.STAGES / "changed"
    scores = core_score.measure(modules, None, stage)
    listed = core_score.survivors(stage, modules)
    (stage / "survivors.txt").write_text(listed)
    with capsys.disabled():
        print(f"\nmutation score of changed core files ({stage / 'survivors.txt'}):\n{core_score.table(scores)}")
    before = core_score.recorded()
    worse = {
        name: f"{before[name].percent}% before, {s.percent}% now"
        for name, s in scores.items()
        if name in before and not s.left and s.percent < before[name].percent - SLACK
    }
    assert worse == {}, listed


def test_ports_are_no_code() -> None:
    """The default of an argument that only an adapter ever sees is nobody's rule."""
    source = "class A(Protocol):\n    def f(self, n: int = 1) -> int: ...\nclass B: ...\nclass C(A, Protocol): ...\n"
    assert core_score._ports(source) == ["A", "C"]
