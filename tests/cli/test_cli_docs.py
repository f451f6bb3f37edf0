"""docs/cli.md says what the commands are; commands keep what it promises, in any terminal."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

import click
import pytest

from tests.cli.test_cli_commands import Tide, the_json, tide, world
from tests.world import World, window
from tidegate.cli import reference, surroundings
from tidegate.cli.main import main

__all__ = ["tide", "world"]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/cli.md"
COMMANDS = {name: command for name, command, _ in reference.commands()}
TEXT_ONLY = {  # they print no facts that a program would ask for, or have a format of their own
    "tidegate init", "tidegate metrics", "tidegate source reset", "tidegate source rewind", "tidegate source skip",
    "tidegate spark prepare", "tidegate spark end", "tidegate spec schema", "tidegate spec docs", "tidegate db migrate",
    "tidegate db revision", "tidegate stack down", "tidegate stack wipe", "tidegate stack env",
    "tidegate stack airflow", "tidegate stack produce", "tidegate stack sql",
    "tidegate failover run", "tidegate failover back", "tidegate failover adopt",
}  # fmt: skip


def test_the_page_has_every_command_as_it_is() -> None:
    page = PAGE.read_text()
    assert page == reference.renewed(page), "run: python -m tidegate.cli.reference"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_that_runs_and_its_exit_codes(name: str) -> None:
    text = COMMANDS[name].help or ""
    assert "Exit code: 0" in text
    part = text.partition("Example")[2].partition("Exit code")[0]
    examples = [words for row in part.splitlines() if (words := command_of(row))]
    assert any(" ".join(words).startswith(name) for words in examples), "an example of itself"
    for words in examples:
        check(words)


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - TEXT_ONLY))
def test_facts_are_printed_as_json_when_asked_for(name: str) -> None:
    assert any("--json" in p.opts for p in COMMANDS[name].params)


def test_every_command_that_a_page_or_an_error_names_is_there() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    sources = [p for top in ("plugins", "spark_jobs", "dev") for p in (ROOT / top).rglob("*.py")]
    found = 0
    for file in [*pages, *sources]:
        for words in re.findall(r"`(tidegate(?: [a-z][a-z-]*)+)", file.read_text()):
            found += 1
            names = [n for n in (" ".join(words.split()[:k]) for k in (2, 3)) if n in COMMANDS or is_group(n)]
            assert names, f"{file.relative_to(ROOT)}: {words}"
    assert found > 80


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_the_first_pages_commands_are_right(page: str) -> None:
    rows = re.findall(r"^(?:    \.venv/bin/|\$ )(tidegate .*)$", (ROOT / page).read_text(), re.M)
    assert len(rows) > 4
    for row in rows:
        check(command_of(row))


def is_group(name: str) -> bool:
    return any(other.startswith(f"{name} ") for other in COMMANDS)


def command_of(row: str) -> list[str]:
    """The words of the first `tidegate` in a line for a shell."""
    lexer = shlex.shlex(row.replace('eval "$(', "").replace(')" &&', " &&"), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    tokens = list(lexer)
    if "tidegate" not in tokens:
        return []
    return list(takewhile(lambda token: not set(token) <= set("|&;<>()"), tokens[tokens.index("tidegate") :]))


def check(words: list[str]) -> None:
    """That click takes it; nothing is run."""
    name = next(n for n in (" ".join(words[:3]), " ".join(words[:2])) if n in COMMANDS)
    rest = words[len(name.split()) :]
    if COMMANDS[name].params and not any("$" in w for w in rest):
        with suppress(_OfAFile):
            _take(COMMANDS[name], name, rest)


class _OfAFile(Exception):
    """A file of the example's is not here."""


def _take(command: click.Command, name: str, words: list[str]) -> None:
    try:
        command.make_context(name, words)
    except click.BadParameter as e:
        if "does not exist" in e.message:
            raise _OfAFile from e
        raise


def test_fields_that_the_page_promises_are_there(tide: Tide, world: World) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.read_text().partition("## For programs")[2], re.MULTILINE)
    words = {
        "status": (), "explain": ("readings", "2013-01-05T00:00Z"), "where": ("readings", "0", "0"),
        "audit": ("readings", "--no-kafka"), "events": ("readings",), "plan": ("readings",), "doctor": (),
        "files": ("readings", "2013-01-05T00:00Z"),
    }  # fmt: skip
    assert {command for command, _ in rows} == set(words)
    for command, text in rows:
        if command == "doctor":
            continue  # tests/doctor/test_doctor.py reads them
        document = the_json(tide(command, *words[command], "--json"))
        keys = set(every_key(document))
        for field in re.findall(r"`(\w+)(?:\[\])?`", text):
            assert field in keys, f"{command}: {field}; there are {sorted(keys)}"


def every_key(value: object) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(k for v in value.values() for k in every_key(v))]
    return [k for v in value for k in every_key(v)] if isinstance(value, list) else []


# ---------------------------------------------------------------- in any terminal


def run(world: World, *words: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """As a process, in the world's folder."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "TIDEGATE", "LC_", "LANG", "PYTHON"))}
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])
    command = [sys.executable, "-m", "tidegate.cli", *words]
    world.close()
    return subprocess.run(
        command, cwd=world.folder, env=kept | {"PYTHONPATH": path} | env, capture_output=True, timeout=600
    )


def test_a_terminal_that_is_not_unicode(world: World) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    (world.folder / "pipelines/broken.yaml").write_text("nämlich: falsch\n")
    for more in ((), ("--json",)):
        done = run(world, "status", "--no-kafka", *more, **plain)
        assert done.returncode == 2, done.stderr
        assert done.stderr == b""
        done.stdout.decode("ascii")
        assert b"broken" in done.stdout


def test_a_reader_that_has_gone(world: World) -> None:
    world.close()
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])
    command = f"{shlex.quote(sys.executable)} -m tidegate.cli spec docs | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=world.folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert (done.stdout.strip(), done.stderr) in {("1", ""), ("0", "")}  # 0: all of it was in the pipe already


def test_narrow_terminals_and_no_colours(world: World) -> None:
    narrow = run(world, "status", "--no-kafka", COLUMNS="40", NO_COLOR="1", FORCE_COLOR="1").stdout.decode()
    assert not re.search(r"\x1b\[(?:\d+;)*3\d", narrow), "no colours"
    table = re.sub(r"\x1b\[[\d;]*m", "", narrow).split("\n\n")[0]
    assert max(map(len, table.splitlines())) <= 40
    assert re.search(r"^readings +NOT WELL +\? +\d+ *$", table, re.MULTILINE), table


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(world: World, shell: str) -> None:
    script = run(world, _TIDEGATE_COMPLETE=f"{shell}_source")
    assert script.returncode == 0
    assert b"_TIDEGATE_COMPLETE" in script.stdout
    asked = {"COMP_WORDS": "tidegate status rea", "COMP_CWORD": "rea" if shell == "fish" else "2"}
    done = run(world, _TIDEGATE_COMPLETE=f"{shell}_complete", **asked)
    assert b"readings" in done.stdout, done.stderr


def test_ctrl_c_is_130_and_one_word(tide: Tide, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "loaded_pipelines", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    result = tide("status")
    assert result.exit_code == 130
    assert result.output.strip() == "interrupted"


def test_a_defect_is_one_line(tide: Tide, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "loaded_pipelines", lambda *_: {}["colour"])
    result = tide("status")
    assert result.exit_code == 3
    assert result.output.startswith("Error: a defect of Tidegate: KeyError: 'colour'\n  what to do: run it again with")
    monkeypatch.setattr(surroundings, "loaded_pipelines", Path("/nowhere/at/all").read_text)
    result = tide("status")
    assert (result.exit_code, "No such file or directory: '/nowhere/at/all'" in result.output) == (3, True)
    monkeypatch.setenv("TIDEGATE_DEBUG", "1")
    with pytest.raises(FileNotFoundError):
        tide("status")


def test_help_fits_a_terminal() -> None:
    """Lines that click may not wrap (examples, exit codes) are no longer than 120 characters."""
    assert main.help
    for name, command in COMMANDS.items():
        for text in (command.help or "").splitlines():
            assert len(text) <= 120, (name, text)


def test_a_window_that_is_published_is_told_in_any_width(
    tide: Tide, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for width in ("20", "60", "200"):
        monkeypatch.setenv("COLUMNS", width)
        assert tide("explain", "readings", str(window(0).start_ms)).exit_code in (0, 2)
        assert tide("explain", "readings", "2013-01-05T00:00Z").exit_code == 0
