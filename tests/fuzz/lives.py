"""Random lives of a pipeline: tasks cut into each other at port calls, die there, lose replies, are executed late.

A life is a function of its seed. At its end everything that must be true is asserted (tests/mutants/invariants.py).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crash.faults import UNKNOWN
from tests.hooks import Died
from tests.mutants.names import HEALS, InvariantViolated, require
from tests.mutants.stage import HOUR, T0, Stage, record, window
from tidegate.core.base.errors import CatalogueError, NotReady, PathExists, PathMissing, TidegateError
from tidegate.core.spec.pipeline import Column
from tidegate.core.window.lateness import POLICIES
from tidegate.core.window.states import WindowKey
from tidegate.workflow.base.context import REQUEST_TTL_MS
from tidegate.workflow.batch import ingest
from tidegate.workflow.clean import duties
from tidegate.workflow.dirty import redrive
from tidegate.workflow.late import reopen
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay

DEPTH = 2
CHANGING = {
    "storage": {"make_dirs", "rename_no_replace", "delete", "write_new"},
    "catalogue": {"ensure_table", "evolve_table", "add_partitions", "set_location", "drop_partitions"},
    "batches": {"insert_plan", "bind", "take", "seal", "adopt", "land", "mark_side"},
    "redrives": {"cleared"},
    "reopenings": {"cleared"},
    "windows": {
        "save_certificate", "begin_close", "finish_close", "begin_generation", "take", "built", "discard",
        "begin_swap", "publish", "announced", "declare_intent", "answer_intent",
    },
}  # fmt: skip
LATE = {("storage", "rename_no_replace"), ("catalogue", "add_partitions"), ("catalogue", "set_location")}


class Life:
    """`told` is what happened, for people; `of` names the seed that does it again."""

    changing = CHANGING

    def __init__(self, folder: Path, seed: int) -> None:
        self.of, self._rng = seed, random.Random(seed)
        self.stage = self._make(folder)
        self.stage.wrap = self._wrap
        self.told: list[str] = []
        self._depth, self._wild = 0, True
        self._flying: list[tuple[str, Callable[[], object]]] = []
        self._hour, self._runs, self._names = 0.0, 0, 0

    def _make(self, folder: Path) -> Stage:
        return Stage(folder)

    def live(self, steps: int) -> None:
        """Raises InvariantViolated, with the way there."""
        try:
            if self._rng.random() < 0.7:
                self._past()
            self._happen()
            for _ in range(steps):
                self._step()
            self._wild = False
            self._land_all()
            self.stage.clock.advance(REQUEST_TTL_MS + 1)
            self._rest()
        except InvariantViolated as e:
            way = "\n  ".join(self.told[-60:])
            raise InvariantViolated(e.name, f"{e.detail}\nlife {self.of}:\n  {way}") from e

    def _rest(self) -> None:
        self.stage.at_rest()

    # ------------------------------------------------------------ steps

    def _past(self) -> None:
        """Some hours are published already, so that rows come late from the beginning."""
        self._hour = self._rng.choice((2.6, 3.6))
        for hour in (0.1, 1.1, 2.1, self._hour):
            self._names += 2
            self.stage.produce(record(f"n{self._names - 1}", hour), partition=0)
            self.stage.produce(record(f"n{self._names}", hour, "b"), partition=1)
        self.stage.settle()
        self.stage.change_spec(late_policy=self._rng.choice(POLICIES))
        self.told.append(f"published up to {self._hour - 1:.0f} h; late rows: {self.stage.pipeline.late_policy}")

    def _step(self) -> None:
        kind = self._rng.choices(("records", "task", "time", "columns", "swap", "policy"), (3, 14, 2, 1, 1, 1))[0]
        if kind == "records":
            self._happen()
        elif kind == "time":
            self._land_all()  # no request outlives its deadline
            self.stage.clock.advance(self._rng.choice((REQUEST_TTL_MS + 1, HOUR, 40 * 24 * HOUR)))
            self.told.append("time passes")
        elif kind == "columns":
            id_, site, *_ = self.stage.pipeline.columns
            value = Column(name="value", type="int", path=self._rng.choice(("$.value", "$.other")))
            extra = (Column(name="extra", type="int", path="$.other"),) if self._rng.random() < 0.5 else ()
            self.stage.change_spec(columns=(id_, site, value, *extra))
            self.told.append(f"columns: value from {value.path}, {len(extra)} more")
        elif kind == "swap":
            self._swap()
        elif kind == "policy":
            self.stage.change_spec(late_policy=self._rng.choice(POLICIES))
            self.told.append(f"late rows: {self.stage.pipeline.late_policy}")
        else:
            self._task()

    def _swap(self) -> None:
        from dataclasses import replace

        swap = self._rng.choice(("pointer", "directory"))
        self.stage.change_spec(archive=replace(self.stage.pipeline.archive, swap=swap, keep_generations=1))
        self.told.append(f"swap: {swap}")

    def _happen(self) -> None:
        self._hour += self._rng.choice((0.2, 0.7, 1.5))
        for partition in (0, 1):
            for _ in range(self._rng.randint(0, 2)):
                back = self._rng.choice((0, 0, 0.3, 0.8, 2.5))
                self._names += 1
                name, site = f"n{self._names}", self._rng.choice("ab")
                self.stage.produce(record(name, max(0.0, self._hour - back), site), partition=partition)
            if self._rng.random() < 0.1:
                self.stage.produce(b"not json", partition=partition)
            if self._rng.random() < 0.2:  # dirty until the clock of a redrive's plan is later
                self._names += 1
                self.stage.produce(record(f"n{self._names}", self._ahead()), partition=partition)
        self.told.append(f"records up to {self._hour:.1f} h")

    def _ahead(self) -> float:
        """Hours from T0 to what is still to come."""
        return (self.stage.clock.now_ms() - T0) / HOUR + self._rng.choice((0.2, 2.0))

    def _task(self) -> None:
        """One try of a random task, in a process of its own."""
        name, task = self._choose()
        self.told.append(f"{'  ' * self._depth}{name} {{")
        self._depth += 1
        end = "done"
        try:
            task()
        except Died:
            end = "died"
        except NotReady:
            end = "not ready"
        except TidegateError as e:
            end = f"{type(e).__name__}: {str(e).splitlines()[0]}"
            self._asks(name, e)
        finally:
            self._depth -= 1
            self.told.append(f"{'  ' * self._depth}}} {end}")

    def _asks(self, name: str, e: TidegateError) -> None:
        require(e.retry, HEALS, f"{name} asks for a human: {e}")

    def _choose(self) -> tuple[str, Callable[[], object]]:
        rng = self._rng
        if self._runs == 0 or rng.random() < 0.25:
            self._runs += 1
        run = f"r{rng.randint(max(1, self._runs - 1), self._runs)}"
        key = window(rng.randint(0, max(0, int(self._hour) - 1)))
        tasks = self._tasks(run, key)
        name, task, _ = rng.choices(tasks, [weight for *_, weight in tasks])[0]
        return name, task

    def _tasks(self, run: str, key: WindowKey) -> list[tuple[str, Callable[[], object], int]]:
        """Each with how often it is chosen."""
        stage, hour = self.stage, (key.start_ms // HOUR) % 24
        return [
            (f"plan {run}", lambda: ingest.plan(stage.context(), run), 4),
            (f"write {run}", lambda: ingest.write(stage.context(), run), 4),
            (f"land {run}", lambda: self._lands(run), 4),
            (f"ready {hour}", lambda: archive.ready(stage.context(), key), 1),
            (f"publish {hour}", lambda: archive.publish(stage.context(), key), 5),
            (f"replay {hour}", lambda: replay.replay(stage.context(), key), 2),
            (f"redrive {run}", lambda: self._redrives(f"d{run}"), 2),
            (f"reopen {hour}", lambda: reopen.reopen(stage.context(), key, "a test", over_budget=True), 3),
            ("maintain", lambda: reconcile.maintain(stage.context(), None, lambda windows: set()), 1),
            ("clean", lambda: duties.clean(stage.context()), 2),
        ]

    def _redrives(self, run: str) -> object:
        if redrive.plan(self.stage.context(), run) is None:
            return None
        return redrive.carry_out(self.stage.context(), run)

    def _lands(self, run: str) -> object:
        """Airflow runs it once its write task has ended well."""
        ctx = self.stage.context()
        batch_id = ctx.ledger.batches.bound(ctx.name, run)
        if batch_id is None or ctx.ledger.batches.get(ctx.name, batch_id).state in ("PLANNED", "WRITING"):
            return None
        return ingest.land(ctx, run)

    # ------------------------------------------------------------ ports

    def _wrap(self, name: str, port: Any) -> Any:
        return _Port(self, name, port)

    def call(self, port: str, method: str, real: Callable[[], Any]) -> Any:
        if not self._wild or not 0 < self._depth <= DEPTH:
            return real()
        chance, changing = self._rng.random(), method in self.changing.get(port, ())
        if self._flying and chance > 0.93:
            self._land_one()
        if chance < 0.02 and self._depth < DEPTH:
            self._task()
        elif chance < 0.025:
            self._tell("dies before", port, method)
            raise Died
        elif changing and chance < 0.06:
            return self._unsure(port, method, real, chance)
        result = real()
        if 0.06 <= chance < 0.08 and self._depth < DEPTH:
            self._task()
        elif 0.08 <= chance < 0.085:
            self._tell("dies after", port, method)
            raise Died
        return result

    def _unsure(self, port: str, method: str, real: Callable[[], Any], chance: float) -> Any:
        error = UNKNOWN[port](f"{port}.{method}: no reply")
        if chance < 0.035:
            self._tell("not executed", port, method)
        elif chance < 0.045 and (port, method) in LATE:
            self._tell("executed later", port, method)
            self._flying.append((f"{port}.{method}", real))
        else:
            self._tell("reply lost", port, method)
            real()
        raise error

    def _tell(self, what: str, port: str, method: str) -> None:
        self.told.append(f"{'  ' * self._depth}{what}: {port}.{method}")

    def _land_one(self) -> None:
        name, real = self._flying.pop(self._rng.randrange(len(self._flying)))
        self.told.append(f"{'  ' * self._depth}arrives: {name}")
        try:
            real()
        except (PathExists, PathMissing, CatalogueError):
            pass

    def _land_all(self) -> None:
        while self._flying:
            self._land_one()


class _Port:
    def __init__(self, life: Life, name: str, port: Any) -> None:
        self._life, self._name, self._port = life, name, port

    def __getattr__(self, method: str) -> Any:
        real = getattr(self._port, method)
        if not callable(real):
            return real

        def called(*args: Any, **options: Any) -> Any:
            return self._life.call(self._name, method, lambda: real(*args, **options))

        return called
