"""Short random lives of a delivery, many of them: tries that sleep between any two statements while others overtake
them, requests that come late, answers that are lost, hours without rows, servers that restart, lose a table or are
restored from a backup, replicas that lag. ClickHouse's table is the product's own. Whenever the ledger says that an
hour stands, it does."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.clickhouse.memory import Cluster, InClickHouse, Newer, Quorum, Replicated
from tests.deliver.lab import Staged, Transactional
from tests.deliver.light_lab import LightLab, hours
from tests.deliver.planted import DELIVERY_BUGS
from tests.deliver.test_clickhouse_bugs import BUGS
from tests.mutants.planting import Planted
from tests.world import HOUR, T0, window
from tidegate.core.base.errors import DeliveryUnsure, TidegateError
from tidegate.core.deliver.states import STANDING
from tidegate.core.spec.pipeline import Column
from tidegate.ledger.deliveries import SqlDeliveries
from tidegate.targets.clickhouse import replicas, table
from tidegate.targets.clickhouse.client import Failed, Unanswered
from tidegate.workflow.deliver import deliver, ready

LIVES = int(os.environ.get("TIDEGATE_SHORT_LIVES", "4"))
STEPS, HOURS = 25, 2
KINDS = (Transactional, Staged, InClickHouse, Newer, Replicated, Quorum)


class ShortLife:
    """`drops` of tables, of which a run has `noticed` so many. `doubted`: the connection names other shards, and nobody
    has compared since. `restored`: a database was, and no run has begun since."""

    def __init__(self, folder: Path, kind: type[Any], seed: int) -> None:
        self.chance, self.calm, self.count = random.Random(seed), True, 0
        self.late, self.depth, self.drops, self.noticed = list[Callable[[], Any]](), 0, 0, 0
        self.doubted = self.forgot = False
        self.lab = LightLab(folder, kind)
        self.server: Any = self.lab.server
        self.backup, self.restored = None if isinstance(self.server, Cluster) else self.server.backup(), False
        self.restores = 0
        self.server.around = self.around
        if isinstance(self.server, Cluster):
            self.server.slow, self.server.kills, self.server.happens = self.is_slow, self.is_killed, self.while_it_waits
        for hour in range(HOURS):
            self.publishes(hour)
        self.calm = False

    # ------------------------------------------------------------ what becomes of a request

    def around(self, name: str, do: Callable[[], None]) -> None:
        if self.calm:
            do()
            return
        if name == "ask":
            if self.chance.random() < 0.01:
                raise DeliveryUnsure("no answer")
            do()
            return
        last, restores = name in ("replace", "commit"), self.restores
        self.meanwhile(0.5 if last else 0.15)
        if restores < self.restores:
            raise DeliveryUnsure(f"{name}: the connection of before is gone")
        well = self.chance.random() > (0.4 if last else 0.08 if name == "insert" else 0.05)
        fate = "" if well else self.chance.choice(("request", "reply", "late", "late"))
        if fate == "late":
            self.late.append(do)
        if fate in ("", "reply"):
            do()
            if name == "insert" and self.chance.random() < 0.05:  # something between has sent it again
                do()
        if fate in ("reply", "late"):
            self.meanwhile()
        if fate:
            raise DeliveryUnsure(f"{name}: no answer")

    def meanwhile(self, often: float = 0.2) -> None:
        """What others do in the middle of a try: it sleeps until they have done it."""
        if self.calm or self.depth > 1 or self.chance.random() > often:
            return
        self.depth += 1
        doings = (
            *[self.one_comes_late] * 2, *[self.overtakes] * 2, self.publishes, self.delivers, self.of_servers,
            self.is_dropped, self.is_restored, self.prepares,
        )  # fmt: skip
        with contextlib.suppress(TidegateError):
            self.chance.choice(doings)()
        self.depth -= 1

    def while_it_waits(self) -> None:
        """Old parts are on a disk still: a restart shows them again."""
        if not self.calm and self.chance.random() < 0.15:
            self.chance.choice(self.server.servers).restart()
        self.meanwhile()

    def is_slow(self) -> bool:
        return not self.calm and self.chance.random() < 0.2

    def is_killed(self) -> bool:
        """The process whose statement has no answer: it cleans up nothing."""
        return not self.calm and self.chance.random() < 0.5

    # ------------------------------------------------------------ steps

    @property
    def hour(self) -> int:
        return self.chance.randrange(HOURS)

    def publishes(self, hour: int | None = None) -> None:
        """Another generation: other rows, fewer of them, none, the same rows with other values."""
        self.count += 1
        many = self.chance.choice((0, 1, 3, 7))
        rows = [{"id": f"{i}", "site": self.chance.choice("ab"), "value": self.count} for i in range(many)]
        self.lab.publish(self.hour if hour is None else hour, rows)

    def one_comes_late(self) -> None:
        if self.late:
            with contextlib.suppress(TidegateError, KeyError, Failed, Unanswered):
                self.late.pop(self.chance.randrange(len(self.late)))()

    def delivers(self) -> None:
        drops = self.drops
        self.lab.deliver()
        self.noticed = max(self.noticed, drops)

    def prepares(self) -> None:
        """A run that ends before its first hour."""
        drops = self.drops
        with self.lab.context() as ctx:
            one = self.lab.pipeline.deliver[0]
            ready.prepare(ctx, one, ctx.sender(one))
        self.noticed = max(self.noticed, drops)

    def overtakes(self) -> None:
        self.publishes()
        self.delivers()

    def verifies(self) -> None:
        drops = self.drops
        self.lab.verify(self.hour, why=self.chance.choice(["", "by chance"]))
        self.noticed = max(self.noticed, drops)

    def compares(self) -> None:
        with self.lab.context() as ctx:
            one = self.lab.pipeline.deliver[0]
            list(deliver.compare(ctx, one, ctx.sender(one)))

    def skips(self) -> None:
        with self.lab.context() as ctx:
            deliver.skip(ctx, self.lab.pipeline.deliver[0], [window(self.hour)], "by chance")

    def forgets(self) -> None:
        """The ledger loses what it knew of deliveries (R11)."""
        with contextlib.closing(sqlite3.connect(self.lab.world.database)) as c, c:
            c.execute("DELETE FROM deliveries WHERE window_ms = ?", (T0 + self.hour * HOUR,))
        self.forgot = True

    def gets_a_column(self) -> None:
        self.count += 1
        more = Column(name=f"x{self.count}", type="string", path="$.id")
        self.lab.world.change_spec(columns=(*self.lab.pipeline.columns, more))

    def of_servers(self) -> None:
        """One restarts, goes on with what it is at, is up again or down."""
        if isinstance(self.server, Cluster):
            one = self.chance.choice(self.server.servers)
            self.chance.choice((one.restart, one.finish_one, one.catch_up, self.server.sleep, self.is_down_or_up))()

    def is_down_or_up(self) -> None:
        for one in self.server.servers:
            one.down = not one.down and self.chance.random() < 0.2

    def gets_other_shards(self) -> None:
        """One is taken out of the connection, with its rows, or put back, with those of then: hours stand again once
        they were compared (docs/clickhouse.md)."""
        if isinstance(self.server, Cluster) and len(self.server.every) > 1:
            self.server.named = 3 - self.server.named
            self.doubted = True

    def is_changed_there(self) -> None:
        """Somebody takes a row away, or changes values, and says so: hours stand again once they were compared (D8)."""
        at = T0 + self.hour * HOUR
        if not isinstance(self.server, Cluster) and self.server.rows.get(at):
            change = self.chance.choice((lambda batch: batch.slice(1), _with_other_values))
            self.server.rows[at] = [change(batch) for batch in self.server.rows[at]]
            self.doubted = True

    def is_compared(self) -> None:
        with contextlib.suppress(TidegateError):
            drops = self.drops
            found = self.lab.verify(*range(HOURS))
            self.noticed = max(self.noticed, drops)
            self.doubted = self.doubted and not {*found} <= {"unchanged", "delivered", "skipped"}

    def is_noticed(self) -> None:
        """A run that begins when no try is under way puts right what the ledger says of a restored database."""
        calm, self.calm, self.restored = self.calm, True, False
        try:
            self.prepares()
        finally:
            self.calm = calm

    def is_dropped(self) -> None:
        """The table there, or what one server, or one shard, has of it; with what was under way to it."""
        if self.chance.random() < 0.5:
            return
        self.late.clear()
        self.drops += 1
        self.server.seen.clear()
        if isinstance(self.server, Cluster):
            every, shards = self.server.servers, self.server.shards
            for one in self.chance.choice([every, *shards, *[[each] for each in every]]):
                one.running.clear()
                one.tables.pop("readings", None)
        else:
            self.server.columns = ()
            for held in (self.server.rows, self.server.tokens, self.server.staged):
                held.clear()

    def is_restored(self) -> None:
        """A database that knows whose try each window is goes back to its backup, or a backup is made."""
        if self.lab.kind is Transactional:
            if self.chance.random() < 0.5:
                self.backup = self.server.backup()
                return
            self.late.clear()
            self.server.restore(self.backup)
            self.restored, self.restores = True, self.restores + 1

    def step(self) -> None:
        often = (self.delivers, self.overtakes) * 4
        steps = (
            *often, self.verifies, self.compares, self.one_comes_late, self.one_comes_late, self.publishes, self.skips,
            self.forgets, self.gets_a_column, self.gets_other_shards, self.is_changed_there, self.is_dropped,
            self.is_restored, *[self.of_servers] * 4,
        )  # fmt: skip
        with contextlib.suppress(TidegateError):
            self.chance.choice(steps)()
        if self.doubted:
            self.is_compared()
        if self.restored:
            self.is_noticed()
        self.is_as_it_says()

    # ------------------------------------------------------------ what must be true

    def is_as_it_says(self) -> None:
        for met in self.server.seen.values():
            assert met == sorted(met), "readers met an older generation after a newer one"
        assert getattr(self.server, "wrong", []) == []
        if self.noticed < self.drops or self.doubted:
            return
        with self.lab.context() as ctx:
            for row in ctx.ledger.deliveries.within("readings", "shop", 0, 2**60):
                if row.state == STANDING:
                    assert self.met(row.window_ms) == self.held(row.window_ms, row.generation)
                    for of in range(getattr(self.lab.kind, "quorum", 0)):
                        assert self.shown(row.window_ms, of) == row.content, f"replica {of} of the quorum does not"

    def shown(self, window_ms: int, of: int = 0) -> Any:
        """By the columns of then, as on ClickHouse, where a column that comes later changes no sum."""
        return self.server.content(window_ms, of)

    def met(self, window_ms: int) -> list[tuple[str, int]]:
        if isinstance(self.server, Cluster):
            return sorted((row["id"].decode(), row["value"]) for row in self.server.shown(window_ms))
        rows = [row for batch in self.server.rows.get(window_ms, ()) for row in batch.to_pylist()]
        return sorted((row["id"], row["value"]) for row in rows)

    def held(self, window_ms: int, generation: int = 0) -> list[tuple[str, int]]:
        """Here; without a generation, that in force."""
        return sorted((row["id"], row["value"]) for row in self.lab.held[(window_ms - T0) // HOUR][generation - 1])

    def time_passes(self) -> None:
        """Replicas catch up."""
        for _ in range(99 if isinstance(self.server, Cluster) else 0):
            self.server.sleep()

    def ends(self) -> None:
        for one in getattr(self.server, "servers", ()):
            one.down = False
        self.calm, self.noticed = True, self.drops
        for _ in range(2):
            self.lab.deliver()
            self.time_passes()
        self.lab.deliver()
        self.is_compared()
        while self.late:
            self.one_comes_late()
        if self.forgot:  # a late try may have a number that the ledger does not know any more
            self.is_compared()
        for _ in range(9 if isinstance(self.server, Cluster) else 0):
            self.server.sleep()
            for one in self.server.servers:
                one.restart()
        self.is_as_it_says()
        states = [state.split()[0] for state in self.lab.states()]
        assert {*states} <= {"STANDING", "SKIPPED"}
        assert self.lab.verify(*range(HOURS)) == [{"STANDING": "unchanged", "SKIPPED": "skipped"}[s] for s in states]
        self.lab.verify(*[hour for hour, state in enumerate(states) if state == "SKIPPED"], why="those, too")
        assert self.lab.deliver() == []
        self.is_as_it_says()
        for key in hours(HOURS):
            assert self.met(key.start_ms) == self.held(key.start_ms)
        if isinstance(self.server, Cluster):
            self.time_passes()
            for of, key in [(of, key) for of in range(min(map(len, self.server.shards))) for key in hours(HOURS)]:
                assert self.shown(key.start_ms, of) == self.shown(key.start_ms), "a replica shows something else"


def _with_other_values(batch: pa.RecordBatch) -> pa.RecordBatch:
    at = batch.schema.get_field_index("value")
    return batch.set_column(at, "value", pc.add(batch.column(at), 1_000).cast(batch.column(at).type))


def lives(folder: Path, kind: type[Any], seed: int) -> None:
    """A whole one. Raises AssertionError."""
    folder.mkdir(exist_ok=True)
    with short(folder, kind, seed) as life:
        for _ in range(STEPS):
            life.step()
        life.ends()


@contextlib.contextmanager
def short(folder: Path, kind: type[Any], seed: int) -> Iterator[ShortLife]:
    life = ShortLife(folder, kind, seed)
    time = life.server.time() if isinstance(life.server, Cluster) else None
    stands = SqlDeliveries.stands

    def told_late(*args: Any) -> Any:
        for _ in range(3):
            life.meanwhile(0.3)
        return stands(*args)

    with contextlib.ExitStack() as stack:
        for module in (table, replicas):
            stack.enter_context(patch.object(module, "time", time))
        stack.enter_context(patch.object(table, "_BODY_BYTES", 1))  # an INSERT for two rows
        stack.enter_context(patch.object(SqlDeliveries, "stands", told_late))
        stack.enter_context(life.lab.planted())
        yield life


@pytest.mark.parametrize("number", range(LIVES))
@pytest.mark.parametrize("kind", KINDS)
def test_an_hour_that_stands_is_there(kind: type[Any], number: int, tmp_path: Path) -> None:
    seed = int(os.environ.get("TIDEGATE_TEST_SEED", "20261128")) + number
    lives(tmp_path, kind, seed)


RULES = {
    "one staging for all tries": Newer,
    "the staging is not checked": Newer,
    "rows are counted only": Newer,
    "several parts are moved": Newer,
    "no fence": Newer,
    "an unsure drop is taken for done": Newer,
    "a source that is gone is enough": Newer,
    "the ledger is asked early": Newer,
    "an empty window by DROP PARTITION": Newer,
    "the target is not read back": InClickHouse,
}
"""The rules D, and where they are missed soonest."""


@pytest.mark.parametrize("bug", RULES)
def test_a_rule_that_is_taken_out_is_missed(bug: str, tmp_path: Path) -> None:
    with contextlib.ExitStack() as planted:
        for each in BUGS[bug][0]():
            planted.enter_context(each)
        is_missed(RULES[bug], tmp_path)


def test_that_somebody_changed_rows_there_is_missed(tmp_path: Path) -> None:
    """D8"""
    with Planted(DELIVERY_BUGS["nothing is compared later"]):
        is_missed(Staged, tmp_path)


def is_missed(kind: type[Any], folder: Path) -> None:
    """A rule that is taken out, by one of many lives."""
    for seed in range(40):
        try:
            lives(folder / str(seed), kind, seed)
        except (AssertionError, Failed, Unanswered, TidegateError):
            return
    pytest.fail("no life has met what the rule is there for")
