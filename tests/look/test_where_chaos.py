"""`tidegate where` after a life full of accidents: every answer against the producer's own log and the files.

The oracle knows what was produced, what the broker lost, and which file holds which record by the record's own text. It
reads neither the ledger nor the code that answers.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.fakes.kafka import FakeKafka, FakeReader
from tests.hooks import Died
from tests.look.row_readers import InProcessRows
from tests.world import HOUR, T0, TOPIC, World, make_pipeline, window
from tidegate.core.base.errors import NotReady, TidegateError
from tidegate.core.batch.jobs import ReadPlan
from tidegate.core.look.fate import Fate
from tidegate.core.spec.pipeline import Column
from tidegate.core.window.cut import window_id
from tidegate.workflow.base.context import REQUEST_TTL_MS
from tidegate.workflow.batch import ingest
from tidegate.workflow.look.where import where_all
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay

PARTITIONS, BATCH, TURNS = 3, 500, 9
ASKED = 10_000
CHANGES = frozenset(
    {"write_new", "rename_no_replace", "make_dirs", "delete", "insert_plan", "take", "seal", "land", "mark_side"}
    | {"begin_close", "finish_close", "built", "begin_swap", "publish", "declare_intent", "answer_intent", "run"}
    | {"add_partitions", "set_location", "drop_partitions", "begin_generation", "announced", "remember"}
)


class Deaths:
    """Now and then the process is gone before or after a changing call."""

    def __init__(self, port: Any, rng: random.Random, odds: float) -> None:
        self._port, self._rng, self._odds = port, rng, odds

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._port, name)
        if name not in CHANGES:
            return real

        def deadly(*args: Any, **options: Any) -> Any:
            fate = self._rng.random() / self._odds
            if fate < 1:
                raise Died
            result = real(*args, **options)
            if fate < 2:
                raise Died
            return result

        return deadly


@dataclass(frozen=True)
class Sent:
    """What the producer noted of one offset; `name` is None where there is no record (control, aborted, compacted)."""

    name: str | None
    hour: float = 0.0
    dirty: bool = False

    @property
    def event_ms(self) -> int:
        return T0 + int(self.hour * HOUR)

    @property
    def window_ms(self) -> int:
        return T0 + int(self.hour // 1) * HOUR


Key = tuple[str, int, int]  # topic id, partition, offset


class Chaos:
    """A producer, a broker and a scheduler that are all unreliable."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        spec = make_pipeline(f"file://{folder}/lake/readings")
        source = replace(spec.source, gaps="allow", on_data_loss="record")
        spec = replace(
            spec, source=source, columns=(*spec.columns, Column(name="at", type="bigint", path="$.at", nullable=False))
        )
        self.rng = rng
        self.world = World(folder, spec)
        self.world.kafka.reader = self._reader
        self.topic_id = self.world.kafka.create(TOPIC, PARTITIONS)
        self.log: dict[Key, Sent] = {}
        self.planned = {p: 0 for p in range(PARTITIONS)}
        self.states: dict[Key, str] = {}  # before start, lost, abandoned, open: what a file cannot tell
        self.hour, self.trimmed = 0.0, False
        self.runs = self.deaths = self.published = self.fresh = 0

    def _reader(self, plan: ReadPlan, settings: dict[str, str] | None = None) -> FakeReader:
        reader = FakeKafka.reader(self.world.kafka, plan, settings)
        reader._chunk = 500  # chunks are not what is looked at here
        return reader

    # ------------------------------------------------------------ the producer

    def produce(self, count: int) -> None:
        for p in range(PARTITIONS):
            self._produce(p, count // PARTITIONS + self.rng.randrange(20))
        self.hour += self.rng.uniform(0.3, 0.9)

    def _produce(self, p: int, count: int) -> None:
        kafka, rng = self.world.kafka, self.rng
        how = rng.random()
        if how < 0.3:
            kafka.begin(TOPIC, p)
        sent = [self._send(p) for _ in range(count)]
        if how < 0.2:
            kafka.commit(TOPIC, p)
            self._nothing(p, self._end(p) - 1)  # the control record
        elif how < 0.3:
            kafka.abort(TOPIC, p)
            for offset in [*sent, self._end(p) - 1]:
                self._nothing(p, offset)
        elif how < 0.5:  # compacted before anybody read it
            gone = rng.sample(sent, len(sent) // 4)
            kafka.compact(TOPIC, p, *gone)
            for offset in gone:
                self._nothing(p, offset)

    def _send(self, p: int) -> int:
        name = f"{self.topic_id}/{p}/{self._end(p)}"
        hour = max(0.0, self.hour + self.rng.uniform(-1.6, 1.0))
        if self.rng.random() < 0.03:
            value, sent = b"not json " + name.encode(), Sent(name, hour, dirty=True)
        else:
            # whole seconds, so that an hour as a float and its ms agree
            hour = int(hour * 3600) / 3600
            at = T0 + int(hour * HOUR)
            value = json.dumps({"id": name, "site": self.rng.choice("ab"), "at": at, "value": 1}).encode()
            sent = Sent(name, hour)
        offset = self.world.kafka.append(TOPIC, p, value)
        self.log[self.topic_id, p, offset] = sent
        return offset

    def _nothing(self, p: int, offset: int) -> None:
        self.log[self.topic_id, p, offset] = Sent(None)

    def _end(self, p: int) -> int:
        return self.world.kafka.look(TOPIC).partitions[p].high_watermark

    # ------------------------------------------------------------ the broker

    def trim(self) -> None:
        """Retention passes some records that nobody has read; of each partition one at least."""
        self.trimmed = True
        for p in range(PARTITIONS):
            before = self.rng.randrange(self.planned[p] + 1, self._end(p) + 1)
            self._mark(p, before, "before start" if not self.runs else "lost")
            self.world.kafka.trim(TOPIC, p, before)

    def recreate(self) -> None:
        old, self.topic_id = self.topic_id, self.world.kafka.create(TOPIC, PARTITIONS)
        self.world.context().ledger.pipelines.accept_topic("readings", old, self.topic_id, "test")
        self.world.close()
        self.planned = dict.fromkeys(self.planned, 0)
        self.trimmed = False
        self.fresh = int(self.hour + 1) + 1  # no record of the topic before is in an hour from here on

    # ------------------------------------------------------------ the tasks

    def run(self, task: Callable[[World], object]) -> None:
        """As a scheduler does: again and again until it is done, however often it dies."""
        for tries_left in range(29, -1, -1):
            self.world.wrap = lambda name, port: Deaths(port, self.rng, 0.02)
            try:
                task(self.world)
                return
            except Died:
                self.deaths += 1
                self.world.clock.advance(REQUEST_TTL_MS + 1)
            except TidegateError as e:
                if not e.retry or isinstance(e, NotReady) or not tries_left:
                    raise
                self.world.clock.advance(REQUEST_TTL_MS + 1)
            finally:
                self.world.close()
                self.world.wrap = lambda name, port: port

    def ingest(self) -> None:
        run = self._next_run()
        for step in (ingest.plan, ingest.write, ingest.land):
            self.run(lambda world, step=step: step(world.context(), run))
        self._mark(None, None, "")

    def abandon(self) -> None:
        run = self._next_run()
        self.run(lambda world: ingest.plan(world.context(), run))
        ctx = self.world.context()
        ctx.ledger.batches.abandon(ctx.ledger.batches.open("readings"), "its records are of no use")
        self.world.close()
        self._mark(None, None, "abandoned")

    def leave_open(self, state: str) -> None:
        run = self._next_run()
        self.run(lambda world: ingest.plan(world.context(), run))
        ctx = self.world.context()
        if state == "WRITING":
            ctx.ledger.batches.take(ctx.ledger.batches.open("readings"), "x")
        if state == "SEALED":
            ingest.write(ctx, run)
        self.world.close()
        self._mark(None, None, f"open {state}")

    def _next_run(self) -> str:
        self.runs += 1
        return f"r{self.runs}"

    def _mark(self, p: int | None, before: int | None, state: str) -> None:
        """What was planned up to here has this state, if a file cannot tell it."""
        for q in range(PARTITIONS) if p is None else (p,):
            end = self._end(q) if before is None else before
            for offset in range(self.planned[q], end):
                if state:
                    self.states[self.topic_id, q, offset] = state
            self.planned[q] = end

    def archive(self) -> None:
        while self.published < 200:
            try:
                self.run(lambda world: self._publish(archive.publish, self.published))
            except NotReady:
                return
            self.published += 1

    def again(self) -> None:
        """A published hour loses a file and is cleared, or is replayed with other columns."""
        hours = range(self.fresh, self.published)
        if not hours:
            return
        hour = self.rng.choice(hours)
        places = (f"/date=2013-01-{5 + hour // 24:02}/hour={hour % 24:02}/", f"/{window_id(window(hour).start_ms)}.")
        files = [f for _, many in self._partitions("") for f in many if any(p in str(f) for p in places)]
        if files and self.rng.random() < 0.5:
            self.rng.choice(files).unlink()
            self.run(lambda world: self._publish(archive.publish, hour))
        else:
            name, site, _, at = self.world.pipeline.columns
            path = self.rng.choice(("$.value", "$.other"))
            self.world.change_spec(columns=(name, site, Column(name="value", type="int", path=path), at))
            self.run(lambda world: self._publish(replay.replay, hour))

    def _publish(self, how: Callable[..., Any], hour: int) -> None:
        ctx = self.world.context()
        archive.announced(ctx, how(ctx, window(hour)))

    # ------------------------------------------------------------ the oracle

    def truth(self) -> dict[str, tuple[str, str, int, str]]:
        """Name of a record -> (kind, file, generation, reason), by the text in files that readers see or that wait."""
        found: dict[str, tuple[str, str, int, str]] = {}

        def note(name: str, *what: Any) -> None:
            assert name not in found, f"{name} is twice in the files: {found[name]}, {what}"
            found[name] = what  # type: ignore[assignment]

        for kind, table in (("published", ""), ("late", "__late"), ("dirty", "__dirty")):
            for location, files in self._partitions(table):
                part = location.rpartition("/generations/")[2] if "/generations/" in location else ".1."
                number = int(part.split(".")[1]) if kind == "published" else 0
                for file in files:
                    for name, reason in _names(file, kind):
                        note(name, kind, f"file://{file}", number, reason)
        work = self.world.folder / "lake/readings/_tidegate"
        for file in sorted((work / "landed").glob("*/data/**/*.parquet")):
            for name, _ in _names(file, "waiting"):
                note(name, "waiting", f"file://{file}", 0, "")
        return found

    def _partitions(self, table: str) -> Iterator[tuple[str, list[Path]]]:
        for location in self.world.partitions(f"lake.readings{table}").values():
            files = sorted(Path(location.removeprefix("file://")).rglob("*.parquet"))
            yield location, [f for f in files if not f.name.startswith(("_", "."))]

    def expected(self, key: Key, truth: dict[str, tuple[str, str, int, str]]) -> tuple[str, dict[str, Any]]:
        """(kind, the fields of the answer that must be so)."""
        topic_id, p, offset = key
        sent, state = self.log.get(key), self.states.get(key, "")
        if state.startswith("open"):
            return "open batch", {}
        if state:
            return state, {"reason": "retention"} if state == "lost" else {}
        if topic_id == self.topic_id and offset >= self.planned[p]:
            if offset >= self._end(p):
                return "no such record", {}
            return "not read yet", {"behind": offset - self.planned[p]}
        assert sent is not None
        if sent.name is None:
            return "gap", {}
        kind, file, generation, reason = truth[sent.name]
        told: dict[str, Any] = {"file": file}
        if kind == "dirty":
            return kind, told | {"reason": reason, "raw": f"not json {sent.name}"}
        assert not sent.dirty
        told |= {"event_ms": sent.event_ms, "window_ms": sent.window_ms}
        return kind, told | ({"generation": generation} if kind == "published" else {})


def _names(file: Path, kind: str) -> list[tuple[str, str]]:
    columns = pq.ParquetFile(file).read(columns=["raw_value", "reason"] if kind == "dirty" else ["id"]).to_pydict()
    if kind == "dirty":
        names = [raw.decode().removeprefix("not json ") for raw in columns["raw_value"]]
        return list(zip(names, columns["reason"], strict=True))
    return [(name, "") for name in columns["id"]]


@pytest.fixture
def chaos(tmp_path: Path, rng: random.Random) -> Iterator[Chaos]:
    """Two topics of one name, twenty batches, everything that can happen to a record, and an open batch at the end."""
    made = Chaos(tmp_path, rng)
    made.produce(60)
    made.trim()
    for life in range(2):
        for turn in range(TURNS):
            made.produce(BATCH)
            if turn == TURNS - 3:
                made.abandon()
                made.produce(BATCH)
            if turn == TURNS - 2:
                made.trim()
            made.ingest()
            made.archive()
            if turn % 2 and not made.trimmed:
                made.again()
        if not life:
            made.recreate()
    made.run(lambda world: reconcile.maintain(world.context()))
    made.produce(BATCH)
    made.leave_open(rng.choice(("PLANNED", "WRITING", "SEALED")))
    made.produce(BATCH)
    yield made
    made.world.close()


def test_ten_thousand_records_are_told_rightly(chaos: Chaos) -> None:
    """Each offset is asked for once and must be told rightly for every topic that had it."""
    keys = sorted(chaos.log) + [(chaos.topic_id, p, chaos._end(p) + n) for p in range(PARTITIONS) for n in range(3)]
    assert len(keys) >= ASKED
    asked: dict[tuple[int, int], list[Key]] = {}
    for key in chaos.rng.sample(keys, ASKED):
        asked.setdefault(key[1:], []).append(key)
    truth = chaos.truth()
    ctx = chaos.world.context()
    answers = where_all(ctx, ctx.ledger.reads, InProcessRows(), list(asked))
    kinds: Counter[str] = Counter()
    for mine, answer in zip(asked.values(), answers, strict=True):
        for key in mine:
            kind, told = chaos.expected(key, truth)
            fate = next(f for f in answer.fates if f.topic_id == key[0])
            seen = {name: getattr(fate, name) for name in told}
            assert (fate.kind, seen) == (kind, told), f"{key}: {fate}"
            assert_worded(fate, chaos.states.get(key, ""))
            kinds[kind] += 1
    wanted = {"published", "waiting", "late", "dirty", "gap", "open batch", "abandoned", "lost", "not read yet"}
    wanted |= {"before start", "no such record"}
    assert set(kinds) == wanted, kinds
    assert chaos.deaths > 5


def assert_worded(fate: Fate, state: str) -> None:
    """The sentence says what the fields say."""
    words = {
        "published": f"published in generation {fate.generation}",
        "waiting": "waits for its window",
        "late": "late: its window",
        "dirty": f"{fate.reason}: {fate.raw}",
        "abandoned": "its records are of no use",
        "open batch": state.removeprefix("open "),
        "not read yet": f"{fate.behind:,} behind" if fate.behind is not None else "",
        "lost": "lost to retention",
    }
    assert words.get(fate.kind, "") in fate.words
    if fate.kind in ("published", "waiting", "late", "dirty"):
        assert f"batch {fate.batch_id}, attempt {fate.attempt}" in fate.words
