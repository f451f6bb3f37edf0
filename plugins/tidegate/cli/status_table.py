"""Table of all pipelines, with as many columns as the terminal has room for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from tidegate.cli import loss_warning
from tidegate.core.base.instants import iso

if TYPE_CHECKING:
    from tidegate.core.look.status import PipelineStatus

COLUMNS = (
    "pipeline", "is", "open batch", "watermark", "behind", "due", "late", "dirty", "published", "rows", "loss in",
)  # fmt: skip
WORDS = ("is", "open batch", "watermark")
EXPENDABLE = ("published", "rows", "late", "dirty", "open batch", "loss in", "watermark")
"""Columns that a narrow terminal drops, in this order."""
FOLDED = 26
"""Room for a pipeline's name; a narrow terminal folds longer ones."""


def table(lines: Iterable[Line], width: int) -> Any:
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    rows = [_row(line) for line in lines]
    shown = _fitting(rows, width)
    for name in shown:
        if name == COLUMNS[0]:
            made.add_column(name, min_width=8, overflow="fold")
        else:
            made.add_column(name, justify="left" if name in WORDS else "right", no_wrap=True)
    for row in rows:
        made.add_row(*(cell for name, cell in zip(COLUMNS, row, strict=False) if name in shown))
    return made


def _fitting(rows: list[list[Any]], width: int) -> list[str]:
    """Names of the columns that have room; long names of pipelines may be folded, numbers never."""
    from itertools import zip_longest

    cells = zip_longest(COLUMNS, *rows, fillvalue="")
    room = {name: 2 + max(map(len, (name, *column))) for name, *column in cells}
    room[COLUMNS[0]] = min(room[COLUMNS[0]], FOLDED)
    shown = list(COLUMNS)
    for name in EXPENDABLE:
        if sum(room[one] for one in shown) <= width:
            break
        shown.remove(name)
    return shown


def _row(line: Line) -> list[Any]:
    s = line.status
    if s is None:
        return [line.name, Text("BROKEN", style="red")]
    said, colour = word(s)
    v = s.survey
    if v is None:
        return [line.name, Text(said, style=colour), "", "", _behind(line)]
    return [
        line.name,
        Text(said, style=colour),
        f"{v.open_batch.batch_id} {v.open_batch.state}" if v.open_batch else "-",
        iso(s.watermark_ms) if s.merging is None else f"batch {s.merging.upto}",
        _behind(line),
        _due(s),
        f"{v.late_now:,}",
        f"{v.totals.dirty_now:,}",
        f"{v.published.windows:,}" if s.merging is None else "-",
        f"{_rows(s):,}",
        loss_warning.cell(s.loss),
    ]


def word(status: PipelineStatus) -> tuple[str, str]:
    """The state in a word, and the word's colour."""
    return {"attention": ("NOT WELL", "red"), "well": ("well", "green")}.get(status.level, (status.level, "yellow"))


def _behind(line: Line) -> str:
    return "?" if line.status is None or line.status.lag is None else f"{line.status.lag.records:,}"


def _due(status: PipelineStatus) -> str:
    """Windows that may be published and are not; of a mirror, batches that wait to be merged."""
    return f"{status.due.count if status.merging is None else status.merging.waiting:,}"


def _rows(status: PipelineStatus) -> int:
    """Rows that readers see."""
    if status.merging is not None:
        return 0 if status.merging.told is None else status.merging.told.rows
    return 0 if status.survey is None else status.survey.published.rows


@dataclass(frozen=True)
class Line:
    """A pipeline of the folder: its status, or the error of its YAML. `kafka` says why the lag is unknown."""

    name: str
    status: PipelineStatus | None
    error: str | None
    kafka: str | None
