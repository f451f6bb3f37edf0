"""The pages that promise something: each line's test exists, each link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("docs/*.md")), ROOT / "README.md"]


def test_every_test_that_the_guarantees_name_exists() -> None:
    text = (ROOT / "docs/guarantees.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) > 30
    for path, test in named:
        content = (ROOT / path).read_text()
        assert not test or re.search(rf"^def {test}\(", content, re.MULTILINE), f"{path}::{test}"


def test_every_row_of_the_failure_table_names_a_test() -> None:
    text = (ROOT / "docs/guarantees.md").read_text()
    part = text.split("## What fails")[1].split("\n## ")[0]
    rows = [line for line in part.splitlines() if line.startswith("|") and not set(line) <= set("|- ")]
    unproved = [row for row in rows if "`tests/" not in row and not row.startswith("| what fails")]
    assert unproved == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name}: {target}"
