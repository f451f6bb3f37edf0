"""A life of a mirror by a seed: merged in random cuts, again on an old base, purged, compared with an oracle.

python -m tests.mirror.lives <first seed> <how many>
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace

from spark_jobs.engine.failures import JobError
from tests.mirror import oracle
from tests.mirror.histories import History, draw
from tests.mirror.tables import InMemory, cut_at_random, spelled
from tidegate.core.mirror.balance import Totals, imbalance
from tidegate.core.mirror.comparison import Kind


class Wrong(AssertionError):
    """What a mirror did not hold, or did not count."""


def live(seed: str) -> History:
    """Two lives of one history, cut differently, must end alike. Raises Wrong."""
    rng = random.Random(seed)
    history = draw(rng)
    ends = [_course(rng, history, purges=False) for _ in range(2)]
    if ends[0] != ends[1]:
        raise Wrong(f"{seed}: the table depends on the cuts: {sorted(map(str, ends[0] ^ ends[1]))}")
    with_purges = {e for e in _course(rng, history, purges=True) if not e.deleted}
    if with_purges != {e for e in ends[0] if not e.deleted}:
        raise Wrong(f"{seed}: a purge has changed rows: {with_purges}, without {ends[0]}")
    _contradicted(rng, history)
    return history


def _contradicted(rng: random.Random, history: History) -> None:
    """M7: two contents at one position are refused, in one merge and against the table."""
    mirror = InMemory(history.kinds, history.buckets)
    mirror.merge(history.events(1, len(history.batches)))
    upserts = [e for e in mirror.standing() if not e.deleted]
    own = [e for e in history.events(1, len(history.batches)) if e.arrival in {u.arrival for u in upserts}]
    for e in own[:1]:
        other = replace(e, content=("another", 7), batch=e.batch + 1, partition=1 - e.partition)
        for table, events in ((mirror, [other]), (InMemory(history.kinds, history.buckets), [e, other])):
            try:
                table.merge(rng.sample(events, len(events)))
            except JobError as error:
                if error.failure.kind == "conflict":
                    continue
                raise
            raise Wrong(f"two contents at {e.position} of {e.key} were merged")


def _course(rng: random.Random, history: History, purges: bool) -> set:
    mirror, table = InMemory(history.kinds, history.buckets), oracle.Rows()
    events = inserted = 0
    purged_below = mirror.purged_below
    for first, last in cut_at_random(rng, len(history.batches)):
        due = history.events(first, last)
        if due and rng.random() < 0.2:
            _died(mirror, due, rng)
        counts = mirror.merge(due) if due else None
        table, fates = oracle.merged(table, due, purged_below)
        _compare(mirror, table, f"batches {first} to {last}")
        if counts is not None:
            told = {name: n for name, n in asdict(counts).items() if n}
            if told != dict(fates):
                raise Wrong(f"batches {first} to {last}: counts {told}, must be {dict(fates)}")
            events, inserted = events + counts.events, inserted + counts.inserted
        if due and rng.random() < 0.2:
            _again(mirror, due)
        floor = history.floors[last - 1]
        if purges and floor is not None and rng.random() < 0.5:
            below = rng.choice([floor, (rng.randint(0, floor[0]), 0, 0)])
            mirror.purge(below)
            table, purged_below = oracle.purged(table, below), max(purged_below, below)
            if mirror.purged_below != purged_below:
                raise Wrong(f"after a purge below {below} the marker is {mirror.purged_below}, not {purged_below}")
            _compare(mirror, table, f"a purge below {below}")
        _balance(mirror, events, inserted)
    if events != sum(len(batch) for batch in history.batches):
        raise Wrong(f"{events} events were counted")
    _audited(rng, mirror, history)
    return set(mirror.standing())


def _audited(rng: random.Random, mirror: InMemory, history: History) -> None:
    """The table as it is differs in nothing from what its events make; a harmed row is found, and nothing else."""
    events, until = history.events(1, len(history.batches)), rng.randint(0, len(history.batches))
    wrong = [one for one in mirror.compared(events, until) if one.differ or one.kept_out]
    if wrong:
        raise Wrong(f"an audit finds differences in an unharmed table: {wrong}")
    standing = [n for n, rows in mirror.tables.items() for _ in range(len(rows))]
    if not standing:
        return
    harmed, number = mirror.copy(), rng.choice(standing)
    rows = mirror.tables[number]
    kind, at = rng.choice([Kind.LACKING, Kind.OTHER, Kind.DOUBLED]), rng.randrange(len(rows))
    harmed.tables[number] = mirror.harmed(rows, at, kind)
    compared = harmed.compared(events, until)
    found = [(one.bucket, dict(one.differ)) for one in compared if one.differ]
    if kind is Kind.LACKING and mirror.is_below(rows, at):  # a purge may have taken it, or kept it out
        kept_out = sum(one.kept_out for one in compared)
        if found or kept_out != (rows.slice(at, 1)["_op"][0].as_py() != "d"):
            raise Wrong(f"row {at} of bucket {number} is below the purge, an audit finds {found}, {kept_out} kept out")
        return
    if found != [(number, {kind.value: 1})]:
        raise Wrong(f"row {at} of bucket {number} was made {kind}, an audit finds {found}")


def _died(mirror: InMemory, due: Sequence, rng: random.Random) -> None:
    """A merge whose commit never came: its files are nobody's."""
    lost = mirror.copy()
    lost.merge(rng.sample(list(due), rng.randint(1, len(due))))


def _again(mirror: InMemory, due: Sequence) -> None:
    """The same range on the base that has it already changes nothing."""
    again = mirror.copy()
    counts = again.merge(due)
    if counts.inserted or counts.changed or set(again.standing()) != set(mirror.standing()):
        raise Wrong(f"merged again it changes: {counts}")


def _compare(mirror: InMemory, table: oracle.Rows, after: str) -> None:
    standing = mirror.standing()
    if len({e.key for e in standing}) != len(standing):
        raise Wrong(f"after {after} a key has two rows: {standing}")
    wanted = spelled(mirror.kinds, table.values())
    if set(standing) != wanted:
        raise Wrong(f"after {after} there is {set(standing) - wanted}, missing is {wanted - set(standing)}")


def _balance(mirror: InMemory, events: int, inserted: int) -> None:
    standing = mirror.standing()
    tombstones = sum(e.deleted for e in standing)
    sums = Totals(
        rows=len(standing) - tombstones, tombstones=tombstones, events=events, inserted=inserted, purged=mirror.purged
    )
    wrong = imbalance(sums)
    if wrong:
        raise Wrong(wrong)


def main(first: int, count: int) -> None:
    for n in range(first, first + count):
        live(str(n))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
