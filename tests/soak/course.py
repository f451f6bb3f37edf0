"""One run of the soak: servers, producer, lanes and killer together until a bound is reached, then the reckoning."""

from __future__ import annotations

import json
import random
import secrets
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from dev.stack.processes import RUN_MARK, sweep
from tests.soak import acknowledged, report
from tests.soak.compare import compare
from tests.soak.killer import Killer
from tests.soak.processes import Nursery
from tests.soak.scene import HOUR, NAME, Scene, python_path
from tests.soak.scheduler import Archive, Crew, Ingest, Lane, wait_for_zombies
from tests.soak.servers import Servers
from tidegate.adapters.footers import FooterProcess
from tidegate.workflow.audit.audit import audit

PARTITIONS = 2
_AHEAD = 3
"""Batches that the producer is ahead of the plans: records flow until the last kill."""
_ZOMBIES_S = 180.0
_SAY_EVERY_S = 30.0


@dataclass(frozen=True)
class Bounds:
    """`records` and `kills` are over all runs of one state folder; `minutes` bounds this run."""

    records: int
    kills: int
    minutes: float | None
    every_s: float
    spark_share: float

    @property
    def max_records(self) -> int:
        """So that there are about three kills for each batch."""
        return min(200_000, max(5_000, self.records * 3 // max(1, self.kills)))

    @property
    def step_ms(self) -> int:
        """So that a batch ends about two windows."""
        return max(1, HOUR * PARTITIONS * 2 // self.max_records)


class Course:
    """Everything in `root`; raises StackError when a server does not start, KeyboardInterrupt when interrupted."""

    def __init__(self, root: Path, bounds: Bounds, seed: int) -> None:
        self._root, self._bounds, self._seed, self._rng = root, bounds, seed, random.Random(seed)
        self._totals = self._load()
        self._acks, self._findings = root / "acknowledged", self._load_findings()
        self._servers = Servers(root, self._say)
        self._started = time.monotonic()

    def run(self) -> int:
        self._say(f"seed {self._seed}; state in {self._root}; {self._totals.kills} kills so far")
        mark = self._new_mark()
        self._servers.up(NAME, PARTITIONS)
        try:
            self._scene = self._compose()
            self._nursery = Nursery(self._root / "scene.json", self._root / "tasks", mark)
            try:
                return self._soak(mark)
            finally:
                self._nursery.close()
        finally:
            self._servers.down()

    def _soak(self, mark: str) -> int:
        lanes = self._lanes()
        killer = Killer(lanes, self._servers, self._rng, self._bounds.every_s, self._say)
        feeder = _Feeder(self._scene, self._root, self._acks, mark)
        before = report.Totals(**json.loads(json.dumps(asdict(self._totals))))
        everybody = list(lanes.values())
        try:
            for lane in everybody:
                lane.start()
            killer.start()
            self._flow(everybody, killer, feeder, before)
            self._say("no more kills: what was produced is brought to its end")
            killer.stop()
            feeder.end()
            self._drain(everybody)
        finally:
            for lane in everybody:
                lane.stop()
            killer.stop()
            feeder.end()
            self._account(before, lanes, killer)
        return self._reckon(everybody)

    def _flow(self, lanes: list[Lane], killer: Killer, feeder: _Feeder, before: report.Totals) -> None:
        """Until both bounds are reached, or the time is up."""
        next_words = 0.0
        while True:
            acked = acknowledged.count(acknowledged.read(self._acks))
            kills = before.kills + killer.total
            seconds = time.monotonic() - self._started
            if seconds >= next_words:
                self._say(f"{acked:,} records, {kills} kills, {lanes[0].steps + lanes[1].steps} tasks done")
                next_words = seconds + _SAY_EVERY_S
                self._account(before, {lane.name: lane for lane in lanes}, killer)
            if self._bounds.minutes is not None and seconds > self._bounds.minutes * 60:
                return
            if acked >= self._bounds.records and kills >= self._bounds.kills:
                return
            failed = [lane.failure for lane in lanes if lane.failure is not None]
            if failed:
                raise RuntimeError("a lane has ended") from failed[0]
            feeder.keep_ahead(acked, self._planned(), self._scene.max_records * _AHEAD, self._bounds.records)
            time.sleep(0.5)

    def _planned(self) -> int:
        """Offsets planned so far; large while nobody can say, so that nothing more is sent."""
        try:
            with self._servers.connect() as connection, connection.cursor() as cursor:
                cursor.execute("SELECT coalesce(sum(records), 0) FROM batches WHERE pipeline = %s", (NAME,))
                row = cursor.fetchone()
            connection.close()
            return int(row[0]) if row else 0
        except Exception:
            return -(10**12)

    def _drain(self, lanes: list[Lane]) -> None:
        ingest, archive = lanes
        ingest.drain()
        while not ingest.join(1):
            pass
        archive.drain()
        while not archive.join(1):
            pass
        for lane in lanes:
            if lane.failure is not None:
                raise RuntimeError(f"the {lane.name} lane has ended") from lane.failure
        left = wait_for_zombies(lanes, _ZOMBIES_S)
        self._say(f"{sum(len(lane.zombies) for lane in lanes)} tasks were given up; {len(left)} of them never ended")

    def _reckon(self, lanes: list[Lane]) -> int:
        ctx = self._scene.context(lambda line: None, "soak")
        try:
            found = audit(ctx, ctx.ledger.reads, FooterProcess())  # type: ignore[attr-defined]
            problems = tuple(f"{p.subject}: {p.what}" for p in found.problems)
            problems += tuple(f"blocked: {b.subject}: {b.reason}" for b in ctx.ledger.pipelines.blocks(NAME))
        finally:
            ctx.ledger.close()
        comparison = compare(self._scene, acknowledged.read(self._acks))
        verdict = report.Verdict(
            self._totals, comparison, found.batches, found.windows_published, found.windows_waiting, problems,
            tuple(self._findings), self._seed,
        )  # fmt: skip
        (self._root / "report.json").write_text(json.dumps(verdict.to_json(), indent=1))
        print(report.text(verdict), flush=True)
        print(f"report: {self._root / 'report.json'}")
        return 1 if verdict.failures() else 0

    # ------------------------------------------------------------ what is kept between runs

    def _compose(self) -> Scene:
        """The scene of the first run, at today's addresses."""
        path = self._root / "scene.json"
        kept = Scene.load(path) if path.exists() else None
        scene = Scene(
            str(self._root),
            self._servers.bootstrap,
            self._servers.ledger_url,
            PARTITIONS,
            kept.max_records if kept else self._bounds.max_records,
            kept.step_ms if kept else self._bounds.step_ms,
        )
        scene.save()
        return scene

    def _lanes(self) -> dict[str, Lane]:
        crew = Crew(self._bounds.spark_share, random.Random(self._rng.random()))
        common = (self._scene, self._nursery, self._say, self._findings, crew)
        first = 1 + max((int(r.rpartition("-")[2]) for r in self._runs()), default=0)
        return {
            "ingest": Ingest(*common, first_run=first),
            "archive": Archive(*common, rng=random.Random(self._rng.random())),
        }

    def _runs(self) -> list[str]:
        with self._servers.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT run FROM run_bindings WHERE pipeline = %s", (NAME,))
            found = [row[0] for row in cursor.fetchall()]
        connection.close()
        return found

    def _account(self, before: report.Totals, lanes: dict[str, Lane], killer: Killer) -> None:
        outcomes: Counter[str] = Counter()
        for lane in lanes.values():
            outcomes += lane.outcomes
        archive = lanes["archive"]
        assert isinstance(archive, Archive)
        now = report.Totals(
            1, time.monotonic() - self._started, {f"{v}/{s}": n for (v, s), n in killer.by_victim.items()},
            dict(killer.by_state), killer.twins, dict(self._servers.restarts), dict(outcomes), archive.published,
            archive.cleared, archive.replayed, archive.lost_files,
        )  # fmt: skip
        self._totals = report.Totals(**json.loads(json.dumps(asdict(before))))
        self._totals.add(now)
        content = {"totals": asdict(self._totals), "findings": self._findings}
        fresh = self._root / "state.new"
        fresh.write_text(json.dumps(content, indent=1))
        fresh.replace(self._root / "state.json")

    def _load(self) -> report.Totals:
        path = self._root / "state.json"
        return report.Totals(**json.loads(path.read_text())["totals"]) if path.exists() else report.Totals()

    def _load_findings(self) -> list[str]:
        path = self._root / "state.json"
        return json.loads(path.read_text())["findings"] if path.exists() else []

    def _new_mark(self) -> str:
        """Processes of a run that was killed itself are ended first."""
        path = self._root / "mark"
        if path.exists():
            sweep(path.read_text())
        mark = f"soak-{secrets.token_hex(4)}"
        path.write_text(mark)
        return mark

    def _say(self, line: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


class _Feeder:
    """The producer's process, told to send more while it is not too far ahead; started again if it ends."""

    def __init__(self, scene: Scene, root: Path, acks: Path, mark: str) -> None:
        self._command = [sys.executable, "-m", "tests.soak.producer", str(root / "scene.json"), str(acks)]
        self._log, self._mark, self._chunk = root / "producer.log", mark, max(1000, scene.max_records // 4)
        self._process: subprocess.Popen[bytes] | None = None
        self._idle = threading.Event()

    def keep_ahead(self, acked: int, planned: int, ahead: int, most: int) -> None:
        if self._process is None or self._process.poll() is not None:
            self._start()
        wanted = min(self._chunk, most - acked)
        if wanted > 0 and acked - planned < ahead and planned >= 0 and self._idle.is_set():
            self._idle.clear()
            assert self._process is not None
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(f"{wanted}\n".encode())
                self._process.stdin.flush()
            except BrokenPipeError:
                self._process.wait()

    def end(self) -> None:
        """It flushes what it was told to send, and ends."""
        if self._process is not None and self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()

    def _start(self) -> None:
        import os

        env = os.environ | {"PYTHONPATH": python_path(), RUN_MARK: self._mark}
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=env,
                start_new_session=True, cwd=Path(__file__).parents[2],
            )  # fmt: skip
        self._idle.set()
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for _ in process.stdout:
            self._idle.set()
