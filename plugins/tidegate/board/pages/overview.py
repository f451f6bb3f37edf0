"""All pipelines at a glance, those in trouble first."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from tidegate.board.reach import Reach
from tidegate.board.specs import Folder
from tidegate.core.base.instants import span
from tidegate.core.base.wording import many
from tidegate.core.look import status as standing
from tidegate.core.look.status import PipelineStatus
from tidegate.core.source.loss_warning import CRITICAL, WARN, short
from tidegate.workflow.look.status import glances

PAGE = 50
FEW = 100
"""Up to so many pipelines all are looked at, so that those in trouble are counted and come first. Of more,
those that people were told of are known beforehand, and those of the page at hand."""
ALL, ATTENTION, BROKEN = "all", "attention", "broken"


@dataclass(frozen=True)
class Line:
    """One pipeline. `level`: broken (its YAML is invalid), or as `PipelineStatus` has it; `error`: why it is broken.
    `status` is None too for one without a YAML and without a spec in the ledger."""

    name: str
    level: str
    status: PipelineStatus | None = None
    error: str = ""

    @property
    def waits_for(self) -> str:
        """The Kafka partition that holds the oldest open window most, and by how much; empty where none does."""
        open_ = None if self.status is None else self.status.next_window
        if open_ is None or not open_.blockers:
            return ""
        marks = {m.partition: m.watermark_ms for m in open_.partitions if m.partition in open_.blockers}
        worst = min(open_.blockers, key=lambda p: marks.get(p) or 0)
        at = marks.get(worst)
        short = "has no watermark yet" if at is None else f"is {span(open_.window.end_ms - at)} short"
        others = len(open_.blockers) - 1
        return f"partition {worst} {short}" + (f", and {many(others, 'other')}" if others else "")

    @property
    def loss(self) -> tuple[str, bool]:
        """Time to loss in few letters, and its level."""
        loss = None if self.status is None else self.status.loss
        return ("?", False) if loss is None else (short(loss), loss.level in (WARN, CRITICAL))

    @property
    def works(self) -> dict[str, int]:
        """Numbers of windows by state, without empty states; of a mirror the newest merged batch, and how many wait."""
        s = self.status
        if s is None or s.survey is None:
            return {}
        if s.merging is not None:
            return {"merged": s.merging.upto, "to merge": s.merging.waiting}
        windows = sum(block.subject.startswith("window ") for block in s.survey.blocks)
        found = {"published": s.survey.published.windows, "due": s.due.count, "closing": len(s.survey.closing)}
        found |= {"building": sum(s.survey.busy.values()), "alarm": windows}
        return {k: v for k, v in found.items() if v or k == "published"}


@dataclass(frozen=True, kw_only=True)
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
        """Numbers of pages to link to."""
        return range(max(1, self.number - 3), min(self.pages, self.number + 3) + 1)


def gather(reach: Reach, search: str = "", show: str = ALL, number: int = 1) -> Page:
    """Raises LedgerError."""
    folder, reads, now_ms = reach.folder(), reach.ledger().reads, time.time_ns() // 1_000_000
    heads = reads.heads()
    names = {*folder.names, *heads}
    broken = {name for name, spec in folder.specs.items() if spec.error is not None}
    few = {one.name: one for one in _lines(reach, folder, names, now_ms)} if len(names) <= FEW else {}
    waits = {name for name, head in heads.items() if head.waits_at(now_ms)} if not few else _waiting(few.values())
    found = [n for n in names if search.lower() in n.lower() and (show != ATTENTION or n in broken or n in waits)]
    found.sort(key=lambda n: (n not in broken, n not in waits, n))
    pages = max(1, ceil(len(found) / PAGE))
    number = min(max(1, number), pages)
    mine = found[(number - 1) * PAGE : number * PAGE]
    lines = [few[name] for name in mine] if few else list(_lines(reach, folder, mine, now_ms))
    waits = (waits - {line.name for line in lines}) | _waiting(lines)  # they were looked at closely
    return Page(
        lines=tuple(lines),
        total=len(found),
        pipelines=len(names),
        attention=len(waits - broken),
        broken=len(broken),
        pending=len(set(folder.names) - set(folder.specs)),
        number=number,
        pages=pages,
        search=search,
        show=show,
        folder=str(folder.path),
        folder_error=str(folder.error or ""),
        now_ms=now_ms,
    )


def _waiting(lines: Iterable[Line]) -> set[str]:
    return {line.name for line in lines if line.level == standing.ATTENTION}


def _lines(reach: Reach, folder: Folder, names: Iterable[str], now_ms: int) -> Iterable[Line]:
    names, reads = list(names), reach.ledger().reads
    errors = {n: spec.error for n in names if (spec := folder.specs.get(n)) is not None and spec.error is not None}
    pipelines = list(reach.pipelines([n for n in names if n not in errors]).values())
    found = glances(pipelines, reach.topics.known(pipelines), reads, now_ms)
    for name in names:
        if name in errors:
            yield Line(name, BROKEN, error=str(errors[name]))
        else:
            status = found.get(name)
            yield Line(name, standing.NEW if status is None else status.level, status)
