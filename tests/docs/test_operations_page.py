"""docs/operations.md: every command of every section is run where the section begins, and prints what the page says.

TIDEGATE_WRITE_DOCS=1 writes what they print into the page instead.
"""

from __future__ import annotations

import getpass
import os
import re
import shlex
import socket
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import BigInteger, literal

from tests.cli.test_cli_commands import add_yaml, write_env
from tests.docs.operations_scenes import BEGINS_MS, RUN, SCENES
from tests.world import World, window
from tidegate import inspection
from tidegate.cli import surroundings
from tidegate.cli.main import main
from tidegate.ledger.store import Store
from tidegate.spec import load_file
from tidegate.targets.hive.kind import Hive
from tidegate.workflow.batch import ingest
from tidegate.workflow.publish import archive

PAGE = Path(__file__).parents[2] / "docs/operations.md"
WRITE = "TIDEGATE_WRITE_DOCS" in os.environ
_SECTION = re.compile(r"^## (?P<title>.+?)\n(?P<body>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```(?P<kind>console|log)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_RUN_AGAIN = re.compile(r"airflow (tasks clear|dags backfill) readings\.(?P<kind>\w+)(?P<rest>.*)")
VARYING = {
    r"\b(?=[0-9]*[a-f])[0-9a-f]{12,64}\b": "5c0de5c0de5c",
    r"-[0-9a-f]{8}\b": "-1a2b3c4d",
    r"\(\d+\.\d s\)": "(0.4 s)",
    r"[\d,]+ bytes": "8,002 bytes",
    r"\d\.\d kB": "8.0 kB",
}
"""Digests, nonces, durations, sizes of compressed files."""
WRAP: dict[str, Any] = {"replace_whitespace": False, "drop_whitespace": True, "break_on_hyphens": False}


def sections() -> dict[str, str]:
    found = {m["title"]: m["body"] for m in _SECTION.finditer(PAGE.read_text())}
    return {title: body for title, body in found.items() if "```console" in body}


def key(title: str) -> str:
    return re.sub(r"[^\w ]", "", title.lower())


class Night:
    """A world whose clock commands see, and what an operator types in it."""

    def __init__(self, world: World) -> None:
        self.world, self.last_words = world, ""

    def type(self, command: str) -> str:
        """What the terminal shows. `airflow` does what the scheduler would."""
        if command.startswith("tidegate "):
            return self._tidegate(shlex.split(command)[1:])
        again = _RUN_AGAIN.match(command)
        assert again, f"nobody knows what {command!r} does"
        _airflow_understands(command)
        if again["kind"] == "ingest":
            for step in (ingest.plan, ingest.write, ingest.land):
                step(self.world.context(), RUN)
        else:
            for start in re.findall(r"-[se] (\S+)", again["rest"]):
                hour = round((datetime.fromisoformat(start).timestamp() * 1000 - window(0).start_ms) / 3_600_000)
                ctx = self.world.context()
                archive.announced(ctx, archive.publish(ctx, window(hour)))
        self.world.close()
        return ""

    def _tidegate(self, words: list[str]) -> str:
        self.world.close()
        result = CliRunner().invoke(main, words, input="y\n")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        shown = result.output.rstrip("\n")
        return shown if result.exit_code == 0 else f"{shown}\n[exit code {result.exit_code}]".lstrip("\n")

    def told(self, text: str) -> str:
        """Without what differs from machine to machine."""
        text = text.replace(str(self.world.folder), "/mnt").replace(socket.gethostname(), "worker-1")
        text = text.replace(f"{getpass.getuser()}@", "ada@").replace("(test)", "(airflow)")
        text = re.sub(r"(?m)^read [\d,]+ files?, .*\n", "", text)  # progress, where the machine is busy
        text = re.sub(r"(?m)^tidegate: messages were decoded by .*\n", "", text)  # stands in the Spark job's own log
        for varying, shown in VARYING.items():
            text = re.sub(varying, shown, text)
        lines = (line.rstrip() for line in text.splitlines())
        return "\n".join(textwrap.fill(line, 118, subsequent_indent=" " * 13, **WRAP) for line in lines)


def _airflow_understands(command: str) -> None:
    from airflow.cli.cli_parser import get_parser

    get_parser().parse_args(shlex.split(command)[1:])


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Night]:
    add_yaml(tmp_path, "readings")
    world = World(tmp_path, load_file(tmp_path / "pipelines/readings.yaml"))
    world.clock.advance(BEGINS_MS - world.clock.now_ms())
    write_env(tmp_path, world.database)
    for name in [n for n in os.environ if n.startswith(("AIRFLOW", "TIDEGATE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "1000")  # lines are wrapped once the folder's name, whose length varies, is out
    monkeypatch.chdir(tmp_path)

    @contextmanager
    def in_the_world(_pipeline: object, say: Callable[[str], None]) -> Iterator[Any]:
        world.pipeline = load_file(tmp_path / "pipelines/readings.yaml")
        ctx = world.context()
        ctx.say = say
        yield ctx
        world.close()

    monkeypatch.setattr(surroundings, "working", in_the_world)
    monkeypatch.setattr(surroundings, "source", lambda pipeline, timeout_s=1.0: world.kafka)
    monkeypatch.setattr(inspection, "tables", lambda pipeline, lookup: Hive(world.catalogue))
    monkeypatch.setattr("time.time_ns", lambda: world.clock.now_ms() * 1_000_000)
    monkeypatch.setattr(Store, "instant", property(lambda _: literal(world.clock.now_ms(), BigInteger)))
    yield Night(world)
    world.close()


def test_every_scene_has_its_section() -> None:
    assert {key(title) for title in sections()} == set(SCENES)


@pytest.mark.parametrize("title", sections())
def test_the_commands_print_what_the_page_says(title: str, night: Night) -> None:
    night.last_words = SCENES[key(title)](night.world) or ""
    night.world.close()
    night.world.clock.advance(4 * 60_000)
    body = sections()[title]

    def block(found: re.Match[str]) -> str:
        if found["kind"] == "log":
            return f"```log\n{night.told(night.last_words)}\n```"
        lines = []
        for command in (line for line in found["text"].splitlines() if line.startswith("$ ")):
            shown = night.told(night.type(command[2:]))
            lines += [command, *([shown] if shown else [])]
        return "```console\n" + "\n".join(lines) + "\n```"

    printed = _BLOCK.sub(block, body)
    if WRITE:
        PAGE.write_text(PAGE.read_text().replace(body, printed))
    else:
        assert printed == body
