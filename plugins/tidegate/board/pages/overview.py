"""All pipelines at a glance: those that need somebody first."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

from tidegate.board.reach import Reach
from tidegate.board.specs import Folder
from tidegate.core.base.instants import span
from tidegate.core.base.wording import many
from tidegate.core.look.glance import Head
from tidegate.core.source.loss import CRITICAL, WARN, short
from tidegate.core.spec.pipeline import Pipeline
from tidegate.workflow.look.glance import Glance, glances
from tidegate.workflow.window.overdue import Concern

PAGE = 50
FEW = 100
"""So many pipelines are all looked at, so that those which need somebody are counted and come first. Of more,
those that people were told of are known beforehand, and those of the page at hand."""
ALL, ATTENTION = "all", "attention"
BROKEN, ATTEND, PAUSED, NEW, WELL = "broken", "attention", "paused", "new", "well"


@dataclass(frozen=True)
class Line:
    """One pipeline. `level`: broken (its YAML is invalid) | attention | paused (on purpose) | new (no run has
    registered it) | well. `pause`: since when, by whom and why it is paused on purpose."""

    name: str
    level: str
    table: str = ""
    glance: Glance | None = None
    concerns: tuple[Concern, ...] = ()
    error: str = ""
    time_to_loss: str = ""
    loss_level: str = ""
    pause: str = ""

    @property
    def waits_for(self) -> str:
        """Which Kafka partition holds the oldest open window most, and by how much; empty where none does."""
        open_ = None if self.glance is None else self.glance.next_window
        if open_ is None or not open_.blockers:
            return ""
        marks = {m.partition: m.watermark_ms for m in open_.partitions if m.partition in open_.blockers}
        worst = min(open_.blockers, key=lambda p: marks.get(p) or 0)
        at = marks.get(worst)
        short = "has no watermark yet" if at is None else f"is {span(open_.window.end_ms - at)} short"
        others = len(open_.blockers) - 1
        return f"partition {worst} {short}" + (f", and {many(others, 'other')}" if others else "")

    @property
    def works(self) -> dict[str, int]:
        """Windows by what they wait for; states that have none are left out."""
        g = self.glance
        if g is None or g.survey is None:
            return {}
        counts = g.counts
        building = sum(counts.get(state, 0) for state in ("BUILDING", "BUILT", "SWAPPING"))
        closing = g.head.closing if g.head is not None else 0
        alarms = len(g.head.alarms) if g.head is not None else 0
        found = {"published": counts.get("CURRENT", 0), "due": g.due.count, "closing": closing, "building": building}
        return {k: v for k, v in (found | {"alarm": alarms}).items() if v or k == "published"}


@dataclass(frozen=True)
class Page:
    """`lines` of the page; `total` names match `search` and `show`. `pending` YAMLs have not been parsed yet."""

    lines: tuple[Line, ...]
    total: int
    pipelines: int
    attention: int
    broken: int
    pending: int
    number: int
    pages: int
    search: str
    show: str
    folder: str
    folder_error: str
    now_ms: int

    @property
    def around(self) -> range:
        """Pages to go to at once."""
        return range(max(1, self.number - 3), min(self.pages, self.number + 3) + 1)


def gather(reach: Reach, search: str = "", show: str = ALL, number: int = 1) -> Page:
    """Raises LedgerError."""
    folder, reads, now_ms = reach.folder(), reach.ledger().reads, time.time_ns() // 1_000_000
    heads = reads.heads()
    names = {*folder.names, *heads}
    broken = {name for name, spec in folder.specs.items() if spec.error is not None}
    waits = {name for name, head in heads.items() if head.waits_at(now_ms)}
    few = {one.name: one for one in _lines(reach, folder, heads, names, now_ms)} if len(names) <= FEW else {}
    waits |= {name for name, line in few.items() if line.level == ATTEND}
    found = [n for n in names if search.lower() in n.lower() and (show != ATTENTION or n in broken or n in waits)]
    found.sort(key=lambda n: (n not in broken, n not in waits, n))
    pages = max(1, ceil(len(found) / PAGE))
    number = min(max(1, number), pages)
    mine = found[(number - 1) * PAGE : number * PAGE]
    lines = [few[name] for name in mine] if few else list(_lines(reach, folder, heads, mine, now_ms))
    waits |= {line.name for line in lines if line.level == ATTEND}
    return Page(
        tuple(lines),
        len(found),
        len(names),
        len(waits - broken),
        len(broken),
        len(set(folder.names) - set(folder.specs)),
        number,
        pages,
        search,
        show,
        str(folder.path),
        str(folder.error or ""),
        now_ms,
    )


def _lines(
    reach: Reach, folder: Folder, heads: Mapping[str, Head], names: Iterable[str], now_ms: int
) -> Iterable[Line]:
    names, reads = list(names), reach.ledger().reads
    errors = {n: spec.error for n in names if (spec := folder.specs.get(n)) is not None and spec.error is not None}
    pipelines = reach.pipelines([n for n in names if n not in errors])
    seen = glances(list(pipelines.values()), heads, reach.topics.known(list(pipelines.values())), reads, now_ms)
    for name in names:
        if name in errors:
            yield Line(name, BROKEN, error=str(errors[name]))
        elif name in seen:
            yield _line(pipelines[name], seen[name], now_ms)
        else:
            yield Line(name, NEW)


def _line(pipeline: Pipeline, glance: Glance, now_ms: int) -> Line:
    pause = glance.survey.pause if glance.survey is not None else None
    if pause is not None and pause.over(now_ms):
        pause = None
    level = WELL if glance.head and glance.head.batch_id is not None else NEW
    level = ATTEND if glance.concerns else PAUSED if pause is not None else level
    loss = glance.loss
    return Line(
        pipeline.name,
        level,
        pipeline.sink.table,
        glance,
        glance.concerns,
        "",
        "" if loss is None else short(loss),
        loss.level if loss is not None and loss.level in (WARN, CRITICAL) else "",
        "" if pause is None else pause.words(),
    )
