"""Kills and stops, at random moments and at chosen states, with victims and signals at random.

Most states last a millisecond. So some tasks are told to stop themselves at a port's call, at the state that has had
the fewest kills; the ledger is asked which it is. Others are met wherever they happen to be. What a victim's death
leaves behind is the scheduler's affair.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable

from dev.stack.processes import Identity
from tests.soak import victims
from tests.soak.processes import Task, is_stopped
from tests.soak.scheduler import Archive, Lane
from tests.soak.servers import KAFKA, POSTGRES, Servers
from tests.soak.states import BATCH, WINDOW, States

_AIM_S = 20.0
_STOPPED_S = (2.0, 25.0)
"""How long a task or a job stands still; below the scene's request_ttl_ms."""
_SERVER_STOPPED_S = (1.0, 4.0)
_POINTS = {
    "NONE": (
        "plan source.look:after", "plan batches.insert_plan:before", "maintain storage.delete:before",
        "maintain storage.delete:after:3",
    ),
    "PLANNED": ("plan batches.insert_plan:after", "write batches.take:before"),
    "WRITING": ("write batches.take:after", "write launcher.run:after", "write batches.seal:before"),
    "SEALED": (
        "write batches.seal:after", "land storage.rename_no_replace:before", "land storage.rename_no_replace:after",
        "land storage.write_new:after", "land batches.land:before",
    ),
    "LANDED": (
        "land batches.land:after", "land storage.rename_no_replace:after:2", "land storage.rename_no_replace:before:3",
        "land batches.mark_side:before", "land batches.mark_side:after", "land catalogue.add_partitions:before",
        "land catalogue.add_partitions:after",
    ),
    "OPEN": ("publish windows.begin_close:before",),
    "CLOSING": ("publish windows.begin_close:after", "publish windows.finish_close:before"),
    "BUILDING": (
        "publish windows.finish_close:after", "publish windows.take:after", "publish storage.rename_no_replace:before",
        "publish storage.rename_no_replace:after:2", "publish storage.rename_no_replace:after:4",
        "publish windows.built:before", "publish launcher.run:after", "replay launcher.run:after",
        "replay windows.take:after",
    ),
    "BUILT": ("publish windows.built:after", "publish windows.begin_swap:before", "replay windows.built:after"),
    "SWAPPING": (
        "publish windows.begin_swap:after", "publish windows.declare_intent:after",
        "publish catalogue.add_partitions:after", "publish catalogue.set_location:after",
        "publish windows.answer_intent:before", "publish windows.publish:before",
    ),
    "CURRENT": ("publish windows.publish:after", "publish windows.announced:before"),
}  # fmt: skip
"""Where a task stops itself in a state: what it does, and `--stop-at` (see tests.soak.task)."""
PART = {victims.BROKER: KAFKA, victims.POSTMASTER: POSTGRES}


class Killer:
    """`kills` are counted by (victim, signal) and by (protocol, state); `twins` are tasks that were only given up."""

    def __init__(
        self, lanes: dict[str, Lane], servers: Servers, rng: random.Random, every_s: float, say: Callable[[str], None]
    ) -> None:
        self._lanes, self._servers, self._rng, self._every_s, self._say = lanes, servers, rng, every_s, say
        self._states = States(servers)
        self.by_victim: Counter[tuple[str, str]] = Counter()
        self.by_state: Counter[str] = Counter()
        self.twins = 0
        self._sleeping: set[Identity] = set()
        self._asleep: list[threading.Thread] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="killer", daemon=True)

    @property
    def total(self) -> int:
        return sum(self.by_victim.values())

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No more kills; returns when everything that was stopped goes on."""
        self._stop.set()
        self._thread.join()
        for lane in self._lanes.values():
            lane.aim = None
            if lane.live is not None:
                lane.live.signal(signal.SIGCONT)
        for sleeper in self._asleep:
            sleeper.join()
        self._states.close()

    def _run(self) -> None:
        pauses, aimed = dict.fromkeys(self._lanes, 0.0), dict.fromkeys(self._lanes, 0.0)
        strike_at = self._soon()
        while not self._stop.wait(0.004):
            now = time.monotonic()
            for name, lane in self._lanes.items():
                target = lane.live
                if target is not None and target.stop_at and is_stopped(target.identity):
                    target.stop_at = ""
                    self._strike(lane, target)
                    pauses[name] = self._soon(1 / 3)
                elif lane.aim is not None and now > aimed[name] + _AIM_S:
                    lane.aim = None  # no such task has come
                elif lane.aim is None and now > pauses[name] and (target is None or not target.stop_at):
                    lane.aim, aimed[name] = self._aim(lane), now
                self._wake_zombies(lane)
            if now > strike_at:
                lane = self._lanes[self._rng.choice(sorted(self._lanes))]
                target = lane.live
                if target is None or target.ended or is_stopped(target.identity):
                    continue
                target.signal(signal.SIGSTOP)
                self._strike(lane, target)
                strike_at = self._soon()

    def _soon(self, share: float = 1.0) -> float:
        """Slower than a job on this machine, and slower with every try, or none would ever come to its end."""
        pause = max(max(self._every_s, lane.job_s) * (1 + lane.tries / 3) for lane in self._lanes.values())
        return time.monotonic() + self._rng.expovariate(1 / (pause * share))

    def _wake_zombies(self, lane: Lane) -> None:
        """One that was given up before it came to the point where it stops itself would stand there for ever."""
        for zombie in lane.zombies:
            if not zombie.ended and zombie.identity not in self._sleeping and is_stopped(zombie.identity):
                zombie.signal(signal.SIGCONT)

    # ------------------------------------------------------------ aim

    def _aim(self, lane: Lane) -> tuple[str, str]:
        """A point in the state of the lane's protocol that has had the fewest kills."""
        states = WINDOW if isinstance(lane, Archive) else BATCH
        fewest = min(self.by_state[s] for s in states)
        state = self._rng.choice([s for s in states if self.by_state[s] == fewest])
        what, _, point = self._rng.choice(_POINTS[state]).partition(" ")
        return what, point

    def _look(self, lane: Lane) -> str | None:
        if not isinstance(lane, Archive):
            return self._states.batch()
        window = lane.window
        return None if window is None else self._states.window(window)

    # ------------------------------------------------------------ strike

    def _strike(self, lane: Lane, target: Task) -> None:
        """`target` stands still; afterwards it is dead, or goes on at once or later."""
        state = self._look(lane)
        if state is None or target.ended or target is not lane.live:
            target.signal(signal.SIGCONT)
            return
        found = victims.below(target.identity) | victims.of_servers(self._servers, backends=False)
        serving = self._servers.backends() if self._rng.random() < 0.2 else []
        if serving:
            found[victims.BACKEND] = serving
        kind = self._choose(found)
        victim = self._rng.choice(found[kind])
        if self._rng.random() < 0.08:
            self.twins += 1
            self._say(f"{state}: {lane.name} task is given up while it lives")
            target.signal(signal.SIGCONT)
            target.give_up()
            return
        if victim == target.identity:
            target.stop_at = ""
        kill = self._rng.random() < 0.6
        name = "SIGKILL" if kill else "SIGSTOP"
        if kill:
            victim.signal(signal.SIGKILL)
        else:
            self._put_to_sleep(lane, target, kind, victim)
        if kill or victim != target.identity:
            target.signal(signal.SIGCONT)
        self.by_victim[kind, name] += 1
        self.by_state[state] += 1
        self._say(f"kill {self.total}: {name} of {kind} {victim.pid} in {state} ({target.what} {target.subject})")

    def _choose(self, found: dict[str, list[Identity]]) -> str:
        """Any kind that is there, the ones that were spared so far first."""
        kinds = sorted(found)
        if self._rng.random() < 0.4:
            return self._rng.choice(kinds)
        weights = {k: self.by_victim[k, "SIGKILL"] + self.by_victim[k, "SIGSTOP"] for k in kinds}
        fewest = min(weights.values())
        return self._rng.choice([k for k in kinds if weights[k] == fewest])

    def _put_to_sleep(self, lane: Lane, target: Task, kind: str, victim: Identity) -> None:
        """SIGSTOP; a server goes on soon, a task or job after a while, or when its successor has done its step."""
        sleepers = [victim, *self._servers.tree(POSTGRES)] if kind == victims.POSTMASTER else [victim]
        for one in sleepers:
            one.signal(signal.SIGSTOP)
        self._sleeping.update(sleepers)
        of_task = kind in victims.OF_TASKS
        longest = self._rng.uniform(*(_STOPPED_S if of_task else _SERVER_STOPPED_S))
        given_up_after = self._rng.uniform(0, 2) if of_task else None
        until_successor = of_task and self._rng.random() < 0.5
        steps = lane.steps

        def wake() -> None:
            started = time.monotonic()
            try:
                if given_up_after is not None:
                    self._stop.wait(given_up_after)
                    target.give_up()
                while time.monotonic() - started < longest and not self._stop.is_set():
                    if until_successor and lane.steps > steps:
                        break
                    time.sleep(0.02)
            finally:
                for one in sleepers:
                    one.signal(signal.SIGCONT)
                self._sleeping.difference_update(sleepers)

        self._asleep = [t for t in self._asleep if t.is_alive()]
        sleeper = threading.Thread(target=wake, daemon=True)
        self._asleep.append(sleeper)
        sleeper.start()
