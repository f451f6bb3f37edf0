"""Every page: links, anchors, paths and commands lead somewhere, and the site's navigation has the page.

TIDEGATE_WRITE_DOCS=1 writes the package tree of docs/architecture.md anew instead of comparing it."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import state_machines

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RECORDS = sorted(p for p in DOCS.glob("adr/*.md") if p.name != "index.md")
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", *sorted(ROOT.glob("tests/*/README.md"))]
WRITE = "TIDEGATE_WRITE_DOCS" in os.environ


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_every_test_that_the_guarantees_name_exists() -> None:
    text = (DOCS / "guarantees.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) > 30
    for path, test in named:
        content = (ROOT / path).read_text()
        assert not test or re.search(rf"^def {test}\(", content, re.MULTILINE), f"{path}::{test}"


def test_every_row_of_the_failure_table_names_a_test() -> None:
    text = (DOCS / "guarantees.md").read_text()
    part = text.split("## What fails")[1].split("\n## ")[0]
    rows = [line for line in part.splitlines() if line.startswith("|") and not set(line) <= set("|- ")]
    unproved = [row for row in rows if "`tests/" not in row and not row.startswith("| what fails")]
    assert unproved == []


def test_every_rule_is_named_in_the_overview_and_by_a_decision() -> None:
    rules = [f"R{n}" for n in range(1, 16)]
    assert re.findall(r"^\| (R\d+) \|", (DOCS / "architecture.md").read_text(), re.MULTILINE) == rules
    said = "".join(record.read_text() for record in RECORDS)
    assert [rule for rule in rules if not re.search(rf"\b{rule}\b", said)] == []


# ---------------------------------------------------------------- links


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_anchors_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", without_code(page.read_text())):
        other = (page.parent / target).resolve() if target else page
        assert other.exists(), f"{name_of(page)}: {target}"
        assert not anchor or anchor in anchors(other), f"{name_of(page)}: {target}#{anchor}"


def without_code(text: str) -> str:
    return re.sub(r"(?ms)^( *```).*?^\1$", "", text)


def anchors(page: Path) -> set[str]:
    """A heading's anchor, as GitHub and the site make it."""
    headings = re.findall(r"^#+ (.*)$", without_code(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_anchors_that_the_product_names_are_there() -> None:
    """In messages, dashboards and alert rules."""
    files = [p for top in ("plugins", "spark_jobs", "docker") for p in (ROOT / top).rglob("*") if p.suffix in TEXTS]
    named = {m for file in files for m in re.findall(r"docs/([\w-]+\.md)#([\w-]+)", file.read_text())}
    assert named
    assert {(page, anchor) for page, anchor in named if anchor not in anchors(DOCS / page)} == set()


TEXTS = (".py", ".json", ".yml", ".yaml", ".html", ".md")


def test_no_page_of_the_docs_links_out_of_their_folder() -> None:
    """The site has the docs only."""
    out = {
        f"{name_of(page)}: {target}"
        for page in DOCS.rglob("*.md")
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", without_code(page.read_text()))
        if not (page.parent / target).resolve().is_relative_to(DOCS)
    }
    assert out == set()


# ---------------------------------------------------------------- what a page names

FOLDERS = [ROOT, ROOT / "plugins/tidegate", ROOT / "plugins"]
TOP = ("plugins", "spark_jobs", "dev", "dags", "tests", "bench", "docker", "docs")
TOP += tuple(p.name for p in (ROOT / "plugins/tidegate").iterdir() if p.is_dir())


def test_paths_that_pages_name_exist() -> None:
    """Such as `core/batch/planning.py`, also with the name of a function or class: `ledger/windows.py::still`."""
    missing = {
        f"{name_of(page)}: {path}{name}"
        for page in PAGES
        for path, name in re.findall(rf"`((?:{'|'.join(TOP)})/[\w./-]+)(::\w+)?`", page.read_text())
        if not found(path, name[2:])
    }
    assert missing == set()


def found(path: str, name: str) -> bool:
    places = [folder / path for folder in FOLDERS if (folder / path).exists()]
    return bool(places) and (not name or bool(re.search(rf"^ *(def|class) {name}\b", places[0].read_text(), re.M)))


def test_targets_of_make_that_pages_name_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = {(name_of(p), t) for p in PAGES for t in re.findall(r"`(?:[A-Z]+=\w+ )?make ([a-z][a-z-]*)", p.read_text())}
    assert len(named) > 10
    assert {(page, target) for page, target in named if target not in targets} == set()
    phony = set(re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split())  # type: ignore[index]
    assert targets <= phony


GENERATED = ("pipeline.md", "cli.md")
FOREIGN = [
    r"\bmend(s|ed|ing)?\b", r"\bof ours\b", r"\b(is|are) none\b", r"\bwho(m)?ever\b", r"\bspoilt\b", r"\binside of\b",
    r"\bheld against\b", r"(?m)^(What|Who) [a-z ]{1,30} (is|are|has|was|stays|comes|can|cannot|may)\b",
]  # fmt: skip


@pytest.mark.parametrize("page", [p for p in PAGES if p.name not in GENERATED], ids=name_of)
def test_prose_is_plain(page: Path) -> None:
    """Words that people stumble over at night. Messages in backticks are quoted as the code has them."""
    prose = re.sub(r"`[^`]+`", "``", without_code(page.read_text()))
    assert [found[0] for word in FOREIGN for found in re.finditer(word, prose, re.IGNORECASE)] == []


# ---------------------------------------------------------------- the site


class _Settings(yaml.SafeLoader):
    """mkdocs.yml without the Python objects that it names."""


_Settings.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def in_navigation(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for inner in entry.values() if isinstance(entry, dict) else entry:
            yield from in_navigation(inner)


def test_every_page_is_in_the_navigation_once_and_its_kind_is_on_the_first_page() -> None:
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(), _Settings)
    pages = sorted(str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md"))
    assert sorted(in_navigation(settings["nav"])) == pages
    first = (DOCS / "index.md").read_text()
    for section in settings["nav"][1:]:
        ((kind, entries),) = section.items()
        part = first.split(f"## {kind}:")[1].split("\n## ")[0]
        linked = re.findall(r"^\| \[[^]]+\]\(([^)]+)\)", part, re.MULTILINE)
        assert linked == [p for p in in_navigation(entries) if not p.startswith("adr/") or p == "adr/index.md"]
    listed = re.findall(r"^\| \[[^]]+\]\(([^)]+)\)", (DOCS / "adr/index.md").read_text(), re.MULTILINE)
    assert sorted(listed) == [record.name for record in RECORDS]


def test_what_is_meant_to_be_short_is_short() -> None:
    lines = {name_of(p): len(p.read_text().splitlines()) for p in PAGES}
    assert lines["README.md"] <= 120
    assert lines["docs/architecture.md"] <= 250
    assert {page: n for page, n in lines.items() if page.startswith("docs/adr/") and n > 80} == {}


@pytest.mark.parametrize("record", RECORDS, ids=name_of)
def test_a_decision_says_its_context_and_its_consequences(record: Path) -> None:
    titles = re.findall(r"^## (.*)$", record.read_text(), re.MULTILINE)
    assert titles == ["Context", "Decision", "Consequences"]


# ---------------------------------------------------------------- the package tree

_TREE = re.compile(r"(?s)(<!-- tree: .*? -->\n).*?(<!-- end of the tree -->)")


def test_the_overview_has_each_folder_in_the_words_of_its_docstring() -> None:
    page = DOCS / "architecture.md"
    rows = "".join(f"| `{folder}` | {words} |\n" for folder, words in folders())
    text = page.read_text()
    renewed = _TREE.sub(lambda m: f"{m[1]}\n| folder | holds |\n|---|---|\n{rows}\n{m[2]}", text)
    if WRITE:
        page.write_text(renewed)
    assert renewed == text or WRITE, "run: TIDEGATE_WRITE_DOCS=1 python -m pytest tests/docs/test_docs.py"


def folders() -> Iterator[tuple[str, str]]:
    for top in ("plugins/tidegate", "spark_jobs", "dev"):
        for init in sorted((ROOT / top).rglob("__init__.py")):
            folder = name_of(init.parent)
            if "migrations" in folder:
                continue
            words = ast.get_docstring(ast.parse(init.read_text()))
            assert words, f"{folder}/__init__.py: a docstring says what the folder holds"
            short = folder.removeprefix("plugins/tidegate/")
            yield short, " ".join(words.partition("\n\n")[0].split()).replace("|", "\\|")


def test_the_state_machines_are_those_of_the_code() -> None:
    assert state_machines.PAGE.read_text() == state_machines.page(), "python -m tests.state_machines > its page"
