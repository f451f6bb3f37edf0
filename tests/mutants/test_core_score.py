"""Core files that have changed since their mutation score was recorded are no worse tested than before."""

from __future__ import annotations

import json
import os
from pathlib import Path

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


def test_what_a_run_killed_is_not_tried_again(tmp_path: Path) -> None:
    meta = tmp_path / "mutants/src/tidegate/core/a.py.meta"
    meta.parent.mkdir(parents=True)
    (tmp_path / "mutants/mutmut-stats.json").write_text("which tests call what")
    codes = {"killed": 1, "crashed": -9, "slow": 36, "survived": 0, "untested": 33, "left": None}
    meta.write_text(json.dumps({"exit_code_by_key": codes, "more": 1}))
    core_score._keep_killed(tmp_path)
    again = dict.fromkeys(("survived", "untested", "left"))
    assert json.loads(meta.read_text()) == {"exit_code_by_key": codes | again, "more": 1}
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["a.py.meta"]


def test_what_was_measured_is_recorded_beside_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was not tried to its end keeps its record; one that is gone loses it."""
    monkeypatch.setattr(core_score, "RECORD", tmp_path / "record.json")
    monkeypatch.setattr(core_score, "_modules", lambda: [core_score.CORE / f"{n}.py" for n in ("a", "b", "c")])
    old, new = core_score.Score("old", 4, 3, 1, 0), core_score.Score("new", 4, 4, 0, 0)
    core_score.record({"a": old, "b": old, "gone": old})
    core_score.record({"a": new, "b": core_score.Score("new", 4, 1, 0, 0, left=3), "c": new})
    assert core_score.recorded() == {"a": new, "b": old, "c": new}
