"""What a soak did, for people and as JSON; the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field

from tests.soak.compare import Comparison
from tests.soak.states import BATCH, WINDOW
from tests.soak.victims import KINDS

SIGNALS = ("SIGKILL", "SIGSTOP")


@dataclass
class Totals:
    """Over all runs on one state folder, resumed ones included."""

    runs: int = 0
    seconds: float = 0.0
    by_victim: dict[str, int] = field(default_factory=dict)
    """`<victim>/<signal>` -> kills"""
    by_state: dict[str, int] = field(default_factory=dict)
    twins: int = 0
    restarts: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    published: int = 0
    cleared: int = 0
    replayed: int = 0
    lost_files: int = 0

    @property
    def kills(self) -> int:
        return sum(self.by_victim.values())

    @property
    def missed(self) -> list[str]:
        """States in which nobody was killed."""
        return [s for s in (*BATCH, *WINDOW) if not self.by_state.get(s)]

    def add(self, other: Totals) -> None:
        for name, value in asdict(other).items():
            mine = getattr(self, name)
            if isinstance(value, dict):
                mine.update({k: mine.get(k, 0) + v for k, v in value.items()})
            else:
                setattr(self, name, mine + value)


@dataclass(frozen=True)
class Verdict:
    """`comparison` and `problems` are those of the end; `findings` are tasks that asked for a human."""

    totals: Totals
    comparison: Comparison
    batches: dict[str, int]
    windows_published: int
    windows_waiting: int
    problems: tuple[str, ...]
    findings: tuple[str, ...]
    seed: int

    def failures(self) -> list[str]:
        """What makes the soak fail; empty when it has passed."""
        found = list(self.comparison.examples)
        if not self.comparison.exact:
            found.append(f"{self.comparison.missing} records are missing, {self.comparison.double} are there twice")
        found += [f"audit: {p}" for p in self.problems]
        found += [f"a task asked for a human: {f}" for f in self.findings]
        found += [f"nobody was killed in state {s}" for s in self.totals.missed]
        return found

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {"passed": not self.failures(), "failures": self.failures()}


def text(verdict: Verdict) -> str:
    return "\n".join(_lines(verdict))


def _lines(verdict: Verdict) -> Iterator[str]:
    t, c = verdict.totals, verdict.comparison
    minutes = t.seconds / 60
    yield f"kill soak: {t.kills} kills in {minutes:.1f} minutes ({t.runs} runs), seed {verdict.seed}"
    yield ""
    yield from _table(("victim", *SIGNALS), ((k, *(t.by_victim.get(f"{k}/{s}", 0) for s in SIGNALS)) for k in KINDS))
    yield ""
    yield from _table(("batch state", "kills"), ((s, t.by_state.get(s, 0)) for s in BATCH))
    yield ""
    yield from _table(("window state", "kills"), ((s, t.by_state.get(s, 0)) for s in WINDOW))
    yield ""
    yield f"tasks started twice at once: {t.twins}; restarts: {_pairs(t.restarts)}"
    yield f"tasks: {_pairs(t.outcomes)}"
    yield f"batches: {_pairs(verdict.batches)}; windows: {verdict.windows_published} published, "
    yield f"  {verdict.windows_waiting} waiting; cleared {t.cleared}, replayed {t.replayed}, lost files {t.lost_files}"
    yield f"records acknowledged {c.acknowledged:,}, found {c.found:,} ({_pairs(c.rows)}), unacknowledged"
    yield f"  {c.unacknowledged:,}; missing {c.missing:,}, double {c.double:,}"
    failures = verdict.failures()
    yield "PASSED" if not failures else "FAILED: " + "\n  ".join(failures)


def _pairs(counts: dict[str, int]) -> str:
    return ", ".join(f"{k} {v:,}" for k, v in counts.items()) or "none"


def _table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> Iterator[str]:
    for row in (head, *rows):
        yield f"  {row[0]!s:<18}" + "".join(f"{cell!s:>10}" for cell in row[1:])
