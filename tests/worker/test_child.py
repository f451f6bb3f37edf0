"""The one child process that answers the control plane: its protocol, its errors, its time limit, its secrets."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from spark_jobs import child, handlers
from spark_jobs.engine import secrets
from tidegate.adapters.child import Child
from tidegate.core.base.errors import SourceError, StorageError

ADVICE = "install it"


@pytest.mark.parametrize("name", child.HANDLERS)
def test_each_handler_starts_and_ends_with_its_input(name: str) -> None:
    assert child.main([name], io.StringIO(""), io.StringIO()) == 0


def test_every_handler_is_on_the_list() -> None:
    folder = Path(handlers.__file__).parent
    with_one = {path.stem for path in folder.glob("*.py") if "\ndef handler(" in path.read_text()}
    assert with_one == set(child.HANDLERS)


@pytest.mark.parametrize("arguments", [[], ["nosuch"], ["rows", "dirty"]])
def test_a_handler_that_does_not_exist(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert child.main(arguments, io.StringIO(""), io.StringIO()) == 2
    assert "child.py deliver|dirty|draft" in capsys.readouterr().err


def test_secrets_are_those_of_a_job_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from spark_jobs.handlers import rows

    def handler() -> Any:
        return lambda request: secrets.client_secrets()

    monkeypatch.setattr(rows, "handler", handler)
    asked = [{"ask": 1, "secrets": {"sasl.password": "p", "tidegate.registry.url": "u"}}, {"ask": 2}]
    sink = io.StringIO()
    try:
        assert child.main(["rows"], io.StringIO("".join(json.dumps(a) + "\n" for a in asked)), sink) == 0
        assert secrets.registry_settings() == {"url": "u"}
    finally:
        secrets.use(None)
    assert [json.loads(line) for line in sink.getvalue().splitlines()] == [{"answer": {"sasl.password": "p"}}] * 2


# ---------------------------------------------------------------- the asking side

SCRIPT = """
import json, sys, time
for line in sys.stdin:
    asked = json.loads(line)["ask"]
    if asked == "count":
        for n in range(3):
            print(json.dumps({"answer": n}), flush=True)
    elif asked == "nothing":
        pass
    elif asked == "secrets":
        print(json.dumps({"answer": json.loads(line)["secrets"]}), flush=True)
    elif asked == "wait":
        time.sleep(3600)
    elif asked == "die":
        sys.exit("no memory left")
    else:
        print(json.dumps({"error": "what was asked: " + asked}), flush=True)
        sys.exit(1)
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "child.py").write_text(SCRIPT)
    monkeypatch.setattr("tidegate.adapters.child.land_application", lambda: tmp_path / "land.py")


def test_answers_come_one_by_one_and_a_request_may_have_none(script: None) -> None:
    with Child("x", ADVICE) as asked:
        assert list(asked.ask("nothing", 0)) == []
        assert list(asked.ask("count", 3)) == [0, 1, 2]
    with Child("x", ADVICE, secrets={"password": "p"}) as asked:
        assert asked.one("secrets") == {"password": "p"}


def test_an_error_is_said_in_its_words_and_the_next_request_begins_again(script: None) -> None:
    with Child("x", ADVICE, failed=lambda words: SourceError(f"sampling t: {words}")) as asked:
        with pytest.raises(SourceError, match="^sampling t: what was asked: one"):
            asked.one("one")
        assert list(asked.ask("count", 3)) == [0, 1, 2]
    with (
        Child("x", ADVICE, work="reading rows") as asked,
        pytest.raises(StorageError, match="reading rows failed: what"),
    ):
        asked.one("two")


def test_an_error_to_a_request_without_answers_is_said_at_the_next_one(script: None) -> None:
    with Child("x", ADVICE) as asked:
        list(asked.ask("three", 0))
        with pytest.raises(StorageError, match="reading files failed: what was asked: three"):
            asked.one("count")  # the write may see the end, or the read


def test_one_that_dies_leaves_its_last_words(script: None) -> None:
    words = "reading files ended with exit code 1: no memory left"
    with Child("x", ADVICE) as asked, pytest.raises(StorageError, match=words) as died:
        asked.one("die")
    assert (died.value.retry, died.value.advice) == (False, ADVICE)


def test_one_that_takes_too_long_is_ended(script: None) -> None:
    with Child("x", ADVICE, limit_s=0.2) as asked, pytest.raises(StorageError, match="ended with exit code -9"):
        asked.one("wait")
