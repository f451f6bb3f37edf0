"""A hundred situations of pipelines, drawn by a seed: `test_one_read_model.py` asks everybody about them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests import board_ledger
from tests.world import HOUR
from tidegate.core.base.plain import dumps
from tidegate.core.mirror.copied import Copied
from tidegate.core.mirror.jobs import START, ServerLog
from tidegate.core.source.port import Lane, LogState
from tidegate.core.spec.copy import CopiedServer, Copy
from tidegate.core.spec.pipeline import Completeness, Delivery, Pipeline
from tidegate.core.tell.notices import Finding

MINUTE = 60_000
NOW = 1_357_344_000_000 + 100 * 24 * HOUR + 50 * MINUTE
SIZES = board_ledger.Sizes(windows=6, partitions=2, batches=1, files=1)
SITUATIONS, SEED = 100, 4


def situations(engine: Any, dice: random.Random) -> tuple[list[Pipeline], dict[str, tuple[LogState, int]]]:
    start = NOW // HOUR * HOUR - (SIZES.windows + 1) * HOUR
    made = [_pipeline(dice, number, start) for number in range(SITUATIONS)]
    known = [one for one in made if not one.name.endswith("7") or dice.random() < 0.7]
    rows = list(board_ledger.rows(known, SIZES, NOW))
    for one in known:
        rows += _more(dice, one, start)
    assert board_ledger.write(engine, rows)
    topics = {one.name: (_topic(dice, one), NOW) for one in made if dice.random() < 0.75}
    return made, topics


def _pipeline(dice: random.Random, number: int, start: int) -> Pipeline:
    one = board_ledger.pipeline_named(number, start)
    windows = replace(
        one.windows, idle=dice.choice(("wait", "clock", "follow")), watermark_delay_ms=dice.choice((0, HOUR))
    )
    windows = replace(windows, on_silence=dice.choice(("hold", "close")), closes=number % 10 != 4)
    one = replace(one, windows=windows, archive=replace(one.archive, sla_ms=dice.choice((MINUTE, HOUR, 48 * HOUR))))
    if dice.random() < 0.5:
        one = replace(
            one,
            completeness=Completeness(source="topic", conn_id="kafka", topic="audit", poll_ms=MINUTE, patience_ms=None),
        )
    if dice.random() < 0.6:
        one = replace(
            one, reopening=replace(one.reopening, after_ms=dice.choice((0, 99 * HOUR)), rows=dice.choice((0, 9, 9)))
        )
    own = random.Random(number)
    if one.windows.closes and own.random() < 0.5:
        sla = own.choice((None, MINUTE, 999 * HOUR))
        one = replace(one, deliver=(Delivery(name="shop", kind="postgresql", conn_id="pg", table="t", sla_ms=sla),))
    if not one.windows.closes:
        copy = Copy(conn_id="shop", table="shop.t", schedule="*/10 * * * *", slot="shop")
        one = replace(one, copy=copy)
    if one.copy is not None and own.random() < 0.5:
        each = tuple(CopiedServer(name=name, conn_id=name) for name in own.choice((("a", "b"), ("a",))))
        one = replace(one, copy=replace(one.copy, conn_id="", servers=each))
    return replace(one, source=replace(one.source, loss_warning_ms=dice.choice((None, HOUR, 48 * HOUR))))


def _more(dice: random.Random, one: Pipeline, start: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the writer of the board's ledger does not have."""
    mine = {"pipeline": one.name}
    if dice.random() < 0.3:
        kinds = dice.choice((["ingest"], ["archive"], ["ingest", "archive", "apply", "maintain"]))
        until = dice.choice((None, NOW - HOUR, NOW + HOUR))
        why = {"kinds": kinds, "why": "power", "by": "anna", "since_ms": NOW - 9 * HOUR, "until_ms": until}
        yield "events", _event(one, "paused on purpose", "DAGs", why)
    if dice.random() < 0.3:
        found = {"problems": dice.choice((0, 3)), "first": "rows are missing", "advice": "", "depth": "quick"}
        yield "events", _event(one, "audited", "audit", found)
    if dice.random() < 0.15:
        cut = {"partition": 1, "topic_id": "t1", "after_batch": SIZES.windows, "start": 10, "end": 20}
        yield "log_cuts", {**mine, **cut, "leader_epoch": None, "found_ms": NOW}
    elif dice.random() < 0.15:
        kept = {"partition": 1, "topic_id": "t1", "after_batch": SIZES.windows, "offset": SIZES.windows * 1000 - 400}
        yield "resumptions", {**mine, **kept, "lost_start": None, "leader_epoch": None, "why": "compared"}
    if dice.random() < 0.4:
        at = start + (SIZES.windows - 1) * HOUR
        answer = {"rows": 5, "expected": dice.choice((5, 9, 9)), "problem": None, "accepted": None, "source": "audit"}
        yield (
            "truths",
            {**mine, "window_ms": at, **answer, "asked_ms": NOW, "since_ms": NOW - dice.choice((0, 3)) * HOUR},
        )
    if dice.random() < 0.2:
        made = {"number": 9, "state": dice.choice(("BUILDING", "BUILT")), "kind": dice.choice(("replay", "rollback"))}
        began = dice.choice((NOW, NOW - 9 * HOUR))
        row = {"window_ms": start, "epoch": 1, "nonce": "n", "spec_version": 1, "began_ms": began, "rows": None}
        yield "generations", {**mine, **row, **made}
    if dice.random() < 0.5:
        late = {"window_ms": start, "batch_id": 2, "partition": 0, "kind": "late", "rows": 3, "rerouted": 0}
        yield "batch_window_totals", {**mine, **late, "min_offset": 1001, "max_offset": 1003}
        for number in range(20, 20 + dice.choice((0, 2))):
            row = {"window_ms": start, "number": number, "state": "DISCARDED", "kind": "reopen", "nonce": "n"}
            yield "generations", {**mine, **row, "epoch": 1, "spec_version": 1}
    if dice.random() < 0.2:
        kind = dice.choice(("loss_ahead", "data_loss", "held_window"))
        told = dumps(Finding(kind=kind, key=kind, subject="", what="it was seen before", advice="look again"))
        yield "notices", {**mine, "key": kind, "content": told, "first_ms": NOW - HOUR, "told_ms": NOW - HOUR}
    if not one.windows.closes:
        yield from _merges(dice, one)
    if one.deliver:
        yield from _delivered(random.Random(one.name), one, start)
    if dice.random() < 0.2:
        yield "losses", {**mine, "batch_id": 1, "partition": 0, "start": 0, "end": 7, "reason": "retention"}


def _merges(dice: random.Random, one: Pipeline) -> Iterator[tuple[str, dict[str, Any]]]:
    upto, mine = dice.choice((0, 1, SIZES.windows - 1, SIZES.windows)), {"pipeline": one.name}
    if upto:
        sums = {"rows": 3, "tombstones": 1, "events": 9, "inserted": 4, "purged": 0}
        sums |= {"below_purge": 3, "kept_out_ms": NOW - HOUR} if upto == 1 else {"below_purge": 0, "kept_out_ms": None}
        if one.copy is not None and one.copy.servers:
            other = ServerLog("b", random.Random(one.name).choice((None, START)))
            sums["copied"] = dumps(Copied(servers=(ServerLog("a", START, START), other)))
        yield "prefixes", {**mine, "upto": upto, "attempt": "1-1.1-n", "snapshot": "7", "told_ms": NOW, **sums}
    read = {"round": 1, "table_name": "shop.t", "key": '["id"]', "ended": True, "why": ""}
    begun = {"state": dice.choice(("OPEN", "OPEN", "WHOLE")), "begun_ms": NOW - dice.choice((0, 99)) * HOUR}
    yield "copies", {**mine, **read, **begun}
    own = random.Random(one.name)
    said = {"gap": own.choice((0, 1)), "at_ms": NOW - own.choice((0, 99)) * HOUR}
    look = {"look": 1, "position": "7,0", "log_end": "7,0", "ends": "{}", "server": "", "reader": "shop"}
    yield "source_looks", {**mine, **look, **said}
    state = dice.choice(("OPEN", "REFUSED", "APPLIED"))
    said = {"state": state, "why": "two contents of one key" if state == "REFUSED" else None, "nonce": "n"}
    yield "applies", {**mine, "epoch": 1, "first_batch": upto + 1, "last_batch": upto + 1, "began_ms": NOW, **said}


def _delivered(dice: random.Random, one: Pipeline, start: int) -> Iterator[tuple[str, dict[str, Any]]]:
    said = {"digest": "d", "epoch": 1, "nonce": "n", "since_ms": NOW - HOUR, "stood": 1, "rows": 3, "checksum": "7"}
    for hour in range(SIZES.windows):
        state = dice.choice(("STANDING", "STANDING", "SENDING", "REFUSED", "SKIPPED"))
        row = {"name": "shop", "window_ms": start + hour * HOUR, "generation": dice.choice((1, 1, 1, 2)), **said}
        yield "deliveries", {"pipeline": one.name, "state": state, "why": "why", "stood_ms": NOW, **row}


def _event(one: Pipeline, what: str, subject: str, detail: Any) -> dict[str, Any]:
    said = {"what": what, "subject": subject, "detail": json.dumps(detail)}
    return {"pipeline": one.name, "at_ms": NOW - 2 * HOUR, "actor": "anna", **said}


def _topic(dice: random.Random, one: Pipeline) -> LogState:
    read, parts = SIZES.windows * 1000, {}
    for p in range(2):
        start, waiting = dice.choice((0, 0, 0, read + 30)), dice.choice((0, 0, 500, 9_000))
        stable = max(start, read + waiting)
        parts[p] = Lane(start, stable, stable + dice.choice((0, 0, 40)))
    kept = dice.choice((None, 3 * HOUR, 999 * HOUR))
    return LogState(
        topic=one.source.topic,
        topic_id=dice.choice(("t1",) * 7 + ("other",)),
        partitions=parts,
        retention_ms=kept,
        retention_bytes=None,
        deletes=kept is not None,
    )
