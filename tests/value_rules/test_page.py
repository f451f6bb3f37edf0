"""The page and its tests name each other's rows; the oracle knows nothing of the engine."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.value_rules import examples_json, page
from tests.value_rules.families import FAMILIES

HERE = Path(__file__).parent
_ID = re.compile(r"\b[A-Z]-[a-z0-9]+(?:-[a-z0-9]+)*\b")
_NAMED = re.compile(r"\"([A-Z]-[a-z0-9]+(?:-[a-z0-9]+)*)\"")


def test_every_row_has_a_test_and_every_test_a_row() -> None:
    rows = page.rows()
    files = [*HERE.glob("*.py"), *HERE.parent.glob("*/test_engine_*.py")]
    named = {name for file in files for name in _NAMED.findall(file.read_text())}
    named |= {example.row for example in page.examples("J-") + page.examples("T-")}
    assert len(rows) > 100
    assert sorted(set(rows) - named) == [], "rows without a test"
    assert sorted(named - set(rows)) == [], "tests of rows that the page does not have"


def test_every_row_that_a_message_can_show_is_compared() -> None:
    compared = {row for family in FAMILIES.values() for row in family.seeds()}
    of_specs_and_registries = {
        "A-message-other-schema", "A-message-registry", "A-spec", "C-nested", "P-spec", "R-unknown", "T-nested",
    }  # fmt: skip
    assert set(page.rows()) - compared == of_specs_and_registries


def test_rows_that_other_rows_refer_to_exist() -> None:
    rows = page.rows()
    assert [name for name in set(_ID.findall(page.PAGE.read_text())) if name not in rows and name[2:]] == []


def test_every_example_cell_is_understood() -> None:
    arrows = sum(rest.count("→") for name, rest in page.rows().items() if name.startswith(("J-", "T-")))
    assert arrows == len(page.examples("J-") + page.examples("T-")) + examples_json.ARROWS_IN_PROSE


def test_the_oracle_imports_nothing_of_the_engine() -> None:
    allowed = {"tests.value_rules." + file.stem for file in HERE.glob("oracle_*.py")}
    for file in HERE.glob("oracle_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            for name in names:
                assert name in allowed or not name.startswith(("tests", "spark_jobs", "tidegate", "pyarrow", "json")), (
                    f"{file.name}: {name}"
                )
