"""Wrong rules, planted in the core one by one: the simulation must find each, by the name of what it violates.

    python -m tests.simulation --planted

Each is tried in a process of its own (`tests.mutants.planting`), life after life of one seed, until a life goes wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests.mutants.planting import ROOT, Bug, Edit, plant

MOST_LIVES = 60
WATERMARK = "plugins/tidegate/core/watermark.py"
PLANNING = "plugins/tidegate/core/planning.py"
LATENESS = "plugins/tidegate/core/lateness.py"
LAYOUT = "plugins/tidegate/core/layout.py"
BATCH = "plugins/tidegate/core/batch.py"
COURSE = "tests/simulation/course.py"


def _bug(name: str, violates: str, *edits: tuple[str, str, str]) -> Bug:
    """`violates`: by the names of the oracle; of several with ` | ` between, whichever comes first."""
    return Bug(name, "event time", "the simulation", violates, tuple(Edit(*e) for e in edits))


_EARLY, _DELAYED = "no window is published before its time", "none later than one batch after it could have been"
_LEFT = "a topic that has ended leaves no window behind that its policy closes"
_SAME, _ONCE = "decisions are identical on re-run", "every record is in exactly one place"

_BUGS = (
    _bug(
        "a partition without records is ignored",
        _EARLY,
        (
            WATERMARK,
            "if m.watermark_ms is None or m.watermark_ms < window.end_ms)",
            "if m.watermark_ms is not None and m.watermark_ms < window.end_ms)",
        ),
    ),
    _bug(
        "the delay is forgotten",
        _EARLY,
        (WATERMARK, "    return at - windows.watermark_delay_ms\n", "    return at\n"),
    ),
    _bug(
        "a fast clock moves the watermark ahead of time",
        _EARLY,
        (
            WATERMARK,
            "at = p.max_event_ms if p.advanced_ms is None else min(p.max_event_ms, p.advanced_ms)",
            "at = p.max_event_ms",
        ),
    ),
    _bug(
        "rows from the future move the watermark",
        _EARLY,
        (COURSE, "{r.range.partition: r.max_event_ms for", "{r.range.partition: self.world.now for"),
    ),
    _bug(
        "drained but for an open transaction is drained",
        _EARLY,
        (
            BATCH,
            "return self.end == self.last_stable_offset == self.high_watermark",
            "return self.end == self.last_stable_offset",
        ),
    ),
    _bug(
        "the others stand in for a partition with a backlog",
        _EARLY,
        (WATERMARK, "if p.drained and stand_in is not None and (own", "if stand_in is not None and (own"),
    ),
    _bug(
        "a partition's own progress stands in for itself",
        _EARLY,
        (WATERMARK, "at = self.second_ms if p.partition == self.first else self.newest_ms", "at = self.newest_ms"),
    ),
    _bug(
        "an empty batch counts as progress",
        f"{_EARLY} | {_DELAYED}",
        (PLANNING, "plan.clock_ms if p.end > p.start else old.advanced_ms", "plan.clock_ms"),
    ),
    _bug(
        "silence is counted by the wrong clock",
        _EARLY,
        (
            WATERMARK,
            "self.plan_ms - self.newest_ms >= windows.topic_silence_ms",
            "(self.now_ms or self.plan_ms) - self.newest_ms >= windows.topic_silence_ms",
        ),
    ),
    _bug(
        "the clock stands in for a producer that catches up",
        _EARLY,
        (WATERMARK, "        if self._behind(p):\n", "        if False:\n"),
    ),
    _bug(
        "the clock stands in for a load of old data",
        _EARLY,
        (WATERMARK, "        if self.lags:\n", "        if False:\n"),
    ),
    _bug(
        "a window is ready when its watermark has begun it",
        _EARLY,
        (WATERMARK, "m.watermark_ms < window.end_ms)", "m.watermark_ms < window.start_ms)"),
    ),
    _bug(
        "a close does not wait for the open batch",
        _EARLY,
        (
            COURSE,
            "if ledger.open is not None and ledger.open.batch_id < ledger.closing[start]:",
            "if False:",
        ),
    ),
    _bug(
        "no empty batch is planned",
        _DELAYED,
        (PLANNING, "    if _moves_watermark(pipeline, view.facts, plan) or _meets", "    if _meets"),
    ),
    _bug(
        "an empty batch waits for a whole window",
        _DELAYED,
        (
            PLANNING,
            "or (old is not None and new <= old)",
            "or (old is not None and new <= old + pipeline.windows.size_ms)",
        ),
    ),
    _bug(
        "what earlier batches have seen is forgotten",
        _DELAYED,
        (PLANNING, "(old.max_event_ms, max_event_ms.get(p.partition))", "(max_event_ms.get(p.partition),)"),
    ),
    _bug(
        "only half of what is new is read",
        _DELAYED,
        (PLANNING, "starts[p] + take.get(p, 0)", "starts[p] + (take.get(p, 0) + 1) // 2"),
    ),
    _bug(
        "a batch reads past the last stable offset",
        _EARLY,
        (PLANNING, "backlog = {p: o.last_stable_offset - starts[p]", "backlog = {p: o.high_watermark - starts[p]"),
    ),
    _bug(
        "a new partition is read from its end on",
        _ONCE,
        (PLANNING, "first_offsets.get(p, 0)", "first_offsets.get(p, offsets.last_stable_offset)"),
    ),
    _bug(
        "a loss is not recorded",
        _ONCE,
        (PLANNING, "            losses.append(loss)\n", ""),
    ),
    _bug(
        "the floor forgets what was closed out of order",
        _ONCE,
        (LATENESS, "tuple(c for c in closed if c.end > low)", "closed[:1]"),
    ),
    _bug(
        "the floor is the highest window that has closed",
        _ONCE,
        (
            LATENESS,
            "    closed = union(Interval(s, window_end(s, windows)) for s in not_open)\n",
            "    closed = union(Interval(s, window_end(s, windows)) for s in not_open)\n"
            "    low = max([low, *(c.end for c in closed)])\n",
        ),
    ),
    _bug(
        "late rows are rerouted to where the floor begins",
        _ONCE,
        (LATENESS, "reroute_ms=floor.oldest_open(windows) if", "reroute_ms=window_start(floor.low_ms, windows) if"),
    ),
    _bug(
        "the floor is not pinned",
        _SAME,
        (
            COURSE,
            "        receipt, fates = self._attempt(plan)\n        require(",
            "        now = lateness.floor_of(\n"
            "            self.pipeline.windows, self.ledger.view().not_open, plan.clock_ms, self.pipeline.late_policy\n"
            "        )\n"
            "        receipt, fates = self._attempt(replace(plan, floor=now))\n        require(",
        ),
    ),
    _bug(
        "a plan is committed whatever has closed meanwhile",
        _ONCE,
        (COURSE, "if view.version == self.ledger.version:", "if view.version >= 0:"),
    ),
    _bug(
        "every local day has 24 hours",
        f"{_ONCE} | {_DELAYED} | {_LEFT}",
        (
            LAYOUT,
            "    return day_start(datetime.fromtimestamp(start_ms / 1000, zone).date() + timedelta(days=1), zone)",
            "    return start_ms + DAY_MS",
        ),
    ),
)
"""Those in `course` stand for rules of the ledger's and the workflow's."""
BUGS: dict[str, Bug] = {bug.name: bug for bug in _BUGS}


@dataclass(frozen=True)
class Found:
    """`name`: what was violated, None if nothing was; after so many lives, windows and records."""

    bug: str
    name: str | None
    lives: int
    windows: int
    records: int
    detail: str

    @property
    def is_right(self) -> bool:
        return self.name in BUGS[self.bug].violates.split(" | ")


def hunt(bugs: Iterable[str], seed: str, at_once: int = 2, by_promise: bool = False) -> Iterator[Found]:
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(lambda bug: _in_a_child(bug, seed, by_promise), bugs)


def _in_a_child(bug: str, seed: str, by_promise: bool) -> Found:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])}
    command = [sys.executable, "-m", "tests.simulation.planted", bug, seed, "promise" if by_promise else "all"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=3600)
    if done.returncode != 0:
        raise RuntimeError(f"{bug}: {done.stderr[-3000:]}")
    return Found(**json.loads(done.stdout))


def _hunt_here(bug: str, seed: str, by: str) -> Found:
    planted = plant(BUGS[bug])
    from tests.simulation.life import live

    lives = windows = records = 0
    while lives < MOST_LIVES:
        lived = live(f"{seed}:{lives}", by_promise=by == "promise")
        lives, windows, records = lives + 1, windows + lived.tally.closes, records + lived.tally.records
        if lived.wrong is not None:
            return Found(bug, lived.wrong.name, lives, windows, records, lived.wrong.detail[:300])
    if planted.not_in_use():
        raise RuntimeError(f"{bug} was not in what ran")
    return Found(bug, None, lives, windows, records, "")


if __name__ == "__main__":
    print(json.dumps(vars(_hunt_here(*sys.argv[1:]))))
