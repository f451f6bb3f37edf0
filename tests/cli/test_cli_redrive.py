"""`tidegate dirty` and `tidegate redrive` as an operator types them: words, JSON and exit codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cli.test_cli_commands import Tide, add_yaml, the_json, tide, world
from tests.dirty.redrives import odd, once
from tests.world import World, record
from tidegate.cli import redrive as command
from tidegate.cli import surroundings
from tidegate.core.base.errors import LostComparison, NotReady
from tidegate.core.dirty.redrive import Cause
from tidegate.core.source import behind
from tidegate.spec import load_file
from tidegate.workflow.batch import ingest
from tidegate.workflow.dirty import redrive

__all__ = ["tide", "world"]


@pytest.fixture
def working(tide: Tide, world: World, monkeypatch: pytest.MonkeyPatch) -> Tide:
    """`redrive` lands batches: its context is the world's. Two more dirty rows are there, mended by `mend`."""

    @contextmanager
    def in_the_world(_pipeline: object, say: Callable[[str], None]) -> Iterator[Any]:
        world.pipeline = load_file(world.folder / "pipelines/readings.yaml")
        ctx = world.context()
        ctx.say = say
        yield ctx
        world.close()

    monkeypatch.setattr(surroundings, "working", in_the_world)
    monkeypatch.setattr(command, "_LOOK_S", 0.0)
    world.produce(odd("e0", 2.1), odd("e1", 2.2))
    world.ingest("readings.ingest/r2")
    return tide


def mend(world: World) -> None:
    add_yaml(world.folder, "readings", **{"value, type: int": "value, type: int, from: $.other"})


def words(text: str) -> str:
    return " ".join(text.split())


def test_dirty_says_what_to_mend(working: Tide) -> None:
    result = working("dirty", "readings")
    assert result.exit_code == 1, result.output
    told = words(result.stdout)
    assert "readings: 3 dirty rows in 2 batches (1 to 2)" in told
    assert "2 rows value: expected an integer, got a string" in told
    assert 'batch 2, partition 0 offset 4: {"id": "e0"' in told
    assert "batch 1, partition 0 offset 3: not json" in told
    assert "tidegate redrive readings" in told
    found = the_json(working("dirty", "readings", "--batch", "2", "--json"))
    assert found["batches"] == [{"batch_id": 2, "rows": 2, "topic_id": found["batches"][0]["topic_id"]}]
    assert [(c["field"], c["rows"], c["batches"]) for c in found["causes"]] == [("value", 2, [2])]


@pytest.mark.parametrize(("batch", "fix"), [("1", True), ("2", False)])
def test_dirty_says_that_a_redrive_leaves_copies_alone(
    working: Tide, monkeypatch: pytest.MonkeyPatch, batch: str, fix: bool
) -> None:
    def causes(ctx: Any, reader: Any, batches: Any) -> Any:
        others = [Cause(field="", reason="not json", rows=1, batches=(1,))] if fix else []
        return [Cause(field=behind.FIELD, reason=behind.REASON, rows=2, batches=(1, 2)), *others], []

    monkeypatch.setattr(redrive, "causes", causes)
    told = words(working("dirty", "readings", "--batch", batch).stdout)
    assert "nothing for 2 rows from another site: they are read there when it is active again" in told
    assert "tidegate redrive readings --copies" in told
    assert ("fix the spec, then: tidegate redrive readings;" in told) == fix


def test_nothing_dirty(working: Tide, world: World) -> None:
    mend(world)
    working("redrive", "readings", "--batch", "2")
    result = working("dirty", "readings", "--batch", "2")
    assert (result.exit_code, result.stdout) == (0, "readings: no row is dirty\n")


def test_redrive_says_what_became_of_the_rows(working: Tide, world: World) -> None:
    mend(world)
    dry = working("redrive", "readings", "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert "would take up 3 dirty rows of 2 batches" in dry.stdout
    told = words(dry.stdout)
    assert "gives 2 data, 0 late, 1 still dirty" in told
    assert "value expected an integer, got a string: 2 of 2 rows would be readable" in told
    assert 'readable, for example batch 2, partition 0 offset 4: {"id": "e0"' in told
    assert "record not JSON" in told
    assert "0 of 1 row would be readable" in told
    assert "1 row still dirty: for the same reason" in told
    assert dry.stdout.splitlines()[-1].split() == [
        "next",
        "tidegate",
        "redrive",
        "readings;",
        "nothing",
        "was",
        "changed",
    ]
    assert world.table("__dirty") == [(0, 3), (0, 4), (0, 5)]
    result = working("redrive", "readings")
    assert result.exit_code == 0, result.output
    assert result.stdout == "batch 3 (redrive of 3 dirty rows of 2 batches): 2 data, 0 late, 1 still dirty\n"
    assert world.table("__dirty") == [(0, 3)]
    once(world)
    audited = the_json(working("audit", "readings", "--json", "-q"))
    assert (audited["problems"], audited["balanced"], audited["read"]) == ([], True, 8)
    again = working("redrive", "readings")
    assert again.exit_code == 1
    assert "given up, every row stays where it is: redrive 4: none of the 1 dirty row became readable" in again.stdout
    assert world.table("__dirty") == [(0, 3)]


def test_where_tells_the_whole_story(working: Tide, world: World) -> None:
    mend(world)
    working("redrive", "readings")
    result = working("where", "readings", "0", "4")
    assert (
        "dirty in batch 2 (value: expected an integer, got a string), redriven by batch 3: batch 3, attempt 1"
        in words(result.stdout)
    )
    (found,) = the_json(working("where", "readings", "0", "4", "--json"))["fates"]
    assert (found["kind"], found["batch_id"], found["dirty_in"]) == ("waiting", 3, [2])
    (still,) = the_json(working("where", "readings", "0", "3", "--json"))["fates"]
    assert (still["kind"], still["batch_id"], still["dirty_in"]) == ("dirty", 3, [1])
    (other,) = the_json(working("where", "readings", "0", "1", "--json"))["fates"]
    assert (other["kind"], other["batch_id"], other["dirty_in"]) == ("published", 1, [])


def test_json_and_chosen_batches(working: Tide, world: World) -> None:
    mend(world)
    found = the_json(working("redrive", "readings", "--batch", "2", "--json"))
    (one,) = found["redriven"]
    assert (one["batch_id"], one["sources"], one["rows"], one["data"], one["refused"]) == (3, [2], 2, 2, "")
    assert working("redrive", "readings", "--batch", "2").exit_code == 1
    assert "has no dirty rows" in working("redrive", "readings", "--batch", "2").output


def test_plan_only_leaves_the_work_to_the_next_run(working: Tide, world: World) -> None:
    mend(world)
    result = working("redrive", "readings", "--plan-only")
    assert (result.exit_code, "batch 3 is planned" in result.stdout) == (0, True)
    assert world.ingest("readings.ingest/r3") == 3
    assert world.table("__dirty") == [(0, 3)]
    once(world)


def test_it_waits_for_an_open_batch_and_gives_up_in_time(working: Tide, world: World) -> None:
    mend(world)
    world.produce(record("f0", 4.0))
    ingest.plan(world.context(), "readings.ingest/r3")
    result = working("redrive", "readings", "--wait", "0")
    assert result.exit_code == 1
    assert "batch 3 is PLANNED since 2013-01-09T04:00Z, by run r3; only one batch is open at a time" in result.output

    waited: list[str] = []

    def wait(error: Exception) -> None:
        waited.append(str(error))
        world.ingest("readings.ingest/r3")

    world.pipeline = load_file(world.folder / "pipelines/readings.yaml")
    (found,) = redrive.all_of(world.context(), None, wait)
    assert (found.batch_id, found.data, len(waited)) == (4, 2, 1)
    once(world)


def test_who_loses_the_batch_waits_for_the_other(working: Tide, world: World) -> None:
    mend(world)
    world.pipeline = load_file(world.folder / "pipelines/readings.yaml")
    ctx = world.context()

    class Slow:
        """Somebody else writes and lands the batch while this job runs."""

        def run(self, plan_path: str) -> None:
            batch = world.context().ledger.batches.open("readings")
            assert batch is not None
            world.context().ledger.batches.take(batch, "other")
            raise LostComparison("the launcher's host was away")

    ctx.launcher = Slow()

    def wait(_: Exception) -> None:
        redrive.carry_out(world.context(), run_of(world))

    (found,) = redrive.all_of(ctx, None, wait)
    assert (found.batch_id, found.data) == (3, 2)
    once(world)


def run_of(world: World) -> str:
    redrive.plan(world.context(), "the other")
    return "the other"


def test_patience_ends() -> None:
    now = [0.0]
    wait = command.patience(7.0, lambda s: now.__setitem__(0, now[0] + max(s, 3.0)), lambda: now[0])
    for _ in range(3):
        wait(NotReady("busy"))
    with pytest.raises(NotReady, match="busy"):
        wait(NotReady("busy"))


@pytest.mark.parametrize("name", ["dirty", "redrive"])
def test_wrong_usage(working: Tide, world: World, name: str) -> None:
    assert working(name, "nobody").exit_code == 2
    assert working(name, "readings", "--batch", "x").exit_code == 2
    world.database.unlink()
    assert working(name, "readings", *(["--dry-run"] if name == "redrive" else [])).exit_code == 3


def test_an_open_redrive_can_be_given_up_by_hand(working: Tide, world: World) -> None:
    mend(world)
    working("redrive", "readings", "--plan-only")
    result = working("repair", "readings", "--abandon", "3", "--why", "not now", "--yes")
    assert result.exit_code == 0, result.output
    assert "redrive 3 (PLANNED) will be ABANDONED: its 3 rows stay dirty rows" in result.stdout
    assert "these rows can be redriven again" in result.stdout
    assert working("redrive", "readings").exit_code == 0
    once(world)


def test_a_recreated_topic_takes_no_redrive_with_it(working: Tide, world: World) -> None:
    mend(world)
    working("redrive", "readings", "--plan-only")
    world.kafka.create("readings", 2)
    result = working("source", "reset", "readings", "--why", "on purpose", "--yes")
    assert (result.exit_code, "ABANDONED" in result.output) == (0, False)
    result = working("redrive", "readings")
    assert "batch 3 (redrive of 3 dirty rows of 2 batches): 2 data" in result.stdout


def test_the_other_commands_know_what_a_redrive_is(working: Tide, world: World) -> None:
    mend(world)
    working("redrive", "readings", "--plan-only")
    assert "3 PLANNED, planned" in words(working("status", "readings").stdout)
    assert "redrive of 3 dirty rows" in words(working("status", "readings").stdout)
    assert "batch 3 is open (PLANNED)" in words(working("plan", "readings").stdout)
    assert "redrive of 3 dirty rows of batches 1, 2" in words(working("plan", "readings").stdout)
    working("redrive", "readings")
    assert "3 (redrive of 1, 2)" in words(working("explain", "readings", "2013-01-05T02:00Z").stdout)
    told = the_json(working("events", "readings", "-n", "20", "--json"))["events"]
    assert {e["subject"] for e in told if e["what"] == "redriven"} == {"batch 1", "batch 2"}
    (status,) = the_json(working("status", "readings", "--json"))["pipelines"]
    assert (status["totals"]["dirty"], status["totals"]["read"]) == (1, 8)
