"""How the worker's cost depends on a topic's shape: directories, Kafka partitions, skew, size. Ratios within one run.

    .venv/bin/python -m bench.shape [--records 1000000] [--runs 3] [--json file] [--only directories,skew]

Each case is a process of its own that reads seeded events of about 600 bytes from memory: one task, broker and Spark
left out. CPU is that process's own (user and system), from the first record to the receipt; memory is the most that it
ever had resident (VmHWM), less what it had before the first record; `all MB` is the most as a whole, with some 40 MB of
events that a task of Spark does not have. Repetitions are interleaved. `share`: the part of the records that the
largest of four tasks would get.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.events import APPS, CLOCK, FLOOR, START, event, pipeline
from bench.parts import circumstances
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.base.plain import to_plain
from tidegate.core.batch.jobs import IngestPlan, JobPart
from tidegate.core.source.records import Chunk, Reader

CHUNK, DISTINCT, TASKS = 20_000, 40_000, 4


@dataclass(frozen=True, kw_only=True)
class Shape:
    """`hot`: the share of the records that one value, or one Kafka partition, has beyond the others'."""

    name: str
    group: str
    base: str  # the shape that it is compared with
    limit: float  # that ratio's goal
    directories: int = 31
    partitions: int = 8
    hot_value: bool = False
    hot_partition: bool = False
    times: int = 1
    buffer: int = 0  # MB; 0: the default


SHAPES = (
    Shape(name="even", group="skew", base="even", limit=1.0),
    Shape(name="1 directory", group="directories", base="1 directory", limit=1.0, directories=1),
    Shape(name="10 directories", group="directories", base="1 directory", limit=1.7, directories=10),
    Shape(name="100 directories", group="directories", base="1 directory", limit=1.7, directories=100),
    Shape(name="1,000 directories", group="directories", base="1 directory", limit=1.7, directories=1000),
    Shape(name="1 Kafka partition", group="partitions", base="1 Kafka partition", limit=1.0, partitions=1),
    Shape(name="64 Kafka partitions", group="partitions", base="1 Kafka partition", limit=1.2, partitions=64),
    Shape(name="1,024 Kafka partitions", group="partitions", base="1 Kafka partition", limit=1.2, partitions=1024),
    Shape(name="one value has 90 %", group="skew", base="even", limit=1.2, hot_value=True),
    Shape(name="one Kafka partition has 90 %", group="skew", base="even", limit=1.2, hot_partition=True),
    Shape(name="8 times the batch", group="size", base="even", limit=1.1, times=8),
    Shape(name="a buffer of 32 MB", group="buffer", base="even", limit=1.2, buffer=32),
    Shape(name="a buffer of 384 MB", group="buffer", base="even", limit=1.1, buffer=384),
    Shape(name="32 MB, 1,000 directories", group="buffer", base="1 directory", limit=1.7, directories=1000, buffer=32),
    Shape(
        name="384 MB, 1,000 directories", group="buffer", base="1 directory", limit=1.7, directories=1000, buffer=384
    ),
)
HOT = 0.9


@dataclass(frozen=True)
class Measured:
    cpu_us: float  # a record
    megabytes: float
    files: int
    share: float
    peak: float  # megabytes of the whole process


def values(shape: Shape, seed: int) -> list[bytes]:
    rng = random.Random(seed)
    apps = APPS if shape.directories == len(APPS) else [f"app-{i:04d}" for i in range(shape.directories)]
    if shape.hot_value:
        apps = apps[:1] * round((len(apps) - 1) * HOT / (1 - HOT)) + apps[1:]
    return [event(rng, i, apps) for i in range(DISTINCT)]


def ranges(shape: Shape, records: int) -> list[OffsetRange]:
    even = records // shape.partitions
    if not shape.hot_partition:
        return [OffsetRange("events", p, 0, even) for p in range(shape.partitions)]
    rest = round(records * (1 - HOT)) // (shape.partitions - 1)
    hot = records - rest * (shape.partitions - 1)
    return [OffsetRange("events", p, 0, rest if p else hot) for p in range(shape.partitions)]


class Memory(Reader):
    """The same records again and again: how many there are takes no memory."""

    def __init__(self, found: list[bytes]) -> None:
        self._values = found * 2

    def read(self, wanted: OffsetRange) -> Iterator[Chunk]:
        for at in range(wanted.start, wanted.end, CHUNK):
            count = min(CHUNK, wanted.end - at)
            first = (at + wanted.partition * 7919) % DISTINCT
            offsets = list(range(at, at + count))
            yield Chunk(offsets, [START] * count, [None] * count, self._values[first : first + count])


def measure(shape: Shape, records: int, seed: int) -> Measured:
    """In this process, which should do nothing else."""
    from spark_jobs.engine.job import cut, run_plan
    from tidegate.storage.local import LocalStorage

    found = values(shape, seed)
    with tempfile.TemporaryDirectory() as folder:
        spec = pipeline("events", f"file://{folder}")
        if shape.buffer:
            spec = replace(spec, ingest=replace(spec.ingest, task_buffer=shape.buffer << 20))
        wanted = ranges(shape, records * shape.times)
        part = JobPart(batch_id=1, clock_ms=CLOCK, floor=FLOOR, ranges=tuple(wanted))
        attempt = f"{spec.sink.workdir}/tmp/1.1-x"
        plan = IngestPlan(
        attempt="1.1-x", attempt_dir=attempt, pipeline=to_plain(spec), bootstrap={}, topic="events", topic_id="id",
        parts=(part,), nonce="x", batch_id=1, epoch=1, spec_version=1,
    )  # fmt: skip
        _warm(spec.sink.workdir, plan, found)
        before, began = _resident("VmRSS"), time.process_time()
        receipt = run_plan(plan, LocalStorage(), open_reader=lambda _: Memory(found))
        used = time.process_time() - began
        total = sum(r.count for r in wanted)
        assert receipt.read_rows == total
        largest = max(sum(p.range.count for p in t.pieces) for t in cut(plan, TASKS))
        peak = _resident("VmHWM")
        return Measured(used / total * 1e6, peak - before, len(receipt.files), largest / total, peak)


def _warm(workdir: str, plan: IngestPlan, found: list[bytes]) -> None:
    """Imports and first uses are a process's cost, not a record's."""
    from spark_jobs.engine.job import run_plan
    from tidegate.storage.local import LocalStorage

    part = replace(plan.parts[0], ranges=(OffsetRange("events", 0, 0, 2_000),))
    small = replace(plan, attempt="0", attempt_dir=f"{workdir}/tmp/0", parts=(part,))
    run_plan(small, LocalStorage(), open_reader=lambda _: Memory(found))


def _resident(what: str) -> float:
    """VmRSS or VmHWM of this process, MB."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(what))
    return int(line.split()[1]) / 1024


def _in_child(shape: Shape, records: int, seed: int) -> Measured:
    command = [sys.executable, "-m", "bench.shape", "--case", shape.name, "--records", str(records)]
    done = subprocess.run([*command, "--seed", str(seed)], check=True, capture_output=True, text=True)
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", default="", help="groups, with commas between: directories, partitions, skew, size, buffer"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.case:
        print(json.dumps(asdict(measure(_named(asked.case), asked.records, asked.seed))))
        return
    groups = asked.only.split(",") if asked.only else [s.group for s in SHAPES]
    shapes = [s for s in SHAPES if s.group in groups or any(o.base == s.name and o.group in groups for o in SHAPES)]
    print(f"{asked.records:,} records, {asked.runs} runs, seed {asked.seed}")
    print(circumstances())
    found: dict[str, list[Measured]] = {s.name: [] for s in shapes}
    for _ in range(asked.runs):
        for shape in shapes:
            found[shape.name].append(_in_child(shape, asked.records, asked.seed))
    _report(shapes, found)
    if asked.json:
        told = {name: [asdict(m) for m in each] for name, each in found.items()}
        asked.json.write_text(json.dumps({"records": asked.records, "seed": asked.seed, "cases": told}, indent=1))


def _report(shapes: list[Shape], found: dict[str, list[Measured]]) -> None:
    middle = {name: statistics.median(m.cpu_us for m in each) for name, each in found.items()}
    print(
        f"{'CPU us/record':30}{'min':>8}{'median':>8}{'max':>8}{'ratio':>8}{'goal':>6}{'MB':>7}{'all MB':>8}"
        f"{'files':>7}{'share':>7}"
    )
    for shape in shapes:
        each = [m.cpu_us for m in found[shape.name]]
        ratio, one = middle[shape.name] / middle[shape.base], found[shape.name][-1]
        memory, whole = (max(getattr(m, name) for m in found[shape.name]) for name in ("megabytes", "peak"))
        print(
            f"{shape.name:30}{min(each):8.2f}{middle[shape.name]:8.2f}{max(each):8.2f}{ratio:8.2f}{shape.limit:6.1f}"
            f"{memory:7.0f}{whole:8.0f}{one.files:7}{one.share:7.2f}"
        )


def _named(name: str) -> Shape:
    return next(s for s in SHAPES if s.name == name)


if __name__ == "__main__":
    main()
