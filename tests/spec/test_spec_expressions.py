"""SQL in a pipeline's YAML: judged in a process of its own, told with file, line and field, asked about once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidegate.adapters.expressions import ExpressionChecker, Lenient
from tidegate.cli.main import main
from tidegate.core.base.errors import SpecError, StorageError
from tidegate.core.spec.pipeline import Column, Pipeline
from tidegate.spec import fingerprint, load_file, load_folder

YAML = """\
version: 1
name: orders
owner: shop
source: {topic: orders}
columns:
  - name: shop
    type: string
  - {name: total, type: "decimal(10,2)"}
  - {name: raw, type: string, from: $.country, hidden: true}
  - name: country
    type: string
    expr: upper(raw)
event_time: {from: $.placed_at}
windows: {start: 2013-01-01T00:00:00Z, watermark_delay: 1h}
partition_by: [date, hour, country]
where: total > 0
sink: {table: lake.orders, location: "file:///lake/orders"}
"""


@pytest.fixture
def checker(tmp_path: Path):
    with ExpressionChecker(tmp_path / "cache") as made:
        yield made


@pytest.fixture
def pipeline(tmp_path: Path) -> Callable[..., Path]:
    def write(*changes: tuple[str, str], name: str = "orders") -> Path:
        text = YAML
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "pipelines" / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("orders", name))
        return path

    return write


def test_what_compiles(pipeline: Callable[..., Path]) -> None:
    found = load_file(pipeline())
    assert found.where == "total > 0"
    assert found.columns[2:] == (
        Column(name="raw", type="string", path="$.country", hidden=True),
        Column(name="country", type="string", path="", expr="upper(raw)"),
    )
    assert [c.name for c in found.decoded_columns] == ["shop", "total", "raw"]
    assert [c.name for c in found.data_columns] == ["shop", "total"]


WRONG = [
    (("expr: upper(raw)", "expr: upper(rae)"), 12, "columns[3].expr", "no column rae (did you mean raw?)"),
    (("where: total > 0", "where: totl > 0"), 16, "where", "no column totl (did you mean total?)"),
    (("where: total > 0", "where: total"), 16, "where", "must be true or false, this gives DECIMAL(10,2)"),
    (("expr: upper(raw)", "expr: len(raw)"), 12, "columns[3].expr", "gives BIGINT, the column is string"),
    (("expr: upper(raw)", "expr: uuid()"), 12, "columns[3].expr", "uuid() is not available"),
]


@pytest.mark.parametrize(("change", "line", "field", "said"), WRONG)
def test_a_wrong_expression_is_told_with_its_place(
    pipeline: Callable[..., Path], checker: ExpressionChecker, change: tuple[str, str], line: int, field: str, said: str
) -> None:
    path = pipeline(change)
    with pytest.raises(SpecError) as refused:
        load_file(path, judge=checker)
    assert (refused.value.where, refused.value.field) == (f"{path}:{line}", field)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        (("partition_by: [date, hour, country]", "partition_by: [date, hour, raw]"), "partition_by[2]", "is hidden"),
        (("from: $.placed_at", "from: $.country2"), None, ""),
        (("{from: $.placed_at}", "{from: $.country}"), None, ""),  # a field of the message, too
        (("name: raw, type: string, from: $.country", "name: raw, type: string, from: $.c"), None, ""),
    ],
)
def test_rules_about_several_keys(
    pipeline: Callable[..., Path], change: tuple[str, str], field: str | None, said: str
) -> None:
    if field is None:
        load_file(pipeline(change))
        return
    with pytest.raises(SpecError, match=said) as refused:
        load_file(pipeline(change))
    assert refused.value.field == field


def test_an_event_time_from_a_computed_column_is_refused(pipeline: Callable[..., Path]) -> None:
    path = pipeline(("from: $.country, hidden", "from: $.c, hidden"), ("{from: $.placed_at}", "{from: $.country}"))
    with pytest.raises(SpecError, match="is a computed column; the event time is read from the message") as refused:
        load_file(path)
    assert refused.value.field == "event_time.from"


def test_columns_that_know_nothing_of_the_message_are_refused(pipeline: Callable[..., Path]) -> None:
    start, end = YAML.index("  - name: shop"), YAML.index("event_time:")
    only = "  - {name: country, type: string, expr: \"'DE'\"}\n"
    with pytest.raises(SpecError, match="at least one must come from the message"):
        load_file(pipeline((YAML[start:end], only)))


def test_answers_are_kept_by_content(pipeline: Callable[..., Path], tmp_path: Path) -> None:
    for name in ("orders", "returns"):
        pipeline(name=name)
    pipeline(("where: total > 0", "where: totl > 0"), name="wrong")
    for asked in (2, 0):  # two pipelines share their expressions
        with ExpressionChecker(tmp_path / "cache") as checker:
            loaded = load_folder(tmp_path / "pipelines", judge=checker)
            assert [one.error is None for one in loaded] == [True, True, False]
            assert checker.asked == asked
    for kept in (tmp_path / "cache" / "expressions").iterdir():
        kept.write_text("[[")  # cut off by a power cut
    with ExpressionChecker(tmp_path / "cache") as checker:
        load_folder(tmp_path / "pipelines", judge=checker)
        assert checker.asked == 2


def test_no_process_is_started_for_a_pipeline_without_expressions(pipeline: Callable[..., Path]) -> None:
    plain = pipeline(("where: total > 0\n", ""), ("    expr: upper(raw)\n", ""))

    def judge(_: Pipeline) -> list[tuple[str, str]]:
        raise AssertionError("asked")

    load_file(plain, judge=judge)


def test_without_an_answer_validation_fails_and_the_dag_file_does_not(
    pipeline: Callable[..., Path], tmp_path: Path
) -> None:
    dead = ExpressionChecker(tmp_path / "cache", python="/bin/false")
    path = pipeline()
    with pytest.raises(StorageError, match="checking expressions ended with exit code 1(.|\n)*install tidegate"):
        load_file(path, judge=dead)
    assert load_file(path, judge=Lenient(dead)).where == "total > 0"


def test_keys_that_are_not_used_make_no_new_version(pipeline: Callable[..., Path]) -> None:
    """The fingerprint of a spec that an earlier release registered stays what it was."""
    plain = pipeline(("where: total > 0\n", ""), ("    expr: upper(raw)\n", ""), (", hidden: true", ""))
    assert fingerprint(load_file(plain)) == KNOWN


KNOWN = "b50f12decc06dd0ad93e65613852f35f17147887d3c4d1674bf2658ed6b87535"


def test_validate_tells_all_and_the_command_line_imports_no_duckdb(
    pipeline: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    wrong = pipeline(("where: total > 0", "where: totl > 0"), ("upper(raw)", "lower(rae)"))
    result = CliRunner().invoke(main, ["spec", "validate", str(wrong)])
    assert result.exit_code == 2
    assert f"{wrong}:12: columns[3].expr: there is no column rae" in result.stderr
    assert f"{wrong}:16: where: there is no column totl" in result.stderr
    assert CliRunner().invoke(main, ["spec", "validate", str(pipeline())]).exit_code == 0
    code = (
        "import sys; from tidegate.spec import load_file; from tidegate.adapters.expressions import ExpressionChecker\n"
        f"with ExpressionChecker() as c: load_file({str(pipeline())!r}, judge=c)\n"
        "assert not {'duckdb', 'pyarrow'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
