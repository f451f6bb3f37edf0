"""Random lives of a whole pipeline with two sites: tasks of every kind cut into each other, die there and lose
replies, while the active site changes. What must be true at the end is compared with the producers' own log."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.deliver.lab import SHOP, Direct, Server, Staged, Transactional
from tests.dirty import redrives
from tests.failover.sites import NAMES, Copier, TwoSites
from tests.failover.test_lives import WELL
from tests.fuzz import lives
from tests.fuzz.lives import CHANGING
from tests.mutants import invariants
from tests.mutants.names import ONCE, require
from tests.mutants.stage import Stage, window
from tests.world import HOUR, T0, TOPIC
from tidegate.core.base.errors import FailoverRefused, ReplayRefused, StepMissing, TidegateError
from tidegate.core.deliver.columns import table_of
from tidegate.core.failover.crossing import RefusalKind
from tidegate.core.source import behind
from tidegate.core.spec.pipeline import Delivery
from tidegate.core.window.states import WindowKey
from tidegate.workflow.base.context import Context
from tidegate.workflow.deliver import deliver, ready
from tidegate.workflow.failover import switch
from tidegate.workflow.replay import rollback

SWITCHES = {"failovers": {"switch", "note_ends"}, "deliveries": {"take", "stands", "failed", "refuse", "again"}}
REFUSED = {
    "replay": ReplayRefused, "rolls back": (ReplayRefused, StepMissing), "note": FailoverRefused,
    "switch": FailoverRefused,
}  # fmt: skip
"""Tasks that a person asks for, and how they may end: what was asked for cannot be had."""


class Sites(TwoSites, Stage):
    """`ids`: of all records that producers wrote, each with the site."""

    def __init__(self, folder: Path, kind: type[Any]) -> None:
        super().__init__(folder)
        self.ids: dict[str, str] = {}
        self.server, self._kind = Server(), kind
        self.change_spec(deliver=(SHOP,))
        self.sender = self._sender

    def _sender(self, delivery: Delivery) -> Direct:
        table = table_of(self.pipeline, delivery)
        return Direct(self._kind(self.server, table), table)

    def context(self) -> Context:
        ctx = super().context()
        assert self.launcher is not None
        self.launcher.kafka = self.kafka
        return ctx

    def produce(self, *records: dict[str, Any] | bytes, partition: int = 0) -> None:
        """To the active site, as that is where producers are."""
        self.context()
        site = next(name for name, kafka in self.at.items() if kafka is self.kafka)
        for one in records:
            name = f"x{len(self.ids)}" if isinstance(one, bytes) else one["id"]
            value = b"not json " + name.encode() if isinstance(one, bytes) else json.dumps(one).encode()
            self.kafka.append(TOPIC, partition, value)
            self.ids[name] = site

    def places(self) -> Iterator[tuple[str, str]]:
        """(id, place) of each row that readers see, or that waits for its window; without copies that came late."""
        for kind in ("", "__late", "__dirty"):
            for location in self.partitions(f"lake.readings{kind}").values():
                for path in invariants._visible(location):
                    yield from _rows(path, f"readings{kind}")
        ctx = self.context()
        for batch in invariants.batches(ctx):
            if batch.state == "LANDED":
                for batch_id, f in invariants._waiting(ctx, batch):
                    yield from _rows(Path(f"{ctx.layout.landed(batch_id)}/{f.path}".removeprefix("file://")), "waits")

    def each_record_once(self) -> None:
        found = defaultdict(list)
        for name, place in self.places():
            found[name].append(place)
        double = {name: where for name, where in found.items() if len(where) > 1}
        require(not double, ONCE, f"more than once: {double}")
        missing = {name: site for name, site in self.ids.items() if name not in found}
        dropped = self.context().ledger.reads.survey(["readings"], 0)["readings"].totals.balance.dropped
        require(len(missing) == dropped, ONCE, f"{dropped} dropped, nowhere: {missing}")


def _rows(path: Path, place: str) -> Iterator[tuple[str, str]]:
    for row in pq.ParquetFile(path).read().to_pylist():
        if "raw_value" not in row:
            yield row["id"], place
        elif row["reason"] != behind.REASON:
            raw = row["raw_value"]
            yield raw.split()[-1].decode() if raw.startswith(b"not") else json.loads(raw)["id"], place


class Life(lives.Life):
    """`tests.fuzz.lives`, with a second site and a further system."""

    changing = CHANGING | SWITCHES

    def __init__(self, folder: Path, seed: int) -> None:
        self._number, self._copier, self._stray = 0, None, None
        self._began: dict[int, int] = {}  # where the copier that strays began
        self._began_last: dict[int, int] = {}
        super().__init__(folder, seed)
        self._copier = self.stage.there

    def _make(self, folder: Path) -> Any:
        return Sites(folder, self._rng.choice((Staged, Transactional)))

    # ------------------------------------------------------------ steps

    def _ahead(self) -> float:
        """No record is of a time that is still to come: each hour up to then would be published, and be empty."""
        return self._hour

    def _happen(self) -> None:
        super()._happen()
        if self._rng.random() < 0.3:
            self._names += 1
            self.stage.produce(redrives.odd(f"n{self._names}", max(0.0, self._hour - 0.2)), partition=0)

    def _copies(self) -> None:
        self._run(self._copier, self._starts(), 6)

    def _starts(self) -> dict[int, int]:
        newest = self.stage.context().ledger.unwrapped.failovers.newest("readings")
        return {} if newest is None else {c.partition: c.mark for c in newest.certificate.crossings}

    def _strays(self) -> None:
        """To the active site: somebody has started the copier again."""
        self._run(self._stray, self._began, 3)

    def _run(self, copier: Copier | None, starts: dict[int, int], most: int) -> None:
        if copier is None:
            return
        if self._rng.random() < 0.2:  # it begins again
            p = self._rng.randint(0, 1)
            copier.at[p] = self._rng.randint(starts.get(p, 0), copier.at.get(p, starts.get(p, 0)))
        copier.run(self._rng.randint(1, most), transactions=self._rng.random() < 0.3)

    def _sync(self) -> None:
        """Whether a try that has died has switched the ledger knows."""
        newest = self.stage.context().ledger.unwrapped.failovers.newest("readings")
        if newest is not None and newest.number > self._number:
            self._number, self._stray, self._copier = newest.number, self._copier or self._stray, None
            self._began = {} if newest.number == 1 else self._began_last
            self._began_last = {c.partition: c.mark for c in newest.certificate.crossings}
            self.told.append(f"site {newest.site} is active")

    @property
    def _there(self) -> str:
        newest = self.stage.context().ledger.unwrapped.failovers.newest("readings")
        return NAMES[1] if newest is None else newest.before

    def _notes(self) -> None:
        """The site that was left has returned; then a copier begins, from the marks on."""
        ctx, here = self.stage.context(), self._there
        newest = ctx.ledger.unwrapped.failovers.newest("readings")
        if newest is None or self._copier is not None:
            return
        if not ctx.ledger.unwrapped.failovers.noted("readings", newest.number, here):
            switch.note(ctx, here, switch.ends_of(ctx, here), newest.number)
        self._copier = Copier(self.stage.at[newest.site], self.stage.at[here], starts=self._starts())

    def _switches(self) -> bool:
        if self._copier is None:
            return False
        decision = self.stage.survey(self._there)
        if decision.refusals:
            require({r.kind for r in decision.refusals} <= WELL | {RefusalKind.MARK}, ONCE, str(decision.refusals))
            return False
        switch.apply(self.stage.context(), decision, "by chance")
        return True

    def _delivers(self, *hours: int) -> list[str]:
        ctx = self.stage.context()
        sender = ctx.sender(SHOP)
        ready.prepare(ctx, SHOP, sender)
        windows = [window(h) for h in hours]
        found = deliver.verify(ctx, SHOP, sender, windows) if hours else deliver.deliver(ctx, SHOP, sender)
        return [one.what for one in found]

    def _tasks(self, run: str, key: WindowKey) -> list[tuple[str, Callable[[], object], int]]:
        return [
            *super()._tasks(run, key),
            ("copies", self._copies, 6),
            ("strays", self._strays, 4),
            ("note", self._notes, 5),
            ("switch", self._switches, 8),
            ("deliver", self._delivers, 3),
            ("rolls back", lambda: rollback.rollback(self.stage.context(), key, 1, "by chance"), 1),
        ]

    def _task(self) -> None:
        self._sync()
        super()._task()
        self._sync()

    def _asks(self, name: str, e: TidegateError) -> None:
        if not isinstance(e, REFUSED.get(name.partition(" ")[0], REFUSED.get(name, ()))):
            super()._asks(name, e)

    # ------------------------------------------------------------ the end

    def _rest(self) -> None:
        """Both sites become active once more, so that what never crossed is read."""
        stage = self.stage
        for n in range(2):
            stage.settle()
            stage.tried(lambda n=n: self._redrives(f"end {n}"), "redrive")  # type: ignore[misc]
            self._sync()
            self._notes()
            assert self._copier is not None
            self._copier.run()
            require(self._switches(), ONCE, "no switch back")
            self._sync()
        invariants.what_is_sealed_is_there(stage)
        stage.settle()
        invariants.nothing_is_blocked(stage)
        invariants.what_is_sealed_is_there(stage)
        stage.each_record_once()
        invariants.readers_see_what_is_in_force(stage)
        invariants.the_ledger_balances(stage)
        self._is_delivered()
        stage.close()

    def _is_delivered(self) -> None:
        self._delivers()
        ctx = self.stage.context()
        for start in ctx.ledger.windows.published_starts("readings"):
            there = self.stage.server.ids(start)
            generation = invariants.in_force(ctx, start)
            rows = [
                _rows(Path(f"{generation.location}/{f.path}".removeprefix("file://")), "") for f in generation.files
            ]
            home = sorted(name for file in rows for name, _ in file)
            require(there == home, ONCE, f"{(start - T0) / HOUR}: {there} there, {home} here")
