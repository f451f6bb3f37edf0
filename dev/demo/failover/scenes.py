"""Scenes of the demo of a failover, one after the other."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from dev.copier import Copier
from dev.demo.failover import check, check_copy
from dev.demo.failover.sites import TOPIC, Producers, Site
from dev.demo.world import DemoFailed, Stage, wait_until
from tidegate.core.batch.states import WritingBatch

NAME, INGEST, ARCHIVE = "shipments", "shipments.ingest", "shipments.archive"
FIRST, SECOND, THERE, LATER, LAST = 40_000, 60_000, 20_000, 10_000, 20_000
_CROSSED = 15_000  # of the second lot, in each partition: half of it
_HOURS = 4  # that all records span, but for the last one, which is open
_RUN_S = 600.0
_COPIERS = {"bergen": "shipments-to-bergen", "oslo": "shipments-to-oslo"}


@dataclass(kw_only=True)
class World(Stage):
    """Everything that the scenes work with. `runs`: how many they have started; `starts`: where copying back begins."""

    oslo: Site
    bergen: Site
    producers: Producers
    root: Path
    runs: int = 0
    starts: dict[int, int] = field(default_factory=dict)


def begin(world: World) -> None:
    """The first records land in batches, and cross."""
    world.wait_for(INGEST)
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
    landed = world.root / "lake" / "shipments" / "_tidegate" / "landed"
    once = world.confirmed(check, (str(landed), str(log)), "pyarrow")
    world.out.check(once, "each record that a broker has acknowledged has landed exactly once")
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
    return world.confirmed(check_copy, [str(folder) for folder in folders], "pyiceberg")


def drain(world: World, rows: int) -> None:
    """Runs of ingest until so many rows have landed."""

    def landed() -> bool:
        world.say_landed(NAME)
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


def _rows(world: World) -> int:
    return sum(
        sum(f.rows for f in world.ledger.batches.manifest_files(NAME, batch)) for batch in range(1, world.told + 1)
    )
