"""Certificates as tasks show them: a few plain values of bounded size, and the words for the log. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate.core.base.instants import iso
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import PartitionWatermark
from tidegate.workflow.base.context import Context
from tidegate.workflow.look.explanation import forecast_of

MOST = 20
"""Kafka partitions, batches and the like that are listed; `tidegate explain --json` has them all."""


@dataclass(frozen=True)
class Shown:
    """`text` is for the log, `plain` (JSON) is kept for later."""

    text: str
    plain: dict[str, Any]


def readiness(ctx: Context, certificate: Certificate) -> Shown:
    """Words and JSON: who blocks the window and when it is expected, or that it is ready."""
    facts = ctx.ledger.windows.facts(ctx.name) if certificate.blockers else None
    of_these = facts is not None and facts.batch_id == certificate.batch_id
    expected = forecast_of(ctx, certificate, facts) if of_these and facts is not None else None
    blocking = set(certificate.blockers)
    plain = {
        **_window(certificate.pipeline, certificate.window),
        "ready": certificate.ready,
        "reason": certificate.reason,
        "watermark": _at(certificate.watermark_ms),
        "decided": _at(certificate.decided_ms),
        "batch": certificate.batch_id,
        "partitions": len(certificate.partitions),
        "blocked_by": len(certificate.blockers),
        "blockers": [_mark(m) for m in certificate.partitions if m.partition in blocking][:MOST],
        "expected": _at(expected.at_ms) if expected is not None else None,
        "expected_because": expected.basis if expected is not None else None,
    }
    text = certificate.text()
    return Shown(f"{text}; {expected.text()}" if expected is not None else text, plain)


def published(ctx: Context, window: WindowKey, number: int) -> dict[str, Any]:
    """What the generation rests on."""
    generation = ctx.ledger.windows.generation(ctx.name, window, number)
    grounds = ctx.ledger.windows.grounds(ctx.name, window, generation.batches, generation.late)
    parts = [
        {"partition": p.partition, "rows": p.rows, "first": p.first, "last": p.last, "gaps": p.gaps}
        for p in grounds.partitions[:MOST]
    ]
    return {
        **_window(ctx.name, window),
        "generation": number,
        "kind": generation.kind,
        "rows": sum(f.rows for f in getattr(generation, "files", ())),
        "digest": getattr(generation, "digest", None),
        "location": getattr(generation, "location", None),
        "batches": len(grounds.batches),
        "first_batch": grounds.batches[0].batch_id if grounds.batches else None,
        "last_batch": grounds.batches[-1].batch_id if grounds.batches else None,
        "late_from_batch": grounds.closing_batch,
        "floor": _at(grounds.floor_ms),
        "kafka_partitions": len(grounds.partitions),
        "partitions": parts,
        "gaps": grounds.gaps,
        "lost_ranges": grounds.loss_count,
    }


def _window(name: str, window: WindowKey) -> dict[str, Any]:
    return {"pipeline": name, "window_start": _at(window.start_ms), "window_end": _at(window.end_ms)}


def _mark(m: PartitionWatermark) -> dict[str, Any]:
    return {
        "partition": m.partition,
        "watermark": _at(m.watermark_ms),
        "newest_event": _at(m.max_event_ms),
        "last_read": _at(m.advanced_ms),
        "drained": m.drained,
        "open_transaction_since": _at(m.open_transaction_since_ms),
    }


def _at(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)
