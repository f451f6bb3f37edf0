"""Scenes of the demo of a failover, one after the other."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from dev.copier import Copier
from dev.demo.airflow_rest import Airflow
from dev.demo.commands import Commands, Finished
from dev.demo.failover import check, check_copy
from dev.demo.failover.sites import TOPIC, Producers, Site
from dev.demo.output import Output
from dev.demo.world import DemoFailed, wait_until
from tidegate.core.batch.states import LandedBatch, WritingBatch
from tidegate.core.ledger import Ledger

NAME, INGEST, ARCHIVE = "shipments", "shipments.ingest", "shipments.archive"
FIRST, SECOND, THERE, LATER, LAST = 40_000, 60_000, 20_000, 10_000, 20_000
_CROSSED = 15_000  # of the second lot, in each partition: half of it
_HOURS = 4  # that all records span, but for the last one, which is open
_PARSE_S, _RUN_S, _COMMAND_S = 180.0, 600.0, 300.0
_COPIERS = {"bergen": "shipments-to-bergen", "oslo": "shipments-to-oslo"}


@dataclass(kw_only=True)
class World:
    """Everything that the scenes work with. `runs`: how many they have started; `starts`: where copying back begins."""

    oslo: Site
    bergen: Site
    producers: Producers
    ledger: Ledger
    airflow: Airflow
    commands: Commands
    out: Output
    root: Path
    runs: int = 0
    told: int = 0
    starts: dict[int, int] = field(default_factory=dict)

    def tidegate(self, *words: str) -> Finished:
        """One command of Tidegate, to its end, shown as an operator types it."""
        self.out.line(f"$ tidegate {' '.join(words)}")
        found = self.commands.run(words[0], [sys.executable, "-m", "tidegate.cli", *words], _COMMAND_S)
        self.out.line(found.text)
        return found


def begin(world: World) -> None:
    """The first records land in batches, and cross."""
    wait_until(
        lambda: world.airflow.has_dag(INGEST), _PARSE_S,
        lambda: "; ".join(world.airflow.import_errors()) or f"Airflow does not know {INGEST}",
    )  # fmt: skip
    world.airflow.pause(INGEST, False)
    world.producers.write(world.oslo, FIRST)
    copied = Copier(world.oslo.settings, world.bergen.settings, TOPIC, _COPIERS["bergen"]).copy(FIRST)
    world.out.line(f"{FIRST:,} records in Oslo; {copied:,} copies in Bergen, each of which says of what")
    drain(world, FIRST)


def kill(world: World) -> None:
    """The broker dies while a batch is written; half of the records has crossed."""
    world.producers.write(world.oslo, SECOND)
    copied = Copier(world.oslo.settings, world.bergen.settings, TOPIC, _COPIERS["bergen"]).copy(_CROSSED)
    world.out.line(f"{SECOND:,} more in Oslo, {copied:,} of them have crossed")
    _trigger(world)

    def writing() -> bool:
        return isinstance(world.ledger.batches.open(NAME), WritingBatch)

    wait_until(writing, _RUN_S, lambda: f"no batch is being written; runs: {world.airflow.runs(INGEST)}")
    world.out.line(f"killed the broker in Oslo (process {world.oslo.kill()}) while batch {world.told + 1} was written")


def fail_over(world: World) -> None:
    """Look, switch, go on in Bergen."""
    looked = world.tidegate("failover", "plan", NAME, "--to", "bergen")
    digest = re.search(r"^plan (\w+)$", looked.text, re.MULTILINE)
    world.out.check(looked.ok and digest is not None, "the plan says what would be read, and changes nothing")
    if digest is None:
        raise DemoFailed("there is no plan: the lines above say why")
    done = world.tidegate(
        "failover", "run", NAME, "--to", "bergen", "--plan", digest[1], "--why", "Oslo has no power", "--yes"
    )
    world.out.check(done.ok, "Bergen is active: one comparison in the ledger; the copier is fenced")
    world.producers.write(world.bergen, THERE)
    world.out.line(f"producers go on in Bergen: {THERE:,} records")
    drain(world, FIRST + 2 * _CROSSED + THERE)


def fail_back(world: World) -> None:
    """Note, copy back, switch, go on in Oslo."""
    world.oslo.start()
    noted = world.tidegate("failover", "back", NAME, "--why", "Oslo has power again", "--yes")
    world.starts = {
        int(p): int(mark) for p, mark in re.findall(r"^ *partition (\d+): (\d+)$", noted.text, re.MULTILINE)
    }
    world.out.check(noted.ok and bool(world.starts), "Oslo's end is noted, and where copying back begins")
    world.producers.write(world.bergen, LATER)
    drain(world, FIRST + 2 * _CROSSED + THERE + LATER)
    copier = Copier(world.bergen.settings, world.oslo.settings, TOPIC, _COPIERS["oslo"], world.starts)
    world.out.line(f"{copier.copy(THERE + LATER):,} records of Bergen are copied back")
    back = world.tidegate("failover", "back", NAME, "--why", "copied back", "--yes")
    world.out.check(back.ok, "Oslo is active again; what never crossed is read first")
    world.producers.write(world.oslo, LAST)
    drain(world, len(world.producers.acknowledged))


def count(world: World) -> None:
    """The independent checker, and the audit."""
    log = world.root / "acknowledged.txt"
    log.write_text("".join(f"{one}\n" for one in world.producers.acknowledged))
    argv = [sys.executable, "-I", os.path.abspath(check.__file__), str(_landed(world)), str(log)]
    world.out.line("$ python -I check.py  (pyarrow; imports nothing of Tidegate)")
    finished = world.commands.run("check", argv, _COMMAND_S)
    world.out.line(finished.text)
    world.out.check(finished.ok, "each record that a broker has acknowledged has landed exactly once")
    audit = world.tidegate("audit", NAME, "--deep", "-q")
    world.out.check(audit.ok, "the audit says balanced")


def lose_storage(world: World) -> None:
    """Hours are published and copied; then the first storage is not there any more."""
    world.airflow.pause(ARCHIVE, False)

    def waiting() -> int:
        return len(world.ledger.deliveries.due(NAME, "bergen", None, 100))

    wait_until(lambda: waiting() >= _HOURS, _RUN_S, lambda: f"{waiting()} hours; runs: {world.airflow.runs(ARCHIVE)}")
    world.airflow.pause(ARCHIVE, True)
    sent = world.tidegate("deliver", NAME)
    world.out.check(sent.ok, "each published hour stands in Bergen's storage, by number and checksum")
    own, copy = world.root / "lake", world.root / "storage-bergen" / NAME
    world.out.check(_reads(world, copy, own / NAME), "the copy has the rows of the table, read by pyiceberg alone")
    lost = own.rename(own.with_name("lake-lost"))
    world.out.line(f"$ mv {own.name} {lost.name}")
    world.out.check(_reads(world, copy), "without Oslo's storage all of it is read in Bergen")
    lost.rename(own)


def _reads(world: World, *folders: Path) -> bool:
    argv = [sys.executable, "-I", os.path.abspath(check_copy.__file__), *map(str, folders)]
    world.out.line("$ python -I check_copy.py  (pyiceberg; imports nothing of Tidegate)")
    finished = world.commands.run("check-copy", argv, _COMMAND_S)
    world.out.line(finished.text)
    return bool(finished.ok)


def drain(world: World, rows: int) -> None:
    """Runs of ingest until so many rows have landed."""

    def landed() -> bool:
        _say_landed(world)
        if _rows(world) >= rows:
            return True
        if set(world.airflow.runs(INGEST).values()) <= {"success", "failed"}:
            _trigger(world)
        return False

    wait_until(landed, _RUN_S, lambda: f"{_rows(world):,} of {rows:,} rows; runs: {world.airflow.runs(INGEST)}")
    world.out.check(_rows(world) == rows, f"{rows:,} rows have landed, in {world.told} batches")


def _trigger(world: World) -> None:
    world.runs += 1
    world.airflow.trigger(INGEST, f"demo_{world.runs}")


def _landed(world: World) -> Path:
    return world.root / "lake" / "shipments" / "_tidegate" / "landed"


def _rows(world: World) -> int:
    return sum(
        sum(f.rows for f in world.ledger.batches.manifest_files(NAME, batch)) for batch in range(1, world.told + 1)
    )


def _say_landed(world: World) -> None:
    """A line for each batch that has landed since the last time."""
    if world.ledger.pipelines.row(NAME) is None:  # the first run registers it
        return
    while world.told + 1 < world.ledger.batches.planning_view(NAME).next_batch_id:
        batch = world.ledger.batches.get(NAME, world.told + 1)
        if not isinstance(batch, LandedBatch):
            return
        world.told += 1
        world.out.line(f"batch {world.told} (epoch {batch.epoch}): {batch.plan.records:,} offsets")
