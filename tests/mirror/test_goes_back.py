"""M8: a log whose positions begin anew is refused where events would be lost; a connector that sends again is not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.engine.failures import JobError
from spark_jobs.engine.mirror.shape import Shape
from tests.mirror import oracle
from tests.mirror.histories import Event
from tests.mirror.lives import Wrong
from tests.mirror.planted import LOG_BUGS, READING_BUGS
from tests.mirror.tables import InMemory, columns, plan_of
from tests.mirror.worlds import MirrorWorld, event
from tests.mutants.planting import Planted
from tidegate.core.base.errors import BatchRefused
from tidegate.core.batch.refusal import RefusalKind
from tidegate.core.mirror.jobs import START

KINDS = ("bigint",)
LIVES, MOST_LIVES = 60, 200


@pytest.fixture
def world(tmp_path: Path) -> Iterator[MirrorWorld]:
    made = MirrorWorld(tmp_path)
    yield made
    made.close()


# ---------------------------------------------------------------- whole worlds


def test_a_server_that_took_over_is_refused(world: MirrorWorld) -> None:
    """Its log begins at a low position: without the rule its change would be merged as an older one."""
    world.land(event(1, "a", 1_000, ms=10_000), event(2, "b", 1_010, ms=11_000))
    world.apply()
    assert world.standing().newest_ms == 11_000
    world.land(event(3, "new", 40, ms=12_000), event(1, "lost", 50, ms=13_000))
    with pytest.raises(BatchRefused, match="positions go back: id=1 at") as refused:
        world.apply()
    assert refused.value.kind == RefusalKind.GOES_BACK
    for words in ("offset 3 (batch 2)", "1970-01-01T00:00:13", "the table's row from readings, partition 0, offset 0"):
        assert words in str(refused.value)
    assert "a new mirror" in refused.value.advice
    assert world.rows() == {1: "a", 2: "b"}
    with pytest.raises(BatchRefused, match="positions go back"):  # without a job
        world.apply()
    world.apply(conflicts="it was a clock that was wrong")
    assert world.rows() == {1: "a", 2: "b", 3: "new"}


def test_it_is_seen_inside_of_one_batch(world: MirrorWorld) -> None:
    world.land(event(1, "a", 1_000, ms=10_000), event(1, "lost", 50, ms=13_000))
    with pytest.raises(BatchRefused, match="but an event from readings, partition 0, offset 0"):
        world.apply()


def test_a_connector_that_sends_again_is_welcome(world: MirrorWorld) -> None:
    log = [event(1, f"{n}", 10 * n, ms=1_000 * n) for n in range(1, 7)]
    world.land(*log[:4])
    world.apply()
    world.land(*log[1:4])  # nothing new
    world.apply()
    world.land(*log[2:])
    world.apply()
    assert world.rows() == {1: "6"}


def test_without_times_the_order_alone_decides(world: MirrorWorld) -> None:
    """Flat events whose add.fields does not name source.ts_ms."""
    world.land(event(1, "a", 1_000), event(1, "b", 50))
    world.apply()
    assert world.rows() == {1: "a"}


def test_a_table_whose_events_had_no_times_says_nothing_of_those_that_have(world: MirrorWorld) -> None:
    """`source.ts_ms` was added to a flat envelope, and the connector was restarted."""
    world.land(event(1, "a", 10), event(1, "b", 20))
    world.apply()
    world.land(event(1, "a", 10, ms=1_000), event(1, "b", 20, ms=2_000))
    world.apply()
    assert world.rows() == {1: "b"}


def test_keys_that_are_spread_over_partitions_do_not_matter(world: MirrorWorld) -> None:
    """Another partitioner: each partition lags for itself. Positions decide, and nothing is refused."""
    world.land(event(1, "a", 10, ms=1_000), event(1, "c", 30, ms=3_000))
    world.apply()
    world.land(event(1, "b", 20, ms=9_000), event(2, None, 25, ms=9_500), partition=1)
    world.apply()
    world.land(event(2, "x", 15, ms=9_600))
    world.apply()
    assert world.rows() == {1: "c"}


# ---------------------------------------------------------------- random lives


def live(seed: str) -> None:
    """Any restarts, any cuts, statements that take long: never refused, always the oracle's. Raises Wrong."""
    rng = random.Random(seed)
    spread = rng.random() < 0.3  # another partitioner: a key has several lanes
    log = [replace(e, partition=rng.randint(0, 1)) if spread else e for e in _log(rng, 1_000)]
    mirror, rows = _mirror(), oracle.Rows()
    for events in _cut(rng, _delivered(rng, log)):
        try:
            merged(mirror, rng.sample(events, len(events)))
        except JobError as error:
            raise Wrong(f"{seed}: refused: {error}") from error
        rows, _ = oracle.merged(rows, events, mirror.purged_below)
    if set(mirror.standing()) != set(rows.values()):
        raise Wrong(f"{seed}: {set(mirror.standing())} stands, {set(rows.values())} must")
    if not spread:
        _another_log(rng, mirror, rows, seed)


def _another_log(rng: random.Random, mirror: InMemory, rows: oracle.Rows, seed: str) -> None:
    """What it says of a key that stands would be lost: refused, with the first log's last events or after them."""
    newest = mirror.newest_ms
    other = [replace(e, ms=newest + 1 + n, batch=98, offset=n) for n, e in enumerate(_log(rng, 1), 10_000)]
    lost = {e.key for e in other} & rows.keys()
    try:
        merged(mirror.copy(), other)
    except JobError as error:
        if error.failure.kind != RefusalKind.GOES_BACK:
            raise
        if not lost:
            raise Wrong(f"{seed}: refused without a loss: {error}") from error
        return
    if lost:
        raise Wrong(f"{seed}: events of {lost} were lost")


def live_below_a_reading(seed: str) -> None:
    """The same where a copy becomes whole, often far ahead of the events: below what it has read keys without a row get
    none, and what stands in their lane tells another log. Raises Wrong."""
    rng = random.Random(seed)
    mirror, below = InMemory(KINDS, 1), START
    merges = _cut(rng, _delivered(rng, _log(rng, 1_000)))
    whole = rng.randint(0, len(merges) - 1)
    for n, events in enumerate(merges):
        below = (1_000 + rng.randint(1, 200), 0, 1) if n == whole else below
        try:
            merged(mirror, rng.sample(events, len(events)), swept_below=below)
        except JobError as error:
            raise Wrong(f"{seed}: refused: {error}") from error
    newest, lanes = mirror.newest_ms, {row.partition for row in mirror.standing()}
    other = [replace(e, ms=newest + 1 + n, batch=98, offset=n) for n, e in enumerate(_log(rng, 1), 10_000)]
    if rng.random() < 0.5:  # rows that nobody has seen
        other = [replace(e, key=(e.key[0] + 10,)) for e in other]
    lost = newest > 0 and any(e.partition in lanes for e in other)
    try:
        merged(mirror, other, swept_below=below)
    except JobError as error:
        if error.failure.kind != RefusalKind.GOES_BACK or not lost:
            raise Wrong(f"{seed}: refused without a loss: {error}") from error
        return
    if lost:
        raise Wrong(f"{seed}: events of another log were lost")


def _log(rng: random.Random, commit: int) -> list[Event]:
    """In the order of commits; a long statement has the time at which it began. A key has one lane."""
    found, ms = [], 0
    for _ in range(rng.randint(1, 40)):
        commit, ms = commit + rng.randint(1, 5), ms + rng.choice([0, 0, 1_000, 60_000])
        key = rng.randint(1, 6)
        began = max(1, ms - rng.choice([0, 0, 0, 300_000]))
        op = "d" if rng.random() < 0.2 else "u"
        content = None if op == "d" else (rng.choice("abc"), 1)
        found.append(Event((key,), (commit, 0, 0), op, content, partition=key % 2, ms=began))
    return found


def _delivered(rng: random.Random, log: list[Event]) -> list[Event]:
    """In order, but that a restart goes back anywhere; lanes then lag behind each other by whole batches."""
    found, at = list[Event](), 0
    while at < len(log):
        found.append(log[at])
        at = rng.randint(0, at) if rng.random() < 0.05 else at + 1
    return found


def _cut(rng: random.Random, sent: list[Event]) -> list[list[Event]]:
    """Merges of batches: of each lane some, from where the one before ended."""
    lanes = [[replace(e, offset=n) for n, e in enumerate(e for e in sent if e.partition == lane)] for lane in (0, 1)]
    merges, batch = list[list[Event]](), 0
    while any(lanes):
        taken = list[Event]()
        for _ in range(rng.randint(1, 3)):
            batch += 1
            for lane in lanes:
                count = rng.randint(0, 6)
                taken += [replace(e, batch=batch) for e in lane[:count]]
                del lane[:count]
        merges += [taken] if taken else []
    return merges


def _mirror() -> InMemory:
    return InMemory(KINDS, 2)


def merged(mirror: InMemory, events: list[Event], **changes: Any) -> None:
    """As the job is told by the table how far it is."""
    mirror.shape = Shape(plan_of(KINDS, mirror.buckets, newest_ms=mirror.newest_ms, **changes))
    mirror.merge(events)
    mirror.newest_ms = max([mirror.newest_ms, *(e.ms or 0 for e in events)])


def test_restarts_are_never_refused_and_another_log_always(rng: random.Random) -> None:
    seed = rng.randrange(2**32)
    for n in range(LIVES):
        live(f"{seed}:{n}")
        live_below_a_reading(f"{seed}:{n}")


BUGS = {name: (bug, live) for name, bug in LOG_BUGS.items()} | {
    name: (bug, live_below_a_reading) for name, bug in READING_BUGS.items()
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    bug, lives = BUGS[name]
    with Planted(bug) as planted:
        for n in range(MOST_LIVES):
            try:
                lives(f"planted:{n}")
            except (Wrong, JobError):
                assert planted.never_called() == []
                return
    raise AssertionError(f"{MOST_LIVES} lives have not noticed it")


def test_a_table_without_the_column_is_merged_by_the_order_alone() -> None:
    """It is from before there was one: the next merge but this gives it the column."""
    kept = tuple(c for c in columns(KINDS) if c.name != "_source_ms")
    assert Shape(plan_of(KINDS, 2, columns=kept)).source_ms is None
