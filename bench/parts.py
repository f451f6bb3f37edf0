"""What the benchmarks share: Spark's Kafka source, a broker with records in it, and CPU time of a process tree.

python -m bench.parts lock     resolve each bench/jars/*.toml anew
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from dev.stack.info import StackInfo
from dev.stack.jars import ensure_jars, write_lock
from dev.stack.places import Places
from dev.stack.stack import Stack
from dev.stack.topics import create_topic

LOCKS = Path(__file__).with_name("jars")
SAMPLE_S = 0.02
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def kafka_source_jars() -> list[Path]:
    """What `--jars` of a stock Spark job needs for `format("kafka")`; fetched and verified the first time."""
    return sorted(ensure_jars("spark-kafka", Places.of_checkout(), locks=LOCKS).glob("*.jar"))


def circumstances() -> str:
    """One line for beside the figures: machine, load, commit."""
    with open("/proc/cpuinfo") as file:
        model = next(
            (line.partition(":")[2].strip() for line in file if line.startswith("model name")), os.uname().machine
        )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    load = " ".join(f"{n:.1f}" for n in os.getloadavg())
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GB; load {load} (1, 5, 15 min); commit {commit}"


@contextmanager
def broker(root: Path, say: Callable[[str], None] = print) -> Iterator[StackInfo]:
    """A real broker below `root`, ended with the block; its address is `kafka_bootstrap`."""
    with Stack(root, parts=("kafka",), progress=say) as info:
        yield info


def make_topic(bootstrap: str, values: Iterable[bytes], partitions: int, **config: str) -> str:
    """A new topic with `values` in its partitions in turn; returns its name when all are acknowledged."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import NewTopic

    name = f"bench-{uuid.uuid4().hex[:12]}"
    wanted = NewTopic(name, partitions, 1, config={"retention.ms": "-1", **config})
    create_topic({"bootstrap.servers": bootstrap}, wanted)
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4", "linger.ms": "50"})
    failures: list[object] = []
    for number, value in enumerate(values):
        while True:
            try:
                producer.produce(
                    name, value, None, number % partitions, on_delivery=lambda e, _: e and failures.append(e)
                )
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(120) or failures:
        raise RuntimeError(f"{name}: not all records were acknowledged {failures[:1]}")
    return name


@dataclass(frozen=True)
class Process:
    """One process of a measured tree. CPU seconds are user and system; memory is its highest resident set seen."""

    pid: int
    command: str
    cpu_s: float
    began_s: float
    ended_s: float
    peak_rss: int


class TreeCpu:
    """CPU seconds of the processes that start below this one inside the block, and of everything below them.

        with TreeCpu() as used:
            subprocess.run(...)
        used.cpu_s, used.wall_s, used.processes

    What ran before (a broker) is left out, unless its pid is given: then its growth counts, and what it starts. The
    kernel's own sums are not enough: PySpark's daemon ignores SIGCHLD, so that what its workers used is in nobody's
    account. So /proc is sampled and the last value of each process kept. Where a parent waited for a child, its account
    makes up for what was missed since the last sample, and for children that lived between two.
    """

    def __init__(self, *pids: int, every_s: float = SAMPLE_S) -> None:
        self._asked, self._every_s = pids, every_s
        self._seen: dict[tuple[int, int], _Seen] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._unseen = 0.0
        self._owed: dict[tuple[int, int] | None, float] = defaultdict(float)
        self._newly_owed: dict[tuple[int, int] | None, float] = defaultdict(float)
        self.wall_s = 0.0
        self.peak_rss = 0
        """Highest sum of resident sets at one moment, bytes; pages shared by forked workers count for each."""

    def __enter__(self) -> TreeCpu:
        now = _processes()
        self._before = {s.key for s in now.values()} - {now[pid].key for pid in self._asked}
        for pid in self._asked:
            asked = self._seen[now[pid].key] = now[pid]
            asked.base = asked.own
        self._waited_here = now[os.getpid()].waited
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wall_s = time.monotonic() - self._began
        self._stop.set()
        self._thread.join()

    @property
    def cpu_s(self) -> float:
        """Of the whole tree."""
        return sum(process.cpu_s for process in self.processes) + self._unseen

    @property
    def processes(self) -> list[Process]:
        """Those that were seen, in the order of their start; their own CPU time only."""
        return [
            Process(s.pid, s.command, s.own - s.base, s.first - self._began, s.last - self._began, s.peak_rss)
            for s in sorted(self._seen.values(), key=lambda s: (s.start, s.pid))
        ]

    def _watch(self) -> None:
        while not self._stop.wait(self._every_s):
            self._sample()
        self._sample()

    def _sample(self) -> None:
        now, at = _processes(), time.monotonic()
        tree = {now[pid].key: now[pid] for pid in self._tree(now)}
        self._bury([seen for seen in self._seen.values() if seen.alive and seen.key not in tree])
        here = now[os.getpid()]
        for key, found in tree.items():
            if key not in self._seen:
                self._seen[key] = found
                found.first, found.parent = at, now[found.ppid].key if found.ppid in now else None
            seen = self._seen[key]
            self._account(key, found.waited - seen.waited)
            seen.own, seen.waited, seen.last = found.own, found.waited, at
            seen.peak_rss = max(seen.peak_rss, found.rss)
            seen.command = _command(seen.pid) or seen.command  # a child has its parent's until it execs
        self._account(here.key, here.waited - self._waited_here)
        self._waited_here = here.waited
        self.peak_rss = max(self.peak_rss, sum(found.rss for found in tree.values()))

    def _bury(self, gone: list[_Seen]) -> None:
        """Note what will appear in the accounts of parents.

        A parent that ends with its child has the child's time in an account that nobody reads any more; the next
        account that grows by it is its own parent's. Without that, the child would count twice."""
        before, self._newly_owed = self._newly_owed, defaultdict(float)
        for seen in sorted(gone, key=lambda s: (s.start, s.pid), reverse=True):  # children before their parents
            seen.alive = False
            unread = min(before[seen.key] + self._newly_owed[seen.key], self._owed[seen.key])
            due = seen.own + seen.waited + unread
            self._owed[seen.parent] += due
            self._newly_owed[seen.parent] += due

    def _account(self, parent: tuple[int, int], waited: float) -> None:
        """What a parent has waited for, less what was seen of its dead children: /proc is not read at one moment, so
        that a child may be gone one sample before its parent's account grows."""
        known = min(waited, self._owed[parent])
        self._owed[parent] -= known
        self._unseen += waited - known

    def _tree(self, now: dict[int, _Seen]) -> list[int]:
        """New processes below this one, and what is known already with all below it, even if its parent has died."""
        below: dict[int, list[int]] = defaultdict(list)
        for one in now.values():
            below[one.ppid].append(one.pid)
        waiting = below[os.getpid()] + [one.pid for one in now.values() if one.key in self._seen]
        found: dict[int, None] = {}
        while waiting:
            pid = waiting.pop()
            if pid not in found and now[pid].key not in self._before:
                found[pid] = None
                waiting += below[pid]
        return list(found)


@dataclass(kw_only=True)
class _Seen:
    pid: int
    ppid: int
    start: int  # ticks since boot
    own: float
    waited: float
    rss: int
    command: str = ""
    parent: tuple[int, int] | None = None
    alive: bool = True
    base: float = 0.0
    first: float = 0.0
    last: float = 0.0
    peak_rss: int = 0

    @property
    def key(self) -> tuple[int, int]:
        return self.pid, self.start


def _processes() -> dict[int, _Seen]:
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                words = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        found[int(name)] = _Seen(
            pid=int(name), ppid=int(words[1]), start=int(words[19]),
            own=(int(words[11]) + int(words[12])) * _TICK_S, waited=(int(words[13]) + int(words[14])) * _TICK_S,
            rss=int(words[21]) * _PAGE,
        )  # fmt: skip
    return found


def cpu_now(pid: int) -> float:
    """CPU seconds so far of this process, of all below it, and of those of them that were waited for.

    What runs for as long as it is asked about needs no samples: the difference of two answers is what was used."""
    now = _processes()
    found = [now[pid]]
    for one in found:
        found += [below for below in now.values() if below.ppid == one.pid]
    return sum(one.own + one.waited for one in found)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def main(arguments: Collection[str]) -> int:
    """`lock`; see the module's docstring."""
    if list(arguments) != ["lock"]:
        print(__doc__, file=sys.stderr)
        return 2
    for wanted in sorted(LOCKS.glob("*.toml")):
        print(write_lock(wanted.stem, Places.of_checkout(), locks=LOCKS))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
