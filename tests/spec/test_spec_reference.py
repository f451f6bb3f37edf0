from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tidegate.spec import load_file, load_folder, schema
from tidegate.spec.__main__ import main
from tidegate.spec.document import read
from tidegate.spec.pydantic_errors import all_keys
from tidegate.spec.reference import EXAMPLE, SCHEMA_FILE, markdown, schema_text
from tidegate.spec.variables import plain

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "pipelines"


def unexpanded(text: str) -> dict:
    """The file as an editor sees it: `${VARIABLE}`s stand as they are."""
    names = {part.partition("}")[0].partition(":-")[0] for part in text.split("${")[1:]}
    value, problems = plain(read(text, "x.yaml"), {name: f"${{{name}}}" for name in names})
    assert not problems
    return value


def schema_keys(section: dict, path: str = "") -> set[str]:
    keys = set()
    for key, value in section["properties"].items():
        here = f"{path}.{key}".strip(".")
        keys.add(here)
        assert value.get("description") or value["items"]["description"], f"{here} is not documented"
        for holds in (value, value.get("items", {})):
            if "properties" in holds:
                keys |= schema_keys(holds, here)
    return keys


def test_the_schema_file_is_up_to_date():
    assert SCHEMA_FILE.read_text() == schema_text(), (
        "run: python -m tidegate.spec schema > plugins/.../pipeline.schema.json"
    )


def test_the_reference_is_up_to_date():
    assert (ROOT / "docs" / "pipeline.md").read_text() == markdown(), (
        "run: python -m tidegate.spec docs > docs/pipeline.md"
    )


def test_every_key_is_in_the_schema_and_in_the_reference():
    assert schema_keys(schema()) == set(all_keys())
    text = markdown()
    missing = [key for key in all_keys() if f"| `{key}` |" not in text]
    assert not missing


def test_the_example_of_the_reference_is_a_pipeline(tmp_path):
    (tmp_path / "flights.yaml").write_text(EXAMPLE)
    pipeline = load_file(tmp_path / "flights.yaml", {})
    assert pipeline.partition_by == ("date", "hour", "carrier")
    jsonschema.validate(unexpanded(EXAMPLE), schema())


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("[!d]*.yaml")), ids=lambda p: p.stem)
def test_what_loads_is_right_for_editors(path):
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(unexpanded(path.read_text()), schema())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  topic: ", "  topik: "),
        ("size: 15m", "size: 15"),
        ("idle: follow", "idle: guess"),
        ("max_records: 200000", "max_records: 0"),
        ("max_records: 200000", "max_records: many"),
        ("version: 1", "version: 2"),
        ("    type: int", "    typ: int"),
        ("from: $.vehicle.id", "from: vehicle.id"),
    ],
)
def test_editors_see_what_the_loader_refuses(old, new):
    text = (FIXTURES / "tram_positions.yaml").read_text()
    assert old in text
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(unexpanded(text.replace(old, new)), schema())


def test_patterns_are_plain_enough_for_every_editor():
    """JSON schema's regular expressions are JavaScript's: no inline flags, no needless escapes."""
    text = json.dumps([v for v in _values(schema(), "pattern")])
    assert "(?" not in text.replace("$?()", "")
    assert "\\\\'" not in text


def _values(tree: object, key: str) -> list[str]:
    if isinstance(tree, list):
        return [v for item in tree for v in _values(item, key)]
    if not isinstance(tree, dict):
        return []
    own = [tree[key]] if isinstance(tree.get(key), str) else []
    return own + [v for item in tree.values() for v in _values(item, key)]


def test_the_folder_of_the_repository_loads():
    for one in load_folder(ROOT / "dags" / "pipelines", {"TIDEGATE_LAKE": "/data"}):
        assert one.error is None, str(one.error)


def test_check_says_what_is_wrong_and_fails(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("LAKE", raising=False)
    (tmp_path / "flights.yaml").write_text(EXAMPLE)
    assert main(["check", str(tmp_path)]) == 0
    (tmp_path / "other.yaml").write_text(EXAMPLE)
    assert main(["check", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert f"{tmp_path / 'other.yaml'}:2: name: must be other" in captured.err
    assert captured.out.endswith("1 of 2 pipelines valid\n")
    assert main(["check", str(tmp_path / "nowhere")]) == 1
    assert main([]) == 2


def test_airflow_is_not_imported():
    code = (
        "import sys, tidegate.spec; sys.exit(any(m.partition('.')[0] in ('airflow', 'pyarrow') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
