"""Commands of a trial's stack that need its addresses: Airflow's own commands, messages from a file, queries."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dev.stack import produce, query
from dev.stack.errors import StackError
from dev.stack.info import StackInfo
from dev.stack.produce import Sent
from dev.stack.stack import Stack
from tidegate.cli.main import main


@pytest.fixture
def up(monkeypatch: pytest.MonkeyPatch) -> None:
    info = SimpleNamespace(
        env={"AIRFLOW_HOME": "/stack/airflow"}, kafka_bootstrap="127.0.0.1:9", hive_host="127.0.0.1", hive_port=10
    )
    monkeypatch.setattr(Stack, "status", lambda self: SimpleNamespace(info=info))


def run(*words: str, **options: Any) -> Result:
    return CliRunner().invoke(main, ["stack", *words], **options)


def test_airflow_gets_its_own_words_and_the_stacks_environment(up: None, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *call: told.append(call))
    assert run("airflow", "dags", "list", "-o", "json", "--help").exit_code == 0
    ((binary, words, env),) = told
    assert Path(binary).name == "airflow"
    assert words[1:] == ["dags", "list", "-o", "json", "--help"]
    assert env["AIRFLOW_HOME"] == "/stack/airflow"
    assert "PATH" in env, "the caller's own environment lies below"


@pytest.mark.parametrize("words", [("airflow", "dags", "list"), ("sql", "SELECT 1"), ("produce", "t", "-")])
def test_without_a_stack_all_say_how_to_start_one(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stack, "status", lambda self: SimpleNamespace(info=None))
    result = run(*words)
    assert result.exit_code == 1
    assert "start it: tidegate stack up" in result.stderr


def test_lines_of_a_file_or_of_standard_input(up: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told: list[Any] = []

    def fake(bootstrap: str, topic: str, lines: Iterable[bytes], key: str | None, partitions: int) -> Sent:
        told.append((bootstrap, topic, list(lines), key, partitions))
        return Sent(2, partitions)

    monkeypatch.setattr(produce, "produce_lines", fake)
    (tmp_path / "x").write_bytes(b"a\nb\n")
    result = run("produce", "t", str(tmp_path / "x"), "--key", "site")
    assert "2 messages in topic t, 4 partitions; next: tidegate init t" in result.stdout
    run("produce", "t", "-", input=b"c\n")
    assert told == [("127.0.0.1:9", "t", [b"a\n", b"b\n"], "site", 4), ("127.0.0.1:9", "t", [b"c\n"], None, 4)]
    missing = run("produce", "t", str(tmp_path / "y"))
    assert missing.exit_code == 1
    assert "No such file" in missing.stderr


def test_keys() -> None:
    assert produce._key(b'{"site": "a", "n": 5}', "site") == b"a"
    assert produce._key(b'{"site": "a", "n": 5}', "n") == b"5"
    assert produce._key(b'{"site": null}', "site") is None
    assert produce._key(b"[1]", "site") is produce._key(b"rubbish", "site") is produce._key(b"{}", None) is None


def test_rows_are_printed_with_their_columns(up: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "ask", lambda host, port, text: [("n", "x"), (1, None)])
    assert run("sql", "SELECT 1").stdout == "n\tx\n1\t\\N\n"


def test_a_row_is_one_line_whatever_its_values_hold() -> None:
    def cell(value: Any) -> str:
        return query.tsv((value,))

    assert query.tsv(("a", None, "", "NULL")) == "a\t\\N\t\tNULL"
    assert cell("a\tb\nc\rd\\N") == r"a\tb\nc\rd\\N"
    assert (cell(True), cell(False), cell(1)) == ("true", "false", "1")
    assert cell(b"\x00\xff\n") == cell(bytearray(b"\x00\xff\n")) == "AP8K", "base64"
    assert (cell(0.1), cell(math.nan), cell(-math.inf)) == ("0.1", "NaN", "-Infinity")
    assert cell(Decimal("0E-18")) == "0.000000000000000000"
    assert cell(datetime(2026, 11, 20, 1, 2, 3, tzinfo=None)) == "2026-11-20 01:02:03"


def test_hives_own_words_are_told(up: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise StackError("Hive at 127.0.0.1:10: TABLE_OR_VIEW_NOT_FOUND")

    monkeypatch.setattr(query, "ask", refuse)
    result = run("sql", "SELECT 1")
    assert (result.exit_code, "TABLE_OR_VIEW_NOT_FOUND" in result.stderr) == (1, True)


def test_another_folder_of_pipelines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told: list[dict[str, str]] = []
    monkeypatch.setattr(Stack, "up", lambda self: told.append(self._env) or StackInfo(root=str(self.root)))
    assert run("up", "--root", str(tmp_path), "--pipelines", str(tmp_path)).exit_code == 0
    assert run("up", "--root", str(tmp_path)).exit_code == 0
    assert told == [{"AIRFLOW__TIDEGATE__PIPELINES_FOLDER": str(tmp_path)}, {}]
