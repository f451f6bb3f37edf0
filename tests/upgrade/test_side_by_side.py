"""Two releases at once, as in a deploy: 0.1.0, from the repository's history, and this one, on the same ledger and the
same files. One of them refuses in a line, or both do no harm."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.audit.audits import balanced
from tests.cli.test_cli_commands import add_yaml, write_env
from tests.full_sums import full_sums
from tests.upgrade.release import REVISION, environment
from tests.upgrade.test_ledger_upgrade import MADE_BY_OLD_CODE, restored
from tests.world import World, record
from tidegate.core.base.errors import JobFailed
from tidegate.core.batch.jobs import loads_plan
from tidegate.core.batch.rules_version import KNOWN_RULES
from tidegate.ledger import schema
from tidegate.ledger.migrate import migrate
from tidegate.ledger.store import HEAD
from tidegate.workflow.batch import ingest
from tidegate.workflow.restore import adoption

SUMMED = ("ingested", "redriven", "taken")


class Old:
    """A process of the old release that has opened its ledger, and waits."""

    def __init__(self, process: subprocess.Popen[str], world: World, shown: dict[str, Any]) -> None:
        self._process, self._world, self._shown = process, world, shown
        self.first = process.stdout.readline().strip()  # type: ignore[union-attr]

    def ends(self) -> dict[str, Any]:
        """How it ended, from where it waits; the world's catalogue has its changes."""
        if self.first != "ready":
            return json.loads(self.first)
        out, err = self._process.communicate("go on\n", timeout=600)
        assert out, err
        told = json.loads(out.splitlines()[-1])
        for name, partitions in told.pop("catalogue", {}).items():
            before, after = _placed(self._shown[name]), _placed(partitions)
            now = self._world.catalogue._tables[name].partitions
            for values in before.keys() - after.keys():
                now.pop(values, None)
            now.update({v: where for v, where in after.items() if before.get(v) != where})
        return told


def _placed(partitions: list[Any]) -> dict[Any, str]:
    return {tuple(tuple(pair) for pair in values): where for values, where in partitions}


@contextmanager
def old_code(
    checkout: Path, world: World, step: str, argument: str, produced: tuple[int, ...] = (1, 2, 3)
) -> Iterator[Old]:
    world.close()
    tables = {name: t.partitions for name, t in world.catalogue._tables.items()}
    shown = {name: [[list(v), where] for v, where in found.items()] for name, found in tables.items()}
    (world.folder / "old.json").write_text(json.dumps({"produced": produced, "catalogue": shown}))
    command = [sys.executable, str(Path(__file__).with_name("old_process.py")), str(world.folder), step, argument]
    with subprocess.Popen(
        command, env=environment(checkout), cwd=world.folder, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            yield Old(process, world, shown)
        finally:
            process.kill()


@pytest.fixture
def world(left_behind: Path, tmp_path: Path) -> Iterator[World]:
    """As 0.1.0 left it; batch 3 is planned."""
    made = restored(tmp_path, left_behind)
    yield made
    made.close()


def upgraded(world: World) -> None:
    assert migrate(f"sqlite:///{world.database}") == HEAD


@contextmanager
def later_schema(world: World) -> Iterator[str]:
    """The revision of a ledger that 0.1.0 does not know; one of this code's, as soon as it has another."""
    upgraded(world)
    later = HEAD if HEAD != REVISION else "0007"
    _stamp(world, later)
    yield later
    _stamp(world, HEAD)


def _stamp(world: World, revision: str) -> None:
    world.close()
    with sqlite3.connect(world.database) as c:
        c.execute("UPDATE alembic_version SET version_num = ?", (revision,))


def push_on(world: World) -> None:
    """A batch that brings the watermark past hour 5."""
    world.produce(record("e0", 8.2))
    world.produce(record("e1", 8.5), partition=1)
    world.ingest("r4")


@pytest.mark.parametrize("step", ["plan", "write", "publish"])
def test_an_old_task_on_a_new_ledger_refuses_in_one_line(old_checkout: Path, world: World, step: str) -> None:
    before = world.files()
    with later_schema(world) as later, old_code(old_checkout, world, step, "r3" if step != "publish" else "0") as old:
        told = old.ends()
    assert told["error"] == "WrongRevision"
    assert told["said"].splitlines()[0] == f"the ledger's schema is at revision {later}, this version needs {REVISION}"
    assert world.files() == before
    push_on_after(world)


def test_an_old_command_on_a_new_ledger_refuses_in_one_line(old_checkout: Path, world: World) -> None:
    """Those that only look, one that asks for nothing but a yes, and the migration itself: no row changes."""
    add_yaml(world.folder, "readings")
    write_env(world.folder, world.database)
    words = [
        ["status", "readings"],
        ["explain", "readings", "2013-01-05T00"],
        ["db", "revision"],
        ["clean", "readings"],
        ["repair", "readings", "--abandon", "3", "--why", "x", "--yes"],
        ["db", "migrate"],
    ]
    code = (
        "import json, sys; from click.testing import CliRunner; from tidegate.cli import main\n"
        "ran = [CliRunner().invoke(main, words) for words in json.loads(sys.argv[1])]\n"
        "print(json.dumps([[r.exit_code, r.output] for r in ran]))\n"
    )
    env = environment(old_checkout)
    with later_schema(world) as later:
        before, ledger = world.files(), world.database.read_bytes()
        done = subprocess.run(
            [sys.executable, "-c", code, json.dumps(words)], env=env, cwd=world.folder, capture_output=True, text=True
        )
        *refused, migrated = json.loads(done.stdout.splitlines()[-1])
        for exit_code, output in refused:
            assert exit_code == 3
            assert f"Error: the ledger's schema is at revision {later}, this version needs {REVISION}" in output
        assert migrated[0] != 0
        assert (world.files(), world.database.read_bytes()) == (before, ledger)
    push_on_after(world)


def test_whoever_goes_back_takes_up_what_the_new_release_landed(old_checkout: Path, world: World) -> None:
    """The ledger's backup of before the migration, the old release, `repair --adopt`; and the new one once more."""
    backup = world.database.read_bytes()
    upgraded(world)
    push_on_after(world)
    world.close()
    files = world.files()
    world.database.write_bytes(backup)
    with old_code(old_checkout, world, "adopt", "back") as old:
        assert old.ends() == {"error": None, "said": "adopted"}
    assert world.files() == files
    upgraded(world)
    ctx = world.context()
    assert adoption.survey(ctx).nothing
    goes_on_from_landed(world)


def push_on_after(world: World) -> None:
    world.ingest("r3")
    push_on(world)
    goes_on_from_landed(world)


def goes_on_from_landed(world: World) -> None:
    for hour in range(6):
        world.archive(hour)
    assert world.by_window() == MADE_BY_OLD_CODE | {
        "02": [(0, 6)], "03": [(1, 0)], "04": [(0, 7), (0, 8)], "05": [(1, 1)],
    }  # fmt: skip
    assert (world.table("__late"), world.table("__dirty")) == ([(0, 5)], [(0, 4)])
    balanced(world)


@pytest.mark.parametrize(
    ("step", "argument", "error", "said"),
    [
        ("write", "r3", None, "None"),
        ("publish", "0", None, "generation 2"),
        ("publish", "2", "NotReady", "readings 2013-01-05T02:00Z: blocked: par"),
        ("replay", "0", None, "generation 3"),
    ],
)
def test_a_task_that_began_before_the_migration_ends_after_it(
    old_checkout: Path, world: World, step: str, argument: str, error: str | None, said: str
) -> None:
    """Its process has looked at the revision; what it writes now, the new release reads."""
    with old_code(old_checkout, world, step, argument) as old:
        assert old.first == "ready"
        upgraded(world)
        told = old.ends()
    world.close()
    assert (told["error"], told["said"].splitlines()[0][:40]) == (error, said), told
    push_on_after(world)


def test_a_batch_that_old_code_landed_after_the_migration_is_counted(old_checkout: Path, world: World) -> None:
    """Running sums that the old release does not know of are made up for."""
    with old_code(old_checkout, world, "write", "r3") as old:
        assert old.ends()["error"] is None
    with old_code(old_checkout, world, "land", "r3") as old:
        assert old.first == "ready"
        upgraded(world)
        assert old.ends()["error"] is None
    push_on(world)
    goes_on_from_landed(world)
    ledger = world.context().ledger
    while ledger.totals.advance("readings"):
        pass
    engine = sa.create_engine(f"sqlite:///{world.database}")
    with engine.connect() as c:
        content = json.loads(c.execute(sa.select(schema.totals.c.content)).scalar_one())
    full = full_sums(engine, "readings")
    assert {key: content[key] for key in SUMMED} == {key: full[key] for key in SUMMED}


def test_plans_that_0_1_0_wrote_can_be_read(world: World) -> None:
    """A worker may be newer than the task that wrote its plan."""
    plans = [p.read_text() for p in world.folder.rglob("_tidegate/plans/*.json")]
    assert {loads_plan(text).mode for text in plans} == {"ingest", "replay"}
    assert {part.rules_version for text in plans for part in loads_plan(text).parts} <= KNOWN_RULES


def test_an_old_zombie_goes_on_while_the_new_release_works(old_checkout: Path, world: World) -> None:
    """A frozen task of the old release wakes up when the new one has written, landed and published everything."""
    with old_code(old_checkout, world, "write", "r3") as writer, old_code(old_checkout, world, "replay", "0") as other:
        assert (writer.first, other.first) == ("ready", "ready")
        upgraded(world)
        push_on_after(world)
        rows = world.by_window()
        writer.ends()
        assert world.by_window() == rows
        assert other.ends()["error"] in (None, "LostComparison")
    world.close()
    assert world.by_window() == rows
    balanced(world)


@pytest.mark.parametrize("new", [False, True])
def test_an_old_worker_takes_a_plan_that_says_nothing_new_and_refuses_any_other(
    old_checkout: Path, world: World, new: bool
) -> None:
    """The executors' archive may lag behind: an old job gets a plan that the new release wrote."""
    upgraded(world)

    class OldWorker:
        def run(self, plan_path: str) -> None:
            if new:
                path = Path(plan_path.removeprefix("file://"))
                path.write_text(json.dumps(json.loads(path.read_bytes()) | {"of_the_future": 1}))
            code = (
                "import sys, json; from pathlib import Path\n"
                "from tests.world import World, record; from tidegate.core.batch import JobPlan\n"
                "from tidegate.core.plain import loads; from tidegate.adapters.storage.local import LocalStorage\n"
                "from spark_jobs.engine.job import run_plan\n"
                f"sys.path.insert(0, {str(Path(__file__).parent)!r}); import scene\n"
                "import tempfile; world = World(Path(tempfile.mkdtemp()))\n"
                "[scene.produce(world, record, part) for part in (1, 2, 3)]\n"
                f"storage = LocalStorage(); plan = loads(JobPlan, storage.read({plan_path!r}))\n"
                "run_plan(plan, storage, open_reader=world.kafka.reader)\n"
            )
            done = subprocess.run(
                [sys.executable, "-c", code],
                env=environment(old_checkout),
                cwd=world.folder,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                raise JobFailed(done.stderr.splitlines()[-1])

    ctx = world.context()
    ctx.launcher = OldWorker()
    if new:
        with pytest.raises(JobFailed, match=r"JobPlan: unknown \['of_the_future'\]: a newer release wrote it"):
            ingest.write(ctx, "r3")
    else:
        ingest.write(ctx, "r3")
    world.close()
    push_on_after(world)
