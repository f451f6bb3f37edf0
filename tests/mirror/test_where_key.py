"""`tidegate where --key`: all events of a key of a mirror, and which of them made the row."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Sequence
from functools import cmp_to_key
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.handlers.rows import handler
from tests.cli.test_cli_commands import Tide, add_yaml, the_json
from tests.mirror.test_commands import tide, world
from tests.mirror.worlds import YAML, MirrorWorld, event
from tidegate.adapters.rows import RowProcess
from tidegate.core.mirror.key_history import Event, EventState, history, newest
from tidegate.core.mirror.key_values import NoKey, key_values
from tidegate.core.mirror.order import newer
from tidegate.workflow.look import where_key as workflow
from tidegate.workflow.look.where_key import KeyAnswer, key_of, where_key

__all__ = ["tide", "world"]


class Here(RowProcess):
    """The child's answers without a child; `asked`: how many."""

    def __init__(self) -> None:
        super().__init__()
        self._answer, self.asked = handler(), 0

    def _ask(self, request: Any) -> dict[str, Any]:
        self.asked += 1
        found = self._answer(request)
        assert isinstance(found, dict)
        return found


def ask(world: MirrorWorld, *given: str, **options: int) -> KeyAnswer:
    ctx = world.context()
    return where_key(ctx, Here(), key_of(ctx, given), **options)


def states(found: KeyAnswer) -> list[tuple[str, int, int]]:
    return [(e.state, e.batch_id, e.commit) for e in found.events]


# ---------------------------------------------------------------- the command


def test_the_newest_event_waits(tide: Tide) -> None:
    found = tide("where", "readings", "--key", "id=1")
    print(found.output)
    assert found.exit_code == 1
    words = " ".join(found.stdout.split())
    assert "readings id=1: 2 events; batch 1 made the row that is seen" in words
    assert "lake.readings holds batches 1 to 1, as the ledger has it" in words
    assert "waits for its merge, which deletes the row" in words
    assert "tidegate apply readings" in words
    assert words.index("waiting d at") < words.index("row u at")


def test_it_is_merged_as_a_tombstone(tide: Tide) -> None:
    assert tide("apply", "readings").exit_code == 0
    result = tide("where", "readings", "--key", "id=1", "--json")
    assert result.exit_code == 0, result.output
    found = the_json(result)
    assert [(e["state"], e["operation"], e["offset"]) for e in found["events"]] == [
        ("tombstone", "d", 2),
        ("older", "u", 0),
    ]
    assert found["seen"] == found["events"][0]
    assert (found["key"], found["upto"], found["count"]) == ({"id": "1"}, 2, 2)
    (first, second) = found["events"]
    assert (first["batch_id"], first["partition"], first["commit"] > second["commit"]) == (2, 0, True)
    assert first["file"].startswith("file:///")
    assert Path(first["file"].removeprefix("file://")).exists()


def test_the_page_names_its_fields(tide: Tide) -> None:
    page = (Path(__file__).parents[2] / "docs/cli.md").read_text()
    promised, _, _ = page.partition("`where --key` has ")[2].partition("\n\n")
    found = the_json(tide("where", "readings", "--key", "id=3", "--json"))
    assert found["seen"] is None, "its only event waits"
    assert set(re.findall(r"`(\w+)(?:\[\])?`", promised)) <= {*found, *found["events"][0]}
    assert set(re.search(r"`state` \((.*?)\)", promised, re.DOTALL)[1].split(", ")) == set(EventState)  # type: ignore[index]


def test_a_key_without_events(tide: Tide) -> None:
    found = tide("where", "readings", "--key", "id=77")
    assert found.exit_code == 1
    assert "readings id=77: no event of this key has landed" in found.stdout


def test_the_ledger_gives_no_answer(tide: Tide, world: MirrorWorld) -> None:
    world.database.unlink()
    assert tide("where", "readings", "--key", "id=1").exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "say PARTITION and OFFSET"),
        (("0",), "say PARTITION and OFFSET"),
        (("0", "0", "--key", "id=1"), "say PARTITION and OFFSET"),
        (("--key", "id=x"), "id=x: it must be a bigint"),
        (("--key", "id=9223372036854775808"), "it must be a bigint"),
        (("--key", "word=a"), "word is not in the key, which is id"),
        (("--key", "id"), "'id' is no column=value"),
        (("--key", "id=1", "--key", "id=1"), "id is given twice"),
    ],
)
def test_wrong_usage(tide: Tide, arguments: tuple[str, ...], words: str) -> None:
    found = tide("where", "readings", *arguments)
    assert found.exit_code == 2, found.output
    assert words in " ".join(found.output.replace("│", " ").split())


def test_a_pipeline_with_windows_has_no_key(tide: Tide, world: MirrorWorld) -> None:
    add_yaml(world.folder, "hours")
    found = tide("where", "hours", "--key", "id=1")
    assert found.exit_code == 2, found.output
    assert "published by windows" in " ".join(found.output.split())


# ---------------------------------------------------------------- events


def test_repeats_and_stragglers(tmp_path: Path) -> None:
    with_events = MirrorWorld(tmp_path)
    with_events.land(event(1, "a", 10), event(1, "b", 20), event(2, "x", 15))
    with_events.land(event(1, "b", 20), event(1, "c", 30), event(1, "c", 30))
    with_events.apply()
    with_events.land(event(1, "old", 5), event(1, "c", 30))
    found = ask(with_events, "id=1")
    commits = {e.commit for e in found.events}
    assert len(commits) == 4
    low, ten, twenty, thirty = sorted(commits)
    assert states(found) == [
        ("row", 2, thirty),
        ("repeat", 2, thirty),
        ("waiting", 3, thirty),
        ("older", 1, twenty),
        ("older", 2, twenty),
        ("older", 1, ten),
        ("waiting", 3, low),
    ]
    assert found.settled, "what waits changes nothing"
    assert "a repeat" in found.events[2].words
    assert "a newer event is there" in found.events[-1].words
    assert with_events.rows() == {1: "c", 2: "x"}
    assert found.seen is not None
    assert table_says(with_events, 1) == (0, found.seen.offset, found.seen.batch_id)
    with_events.close()


def table_says(world: MirrorWorld, key: int) -> tuple[int, int, int]:
    """Which event made the row, as the table's row itself says it."""
    from pyiceberg.table import StaticTable

    rows = StaticTable.from_metadata(world.loaded().metadata_location).scan().to_arrow().to_pylist()
    (row,) = (r for r in rows if r["id"] == key)
    return row["_kafka_partition"], row["_offset"], row["_batch_id"]


def test_it_names_the_event_that_the_table_names(tmp_path: Path) -> None:
    """Any events, cut into batches and merges anyhow."""
    chosen = random.Random(7)
    world = MirrorWorld(tmp_path)
    for batch in range(5):
        made = [(chosen.randint(1, 3), chosen.randint(1, 4)) for _ in range(6)]
        # one content at one position, but for deletes
        world.land(*(event(k, None if chosen.random() < 0.3 else f"{k}.{at}", at) for k, at in made))
        if batch in (1, 3):
            world.apply()
    for key in (1, 2, 3):
        found = ask(world, f"id={key}")
        assert found.upto == 4
        assert found.seen is not None
        assert (found.seen.partition, found.seen.offset, found.seen.batch_id) == table_says(world, key)
    world.close()


def test_a_conflict_waits(tmp_path: Path) -> None:
    world = MirrorWorld(tmp_path)
    world.land(event(1, "a", 10))
    world.apply()
    world.land(event(1, "b", 10))
    found = ask(world, "id=1")
    assert sorted(e.state for e in found.events) == ["conflict", "row"]
    assert not found.settled
    world.land(event(1, "c", 20))
    assert not ask(world, "id=1").settled
    world.close()


def test_only_the_newest_are_told_and_the_row_always(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow, "FILES_AT_ONCE", 2)
    world = MirrorWorld(tmp_path)
    for n in range(3):
        world.land(event(1, f"{n}", 10 + n), event(2, "x", 50 + n))
    world.apply()
    world.land(*(event(1, f"w{n}", 20 + n) for n in range(4)))
    said: list[str] = []
    ctx = world.context()
    ctx.say = said.append
    found = where_key(ctx, Here(), key_of(ctx, ["id=1"]), most=3)
    assert [(e.state, e.batch_id) for e in found.events] == [("waiting", 4)] * 3
    assert (found.count, found.seen is not None and found.seen.batch_id) == (7, 3)
    assert said == [f"readings: {n} of 4 files read" for n in (2, 3, 4)]
    world.close()


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    world = MirrorWorld(tmp_path)
    world.land(event(1, "a", 10))
    world.land(event(1, "b", 20))
    world.apply()
    lost = ask(world, "id=1").events[1].file
    Path(lost.removeprefix("file://")).unlink()
    found = ask(world, "id=1")
    assert [e.state for e in found.events] == ["row"]
    assert not found.settled
    assert lost in found.notes[0]
    world.close()


def test_keys_of_two_columns_of_other_types(tmp_path: Path) -> None:
    yaml = YAML.replace("key: [id]", "key: [word, id]").replace(
        "{{name: word, type: string}}", "{{name: word, type: string, nullable: false}}"
    )
    world = MirrorWorld(tmp_path, yaml)

    def keyed(key: int, word: str, commit: int) -> tuple[bytes, bytes]:
        _, value = event(key, word, commit)
        return json.dumps({"id": key, "word": word}).encode(), value

    world.land(keyed(1, "a=b", 10), keyed(2, "a=b", 11), keyed(1, "c", 12))
    world.apply()
    found = ask(world, "id=1", "word=a=b")
    assert [(e.state, e.offset) for e in found.events] == [("row", 0)]
    assert found.key == {"word": "a=b", "id": "1"}
    with pytest.raises(NoKey, match="word is missing"):
        ask(world, "id=1")
    world.close()


# ---------------------------------------------------------------- rules


def an_event(commit: int, operation: str, digest: int, batch_id: int, offset: int) -> Event:
    digest = 0 if operation == "d" else digest
    return Event(
        partition=0, offset=offset, batch_id=batch_id, commit=commit, row=0, n=0, operation=operation, digest=digest,
        file="f",
    )  # fmt: skip


def test_the_order_is_that_of_merges() -> None:
    made = itertools.product((1, 2), ("u", "d"), (5, 6), (1, 2), (0, 1))
    events = [an_event(*one) for one in made]
    random.Random(1).shuffle(events)

    def compare(one: Event, other: Event) -> int:
        if newer(one.version, other.version):
            return -1
        if newer(other.version, one.version):
            return 1
        return -1 if (one.batch_id, one.offset) < (other.batch_id, other.offset) else 1

    assert [e.version for e in newest(events, 99)] == [e.version for e in sorted(events, key=cmp_to_key(compare))]
    upserts = [e for e in events if e.operation == "u"]
    assert newest(upserts, 99) == sorted(upserts, key=cmp_to_key(compare))
    assert newest(events, 3) == newest(events, 99)[:3]


def test_nothing_is_merged() -> None:
    found = history([], [an_event(1, "u", 5, 1, 0)], 1, 10)
    assert (found.seen, found.newest_merged) == (None, False)
    assert history([], [], 0, 10).events == ()


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "-2147483648", -2147483648),
        ("int", "2147483648", None),
        ("int", "1_0", None),
        ("tinyint", "128", None),
        ("string", "", ""),
        ("boolean", "TRUE", True),
        ("boolean", "1", None),
        ("binary", "00fF", "00ff"),
        ("binary", "0", None),
        ("date", "2013-01-05", "2013-01-05"),
        ("date", "2013-02-30", None),
        ("timestamp", "1970-01-01T01:00:00.000001+01:00", 1),
        ("timestamp", "1970-01-01T00:00:01", 1_000_000),
        ("timestamp", "now", None),
        ("decimal(4,2)", "1.5", "1.50"),
        ("decimal(4,2)", "-99.99", "-99.99"),
        ("decimal(4,2)", "100", None),
        ("decimal(4,2)", "1.005", None),
        ("decimal(4,2)", "1e999999", None),
        ("decimal(4,2)", "NaN", None),
        ("decimal(38,0)", "9" * 38, "9" * 38),
    ],
)
def test_values_of_a_key(kind: str, text: str, value: object) -> None:
    if value is None:
        with pytest.raises(NoKey, match=f"k=.*must be a {kind.split('(')[0]}"):
            key_values(["k"], {"k": kind}, [f"k={text}"])
    else:
        (found,) = key_values(["k"], {"k": kind}, [f"k={text}"])
        assert (found.value, type(found.value)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "text"),
    [("boolean", "true"), ("smallint", "7"), ("string", "é"), ("binary", "00ff"), ("date", "0001-01-01"),
     ("timestamp", "2013-01-05T04:00:00.25Z"), ("decimal(12,2)", "-7.5")],
)  # fmt: skip
def test_files_are_searched_by_values_of_every_type(tmp_path: Path, kind: str, text: str) -> None:
    """A row group is skipped only where its statistics leave the key out."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from spark_jobs.engine.types import arrow_type
    from spark_jobs.handlers.key_events import _scalar
    from tidegate.core.base.hivetypes import parse
    from tidegate.core.mirror.key_history import Question

    (key,) = key_values(["k"], {"k": kind}, [f"k={text}"])
    mine, wanted = _scalar(kind, key.value), arrow_type(parse(kind))
    others: Sequence[Any] = [None, False] if kind == "boolean" else [None, mine.as_py()]
    rows = [mine.as_py(), *others]
    columns = {
        "k": pa.array(rows, wanted),
        "_op": pa.array(["u"] * 3),
        "_position_commit": pa.array([1, 2, 3], pa.int64()),
        "_position_row": pa.array([0] * 3, pa.int64()),
        "_partition": pa.array([0] * 3, pa.int32()),
        "_offset": pa.array([1, 2, 3], pa.int64()),
        "_batch_id": pa.array([1] * 3, pa.int64()),
    }
    pq.write_table(pa.table(columns), tmp_path / "f.parquet", row_group_size=1)
    question = Question((key,), ((f"file://{tmp_path}/f.parquet",),), (("k", kind), ("later", "int")), 10)
    found = Here().events(question)
    assert found.unread == ""
    assert [e.offset for e in found.events] == ([1] if kind == "boolean" else [3, 1])
