"""The real core, driven through a topic's life. The ledger is in memory and follows the protocol of `workflow`.

What stands for the ledger is a few lines each, and says for which function: the rules themselves are the core's.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from hashlib import sha256

from tests.simulation import worker
from tests.simulation.generator import World
from tests.simulation.oracle import Oracle
from tests.simulation.pipelines import TOPIC, TOPIC_ID, pipeline_of
from tests.simulation.settings import Setting
from tests.simulation.verdicts import ONE_PLACE, SAME, Fate, require
from tidegate.core.base.errors import DataLoss
from tidegate.core.base.plain import dumps, loads
from tidegate.core.batch import planning
from tidegate.core.batch.planning import NothingToPlan, PlanningView
from tidegate.core.batch.states import Plan
from tidegate.core.files.balance import Balance, window_difference
from tidegate.core.files.receipt import DATA, Receipt, arithmetic_errors
from tidegate.core.source.port import Lane, LogState
from tidegate.core.window import lateness
from tidegate.core.window.cut import window_end, window_start
from tidegate.core.window.readiness import certify
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import TopicFacts, global_watermark, watermarks


@dataclass
class Landed:
    """A LANDED batch in the ledger: what its plan pins, as JSON, and what its receipt says."""

    plan: str
    receipt: Receipt
    fates: str  # digest


@dataclass
class Ledger:
    version: int = 0
    batches: int = 0
    open: Plan | None = None
    ends: dict[int, int] = field(default_factory=dict)
    facts: TopicFacts = field(default_factory=lambda: TopicFacts(None, None, ()))
    closing: dict[int, int] = field(default_factory=dict)  # window start -> next batch id when it began
    closed: dict[int, tuple[int, ...]] = field(default_factory=dict)
    landed: dict[int, Landed] = field(default_factory=dict)
    owed: dict[int, dict[tuple[int, int], int]] = field(default_factory=lambda: defaultdict(dict))

    def view(self) -> PlanningView:
        """`batches.planning_view`"""
        accepted = TOPIC_ID if self.batches else None
        not_open = tuple(sorted({*self.closing, *self.closed}))
        return PlanningView(
            version=self.version,
            next_batch_id=self.batches + 1,
            accepted_topic_id=accepted,
            open_batch=None,
            planned_ends=self.ends,
            not_open=not_open,
            facts=self.facts,
        )


class Course:
    """One life. `live` raises Violated; `journal` is a digest of every decision."""

    def __init__(self, setting: Setting, rng: random.Random, world: World, oracle: Oracle) -> None:
        self._s, self._rng, self._oracle = setting, rng, oracle
        self.world = world
        self.pipeline = pipeline_of(setting)
        self.ledger = Ledger()
        self.meetings: Counter[str] = Counter()
        self._journal = sha256()
        self._steps_to_land, self._owed_poll = 0, False
        self._fates: list[Fate] = []
        self._pauses = self._draw_pauses()
        self._next = window_start(setting.start, self.pipeline.windows)  # the first window that may be open
        self._stuck: dict[int, int] = {}  # window start -> until when its archive run stands still
        self._last_plan_ms = 0

    # ------------------------------------------------------------ time

    def live(self) -> str:
        """To the end, and on until nothing is left to do; the digest of all that was decided."""
        s = self._s
        now = s.start if s.history else s.start - s.tick
        while now < s.end:
            now += s.tick + int((self._rng.random() - 0.5) * s.tick * 0.2)
            self._step(now)
        quiet = 0
        while quiet < 2 * s.silence + s.delay + 3 * s.size:
            now += s.tick
            quiet = quiet + s.tick if self._step(now) else 0
        self._poll()
        self._oracle.ended(self._last_plan_ms)
        self._read_again()
        self._balance()
        return self._journal.hexdigest()

    def _step(self, now: int) -> bool:
        """One tick of every schedule; whether nothing was left to be read."""
        self.world.advance(now)
        if now < self._s.end and any(a <= now < b for a, b in self._pauses):
            self._poll()
            return False
        if self.ledger.open is not None:
            self._steps_to_land -= 1
            if self._steps_to_land <= 0:
                self._end_batch()
        if self.ledger.open is not None:
            self._poll()
            return False
        return self._plan(now)

    def _draw_pauses(self) -> list[tuple[int, int]]:
        """When the ingest DAG is off; in the worst case for longer than the topic keeps its records."""
        s, rng = self._s, self._rng
        begins = [s.start + int(rng.random() * s.windows) * s.size for _ in range(rng.choice((0, 0, 1, 2)))]
        return [(b, b + rng.choice((2 * s.size, 10 * s.size, s.retention + s.size))) for b in begins]

    # ------------------------------------------------------------ ingest

    def _plan(self, now: int) -> bool:
        """`workflow.batch.ingest.plan`: gather, decide, commit on the version that was gathered."""
        now = self._host_clock(now)
        self._oracle.may_plan(now)
        for attempt in range(3):
            view = self.ledger.view()
            if attempt == 0 and self._rng.random() < 0.1:
                self._poll(always=True)
            try:
                made = self._decide(view, now)
            except DataLoss:
                self.meetings["data loss refused"] += 1
                self.pipeline = replace(self.pipeline, source=replace(self.pipeline.source, on_data_loss="record"))
                self._poll()
                return False
            if isinstance(made, NothingToPlan):
                self._find_nothing(now)
                self._poll()
                return True
            if self._is_current(view):
                self._commit(made)
                return not made.ranges
            self.meetings["a window closed while a batch was planned"] += 1
        raise AssertionError("the ledger moved three times in one tick")

    def _is_current(self, view: PlanningView) -> bool:
        return view.version == self.ledger.version

    def _find_nothing(self, now: int) -> None:
        self._note("nothing", now)
        self._oracle.nothing_planned(now)
        self._last_plan_ms = now

    def _host_clock(self, now: int) -> int:
        return now + int(self._rng.random() * self._s.apart)

    def _decide(self, view: PlanningView, now: int) -> Plan | NothingToPlan:
        topic = self._describe()
        first = planning.first_offsets(self._s.source_start, topic, {}) if not view.planned_ends else {}
        made = planning.plan_batch(self.pipeline, 1, view, topic, first, now)
        again = planning.plan_batch(self.pipeline, 1, view, topic, first, now)
        require(made == again, SAME, f"two plans of one view: {made} and {again}")
        return made

    def _describe(self) -> LogState:
        topic = self.world.topic
        offsets = {p: Lane(g.begins, topic.readable(p), g.ends) for p, g in topic.logs.items()}
        return LogState(topic=TOPIC, topic_id=TOPIC_ID, partitions=offsets)

    def _commit(self, plan: Plan) -> None:
        """`batches.insert_plan`, and the job's first attempt."""
        ledger = self.ledger
        ledger.open, ledger.batches, ledger.version = plan, plan.batch_id, ledger.version + 1
        ledger.ends = {p.partition: p.end for p in plan.partitions}
        self._last_plan_ms = plan.clock_ms
        self._note("plan", plan)
        lost = [(x.partition, x.start, x.end) for x in plan.losses]
        self._oracle.planned(
            plan.batch_id, plan.clock_ms, [(p.partition, p.start, p.end) for p in plan.partitions], lost
        )
        self._fates = self._attempt(plan)[1]
        self._steps_to_land = self._rng.choice((0, 0, 0, 0, 0, 0, 1, 1, 2, 5)) if plan.ranges else 0
        if self._owed_poll:
            self._poll(always=True)
        if self._steps_to_land == 0:
            self._end_batch()
        else:
            self._poll()

    def _attempt(self, plan: Plan) -> tuple[Receipt, list[Fate]]:
        receipt, fates = worker.read(self.pipeline, plan, self.world.topic)
        wrong = arithmetic_errors(receipt, plan.ranges, self.pipeline.source.gaps)
        wrong += lateness.errors(plan.floor, self.pipeline.windows, self.pipeline.late_policy, receipt)
        require(not wrong, ONE_PLACE, f"batch {plan.batch_id}: its receipt is not believed: {wrong[:2]}")
        return receipt, fates

    def _end_batch(self) -> None:
        """The last attempt is sealed and landed, or the offsets have gone meanwhile and an operator gives it up."""
        plan = self.ledger.open
        assert plan is not None
        gone = [r for r in plan.ranges if r.start < self.world.topic.logs[r.partition].begins]
        self.ledger.open = None
        self.ledger.version += 1
        if gone:  # `reconcile.abandon`
            self._note("abandon", plan.batch_id)
            self._oracle.abandoned()
        else:
            self._land(plan)
        prompt = self._s.archive == "prompt"
        self._owed_poll = prompt and self._rng.random() < 0.3  # it comes when the next batch is planned already
        if not self._owed_poll:
            self._poll(always=prompt)

    def _land(self, plan: Plan) -> None:
        """`batches.land`"""
        receipt, fates = self._attempt(plan)
        require(fates == self._fates, SAME, f"batch {plan.batch_id}: two attempts decide otherwise")
        self._oracle.judged(plan.batch_id, fates)
        self._oracle.landed(plan.batch_id, fates)
        ledger = self.ledger
        ledger.landed[plan.batch_id] = Landed(dumps(plan), receipt, _digest(fates))
        for f in receipt.files:
            if f.kind == DATA and f.window_ms is not None:
                key = (plan.batch_id, f.partitions[0].partition)
                ledger.owed[f.window_ms][key] = ledger.owed[f.window_ms].get(key, 0) + f.rows
        ledger.facts = planning.advance(ledger.facts, plan, self._events(receipt))
        self._note("land", global_watermark(watermarks(self.pipeline.windows, ledger.facts)))

    def _events(self, receipt: Receipt) -> dict[int, int | None]:
        """Largest plausible event times by partition."""
        return {r.range.partition: r.max_event_ms for r in receipt.ranges}

    # ------------------------------------------------------------ archive

    def _poll(self, always: bool = False) -> None:
        """Archive runs look: each of a window that is open and may be ready, but for those that are stuck."""
        often = {"prompt": 1.0, "slow": 0.3, "paused": 0.03}[self._s.archive]
        if self.world.now >= self._s.end:
            always = True
        for start in list(self.ledger.closing):
            if always or self._rng.random() < often + 0.3:  # the second step is a retry's: it has a delay of its own
                self._finish_close(start)
        if not always and self._rng.random() > often:
            return
        start, windows = self._next, self.pipeline.windows
        ahead = self.world.now + 12 * self._s.size  # as far as a backfill goes
        while start < ahead and (self._not_open(start) or self._is_stuck(start) or self._close(start)):
            start = window_end(start, windows)
        while self._not_open(self._next):
            self._next = window_end(self._next, windows)

    def _is_stuck(self, start: int) -> bool:
        """Somebody has paused this run, or its slot is taken: later windows close before it."""
        if start not in self._stuck:
            stuck = self._rng.random() < 0.05 and self.world.now < self._s.end
            self._stuck[start] = self.world.now + self._rng.randint(1, 6) * self._s.size if stuck else 0
        return self.world.now < min(self._stuck[start], self._s.end)

    def _not_open(self, start: int) -> bool:
        return start in self.ledger.closing or start in self.ledger.closed

    def _close(self, start: int) -> bool:
        """`windows.begin_close`, and `finish_close` at once if nothing is in the way."""
        key, ledger = WindowKey(start, window_end(start, self.pipeline.windows)), self.ledger
        now = self._host_clock(self.world.now)
        certificate = certify("readings", self.pipeline.windows, ledger.facts, key, now)
        self._oracle.certified(key.start_ms, key.end_ms, certificate.ready, now)
        if not certificate.ready:
            return False
        ledger.closing[start] = ledger.batches + 1
        ledger.version += 1
        self._note("closing", start, ledger.closing[start])
        self._oracle.closing(start, ledger.closing[start])
        if start > self._next and not self._not_open(self._next):
            self.meetings["a window closed before an older one"] += 1
        self._finish_close(start)
        return True

    def _finish_close(self, start: int) -> None:
        """`windows.finish_close`"""
        ledger = self.ledger
        if self._waits(start):
            self.meetings["a close that waits for a batch"] += 1
            return
        del ledger.closing[start]
        ledger.closed[start] = tuple(sorted({batch for batch, _ in ledger.owed.get(start, {})}))
        ledger.version += 1
        self._note("closed", start, ledger.closed[start])
        prompt = self._s.archive == "prompt" and not self._s.apart and not self._stuck[start]
        self._oracle.closed(start, ledger.closed[start], prompt)

    def _waits(self, start: int) -> bool:
        """For a batch that was planned before the window began to close."""
        ledger = self.ledger
        return ledger.open is not None and ledger.open.batch_id < ledger.closing[start]

    # ------------------------------------------------------------ looking back

    def _read_again(self) -> None:
        """Every plan as the ledger keeps it, long after its windows have closed: what was decided is decided again.

        `workflow.generation.rebuild`: a window's rows, counted by its batches' pinned plans, are what made it."""
        again: dict[int, dict[tuple[int, int], int]] = defaultdict(dict)
        for batch_id, then in self.ledger.landed.items():
            receipt, fates = worker.read(self.pipeline, loads(Plan, then.plan), self.world.topic)
            require(_digest(fates) == then.fates, SAME, f"batch {batch_id} is decided otherwise by its pinned plan")
            for f in receipt.files:
                if f.kind == DATA and f.window_ms in self.ledger.closed:
                    key = (batch_id, f.partitions[0].partition)
                    again[f.window_ms][key] = again[f.window_ms].get(key, 0) + f.rows
        for start in self.ledger.closed:
            differs = window_difference(self.ledger.owed.get(start, {}), again.get(start, {}))
            require(not differs, SAME, f"window {start} is rebuilt otherwise: {differs}")

    def _balance(self) -> None:
        total = Balance()
        for then in self.ledger.landed.values():
            for r in then.receipt.ranges:
                gaps = sum(len(g) for g in r.gaps)
                total += Balance(
                    offsets=r.range.count,
                    read=r.read,
                    gaps=gaps,
                    data=r.data,
                    late=r.late,
                    dirty=r.dirty,
                    filtered=r.filtered,
                    dropped=r.dropped,
                )
        require(total.holds, ONE_PLACE, total.text())

    def _note(self, what: str, *of: object) -> None:
        self._journal.update(f"{what} {of}\n".encode())


def _digest(fates: list[Fate]) -> str:
    return sha256(repr(fates).encode()).hexdigest()
