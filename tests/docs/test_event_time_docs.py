"""`docs/event-time.md` and the cases: each case has a test, each test a case, and pictures fit a narrow page."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/event-time.md").read_text()
CASES = "".join(p.read_text() for p in sorted((ROOT / "tests/core").glob("test_core_event_time_cases*.py")))


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_each_case_has_its_tests_and_each_test_its_case() -> None:
    text = section("Watermarks, case by case")
    written = set(re.findall(r"^def (test_\w+)", CASES, re.MULTILINE))
    assert set(re.findall(r"`(test_\w+)`", text)) == written
    for case in text.split("\n### ")[1:]:
        assert "`test_" in case, case.splitlines()[0]


def test_pictures_fit() -> None:
    wide = [line for line in PAGE.splitlines() if line.startswith("    ") and len(line) > 124]
    assert not wide
