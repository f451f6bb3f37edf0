"""Time to loss in `tidegate status`: as a cell, in words, as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from tidegate.cli import surroundings
from tidegate.cli.output import advice, paragraph
from tidegate.core.base.fields import columns
from tidegate.core.source.loss_warning import CRITICAL, WARN, TimeToLoss, remedy, sentence, short


def plain(loss: TimeToLoss | None) -> dict[str, Any] | None:
    """Seconds as JSON; null where there will be no loss, or it is unknown: `state` says which."""
    if loss is None:
        return None

    def seconds(ms: int | None) -> float | None:
        return None if ms is None else ms / 1000

    return {
        "level": loss.level,
        "text": sentence(loss),
        "seconds": seconds(loss.at_pace_ms),
        "seconds_if_stopped": seconds(loss.stopped_ms),
        "partitions": [
            {
                **columns(f, "partition", "state", "limit", "unread", "reason"),
                "seconds": seconds(f.at_pace_ms),
                "seconds_if_stopped": seconds(f.stopped_ms),
                "seconds_behind": seconds(f.behind_ms),
            }
            for f in loss.partitions
        ],
    }


def cell(loss: TimeToLoss | None) -> Any:
    """Cell of a table; `?` where Kafka gave no answer."""
    return "?" if loss is None else Text(short(loss), style=_style(loss))


def warns(loss: TimeToLoss | None) -> bool:
    """Whether it is a warning; a critical loss is already among the pipeline's concerns."""
    return loss is not None and loss.level == WARN


def words(loss: TimeToLoss | None) -> str:
    """One sentence, with its level for a warning."""
    assert loss is not None
    return (f"{loss.level}: " if loss.level in (WARN, CRITICAL) else "") + sentence(loss)


def show(out: Console, name: str, loss: TimeToLoss) -> None:
    """Print it, with advice below a warning; a critical loss has its advice among the concerns."""
    from tidegate.kinds import source_kind

    paragraph(out, "loss", words(loss), _style(loss))
    if warns(loss):
        source = surroundings.pipeline_named(name).source
        advice(out, "  to do", remedy(loss, source.topic, name, source_kind(source.kind).remedy))


def _style(loss: TimeToLoss) -> str:
    return {CRITICAL: "red", WARN: "yellow"}.get(loss.level, "")
