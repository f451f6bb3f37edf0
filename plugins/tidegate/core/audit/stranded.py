"""Landed rows that no run will ever publish, as the audit finds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.core.audit.problems import Problem
from tidegate.core.base.offsets import Interval
from tidegate.core.base.wording import many
from tidegate.core.files.receipt import DATA
from tidegate.core.look.views import Spine, WindowPage
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.cut import window_id
from tidegate.core.window.states import CURRENT
from tidegate.core.window.stranded import stranded


def unpublishable(
    name: str, windows: Windows, spine: Spine, page: WindowPage, published: Iterable[Interval]
) -> Iterator[Problem]:
    """Problems of landed rows that wait, by the window's totals, and will wait for good."""
    rows = sum(t.rows for t in page.totals if t.kind == DATA and spine.landed(t.batch_id))
    if not rows or any(g.state == CURRENT for g in page.generations):
        return
    found = stranded(name, windows, page.window_ms, published)
    if found is not None:
        what = f"{many(rows, 'landed row')} that no run will publish: {found.why}"
        yield Problem(f"window {window_id(page.window_ms)}", what, found.advice)
