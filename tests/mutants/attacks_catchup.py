"""Traces in which one process publishes many hours, and the run that goes on publishes what is left."""

from __future__ import annotations

from tests.mutants.names import FATE, HEALS, OWN, STOPS, WHOLE, require
from tests.mutants.stage import HOUR, T0, Stage, record, refused, window
from tidegate.core.base.errors import CatalogueError, CatchUpStopped
from tidegate.core.publish import catchup as rules
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import WindowKey
from tidegate.workflow.base.context import Context, Published
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import catchup

HOURS, MOST = 8, 3


class _Runs:
    """The archive's runs: hours of `taken` get one of their own before their turn comes; each of `made` stands for an
    hour that is published, each of `left` tries its hour again."""

    def __init__(self, stage: Stage, *taken: int) -> None:
        self._stage, self._taken = stage, {window(hour) for hour in taken}
        self.met: list[WindowKey] = []
        self.made: list[WindowKey] = []
        self.left: list[WindowKey] = []

    def free(self, key: WindowKey) -> bool:
        if key in self._taken:
            self.met.append(key)
        return key not in self._taken

    def published(self, key: WindowKey, certificate: Certificate, published: Published) -> None:
        ctx = self._stage.context()
        current = ctx.ledger.windows.get(ctx.name, key).current
        require(current is not None, WHOLE, f"the run of hour {_hour(key)} has succeeded without a publication")
        require(key not in self._taken, OWN, f"hour {_hour(key)} is published beside a run of its own")
        self.made.append(key)

    def leave(self, key: WindowKey) -> bool:
        self.left.append(key)
        return True

    def yields(self) -> bool:
        return False

    def without_run(self, ctx: Context) -> list[WindowKey]:
        return [key for key in reconcile.due(ctx) if key not in (*self.met, *self.made, *self.left)]


def _hour(key: WindowKey) -> int:
    return (key.start_ms - T0) // HOUR


def _many_hours_wait(stage: Stage) -> None:
    """A row in each second one."""
    stage.produce(*(record(f"r{hour}", hour + 0.5) for hour in range(0, HOURS, 2)))
    for partition in range(2):
        stage.produce(record(f"far {partition}", HOURS + 1.1), partition=partition)
    stage.run("r1")


def _one_run(ctx: Context, runs: _Runs, conf: dict[str, str], most: int = MOST) -> rules.Tally:
    ready = runs.without_run(ctx)
    return catchup.catch_up(ctx, rules.in_turn(ready, rules.asked_part(conf), most), len(ready), runs)


def _catch_up(stage: Stage, runs: _Runs, conf: dict[str, str]) -> None:
    """The task `catch_up` of one maintenance run after another, each triggered by the one before."""
    while True:
        tally = stage.tried(lambda c=conf: _one_run(stage.context(), runs, c), "catch up")
        assert tally is not None
        if not (tally.remain and tally.published):
            return
        conf = rules.conf_of(rules.asked_part(conf))


def hours_are_caught_up_with(stage: Stage) -> None:
    """Hours 4 to 7 are asked for; hour 2 gets a run of its own meanwhile, which publishes it later."""
    _many_hours_wait(stage)
    runs = _Runs(stage, 2)
    _catch_up(stage, runs, {"from": "2013-01-05T04:00Z", "until": "2013-01-05T08:00Z"})
    made = [_hour(key) for key in runs.made]
    require(sorted(made) == [0, 1, 3, 4, 5, 6, 7], HEALS, f"no run goes on after hours {made}")
    require(made[:4] == [4, 5, 6, 7], FATE, f"hours 4 to 7 were asked for; they were published as {made}")
    stage.archive(2)
    stage.at_rest()


def hive_goes_down_while_hours_are_caught_up_with(stage: Stage) -> None:
    """No hour is to blame: none gets a run of its own, which would only fail; the next try finds them all."""
    _many_hours_wait(stage)
    runs = _Runs(stage)

    def down(*_: object) -> None:
        if len(runs.made) == 2:
            raise CatalogueError("no connection")

    ctx = stage.hooked("catalogue", before={"add_partitions": down, "ensure_table": down, "examine": down})
    stopped = refused(lambda: _one_run(ctx, runs, {}, HOURS), CatchUpStopped)
    _catch_up(stage, runs, {})
    require(runs.left == [], HEALS, f"hours {[_hour(key) for key in runs.left]} were left to runs that fail")
    require(len(runs.made) == HOURS, STOPS, f"{len(runs.made)} hours are published; it ended with {stopped}")
    stage.at_rest()
