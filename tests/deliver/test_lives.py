"""Random lives of a delivery: late rows, replays, rollbacks, new columns, dropped tables, databases that are restored
from backups, forgotten commits, cleaning, and tries whose calls are lost or come late, in any order. In the end each
hour stands there as it does at home, and readers never met an older generation after a newer one. The run's
seed repeats them."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.deliver.cluster_lab import ClusterLab
from tests.deliver.iceberg_lab import IcebergLab
from tests.deliver.lab import Lab, Staged, Transactional
from tests.world import HOUR, T0, record, window
from tidegate.core.base.errors import CatalogueUnsure, DeliveryUnsure, OutcomeUnknown, TidegateError
from tidegate.core.spec.pipeline import Column
from tidegate.core.target.paths import join
from tidegate.workflow.base.context import REQUEST_TTL_MS
from tidegate.workflow.clean import duties
from tidegate.workflow.deliver import deliver
from tidegate.workflow.late import reopen
from tidegate.workflow.replay import rollback

LIVES = int(os.environ.get("TIDEGATE_DELIVERY_LIVES", "2"))
STEPS, HOURS, MINUTE, DAY = 40, 2, 60_000, 86_400_000
UNSURE = {
    "catalogue": CatalogueUnsure, "iceberg": CatalogueUnsure, "switch": CatalogueUnsure, "storage": OutcomeUnknown,
}  # fmt: skip
CHANGES = {
    "catalogue": {"add_partitions", "set_location", "drop_partitions"}, "iceberg": {"commit", "create"},
    "switch": set(), "storage": {"write_new", "rename_no_replace", "delete"},
}  # fmt: skip


class Flaky:
    """A port of the other cluster whose changes are lost, or whose answers are; those of Hive may come late."""

    def __init__(self, life: Life, name: str, port: Any) -> None:
        self._life, self._name, self._port = life, name, port

    def __getattr__(self, method: str) -> Any:
        real = getattr(self._port, method)
        if method not in CHANGES[self._name] or self._life.calm:
            return real

        def call(*given: Any, **named: Any) -> Any:
            fate = self._life.fate(late=self._name == "catalogue")
            self._life.meanwhile()
            if fate == "late":
                self._life.late.append(lambda: real(*given, **named))
            if fate in ("", "reply"):
                found = real(*given, **named)
            if fate:
                raise UNSURE[self._name](f"{self._name}.{method}: no answer")
            return found

        return call


class Life:
    def __init__(self, folder: Path, kind: Any, seed: int) -> None:
        self.chance, self.calm, self.late, self.count = random.Random(seed), True, list[Callable[[], Any]](), 0
        self.busy = False
        self.on_server = not issubclass(kind, ClusterLab)
        if self.on_server:
            self.lab = Lab(folder, kind)
            self.backup = self.lab.server.backup()
            self.lab.server.around = self.around
        else:
            self.lab = kind(folder, wrap_far=lambda name, port: Flaky(self, name, port))
        self.lab.hours(HOURS)
        self.calm = False

    def fate(self, late: int) -> str:
        return self.chance.choice([*[""] * 8, "request", "reply", *["late"] * late])

    def around(self, name: str, do: Callable[[], None]) -> None:
        """The change that readers meet is late more often than others: its client stood still behind D5, say."""
        fate = "" if self.calm else self.fate(late=6 if name == "replace" else 1)
        if fate == "late":
            self.late.append(do)
        self.meanwhile()
        if fate in ("", "reply"):
            do()
            if name == "replace" and not self.calm and self.chance.random() < 0.7:
                self.come_late()  # behind what has overtaken it
        if fate:
            raise DeliveryUnsure(f"{name}: no answer")

    def meanwhile(self) -> None:
        """What others do in the middle of a try."""
        if self.calm or self.busy or self.chance.random() > 0.4:
            return
        self.busy = True
        with contextlib.suppress(TidegateError):
            self.chance.choice(
                (self.one_comes_late, self.one_comes_late, self.replays, self.delivers, self.overtakes)
            )()
        self.busy = False

    # ------------------------------------------------------------ steps

    @property
    def hour(self) -> int:
        return self.chance.randrange(HOURS)

    def come_late(self) -> None:
        """Requests whose answers nobody waits for any more."""
        while self.late:
            self.one_comes_late()

    def one_comes_late(self) -> None:
        if self.late:
            with contextlib.suppress(TidegateError, KeyError):
                self.late.pop(self.chance.randrange(len(self.late)))()

    def rows_come_late(self) -> None:
        self.count += 1
        self.lab.world.produce(record(f"late-{self.count}", self.hour + 0.2))
        self.lab.world.ingest(f"late-{self.count}")

    def reopens(self) -> None:
        with self.lab.context() as ctx:
            reopen.reopen(ctx, window(self.hour))

    def replays(self) -> None:
        self.count += 1
        more = Column(name=f"x{self.count}", type="string", path="$.id")
        self.lab.world.change_spec(columns=(*self.lab.pipeline.columns, more))
        self.lab.world.replay(self.hour)

    def empties(self) -> None:
        """Another generation of the hour has no rows; or it has them again."""
        self.lab.world.change_spec(where="" if self.lab.pipeline.where else "value > 1")
        self.lab.world.replay(self.hour)

    def rolls_back(self) -> None:
        at = window(self.hour)
        with self.lab.context() as ctx:
            current = ctx.ledger.windows.get("readings", at).current or 1
            rollback.rollback(ctx, at, self.chance.randint(1, current), "by chance")

    def delivers(self) -> None:
        self.lab.deliver()

    def overtakes(self) -> None:
        """A newer generation is sent while requests of older tries may still come."""
        self.replays()
        self.delivers()

    def verifies(self) -> None:
        self.lab.verify(self.hour, why=self.chance.choice(["", "by chance"]))

    def skips(self) -> None:
        with self.lab.context() as ctx:
            deliver.skip(ctx, self.lab.pipeline.deliver[0], [window(self.hour)], "by chance")

    def cleans(self) -> None:
        self.waits(2 * DAY)
        with self.lab.context() as ctx:
            duties.clean(ctx)

    def waits(self, ms: int = 0) -> None:
        """No request lives longer than its time."""
        ms = ms or self.chance.randint(1, 15) * MINUTE
        if ms >= REQUEST_TTL_MS // 2:
            self.come_late()
        self.lab.world.clock.advance(ms)

    def forgets(self) -> None:
        """The ledger loses what it knew of deliveries (R11)."""
        with contextlib.closing(sqlite3.connect(self.lab.world.database)) as c, c:
            c.execute("DELETE FROM deliveries WHERE window_ms = ?", (T0 + self.hour * HOUR,))

    def is_dropped(self) -> None:
        """The table there, with what was under way to it. Seldom: a new one shows nothing older than a newer one."""
        if self.on_server and self.chance.random() < 0.2:
            self.late.clear()
            self.lab.servers["shop"] = type(self.lab.server)(around=self.around)

    def is_restored(self) -> None:
        """A database that knows whose try each hour is goes back to its backup, or a backup is made."""
        if self.on_server and self.lab.kind is Transactional:
            if self.chance.random() < 0.5:
                self.backup = self.lab.server.backup()
                return
            self.late.clear()
            self.lab.server.restore(self.backup)

    def step(self) -> None:
        often = (self.delivers, self.overtakes) * 4
        steps = (
            *often, self.verifies, self.one_comes_late, self.rows_come_late, self.reopens, self.replays,
            self.empties, self.rolls_back, self.skips, self.cleans, self.waits, self.forgets, self.is_dropped,
            self.is_restored,
        )  # fmt: skip
        with contextlib.suppress(TidegateError):
            self.chance.choice(steps)()
        self.lab.world.close()

    # ------------------------------------------------------------ what must be true

    def ends(self) -> None:
        self.calm = True
        if not self.on_server:
            self.come_late()
        for _ in range(3):
            self.lab.world.clock.advance(REQUEST_TTL_MS + 1)
            self.lab.deliver()
        self.come_late()
        for hour, state in enumerate(self.lab.states()):
            assert state.split()[0] in ("STANDING", "SKIPPED")
            if "STANDING" in state:
                assert (self.there(hour), self.lab.verify(hour)) == (self.home(hour), ["unchanged"])
            else:
                assert self.lab.verify(hour, why="what was left out, too") == ["delivered"]
        assert self.lab.deliver() == []
        assert self.lab.verify(*range(HOURS)) == ["unchanged"] * HOURS
        for hour in range(HOURS):
            assert self.there(hour) == self.home(hour)
        for met in self.met():
            assert met == sorted(met)

    def home(self, hour: int) -> list[str]:
        with self.lab.context() as ctx:
            current = ctx.ledger.windows.get("readings", window(hour)).current
            found = ctx.ledger.windows.generation("readings", window(hour), current)
        files = [self.lab.world.store.open_existing(join(found.location, f.path)) for f in found.files]
        return sorted(row for f in files for row in pq.ParquetFile(f).read()["id"].to_pylist())

    def there(self, hour: int) -> list[str]:
        if isinstance(self.lab, ClusterLab):
            return self.lab.ids(hour)
        return self.lab.server.ids(T0 + hour * HOUR)

    def met(self) -> list[list[Any]]:
        """Generations in the order in which readers could meet them."""
        if self.on_server:
            return list(self.lab.server.seen.values())
        return [] if isinstance(self.lab, IcebergLab) else list(self.lab.orders().values())  # type: ignore[attr-defined]


@pytest.mark.parametrize("number", range(LIVES))
@pytest.mark.parametrize("kind", [Transactional, Staged, ClusterLab, IcebergLab])
def test_each_hour_stands_there_as_at_home_after_any_life(kind: Any, number: int, tmp_path: Path) -> None:
    seed = int(os.environ.get("TIDEGATE_TEST_SEED", "20261128")) + number
    life = Life(tmp_path, kind, seed)
    for _ in range(STEPS):
        life.step()
    life.ends()
