"""When a window has to be sent again, and how late a delivery is."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.core.base.errors import DeliveryAhead, DeliveryDenied, DeliveryRefused, TidegateError
from tidegate.core.base.instants import span
from tidegate.core.base.wording import many, those
from tidegate.core.deliver import units
from tidegate.core.deliver.port import Missing, Standing, Tries
from tidegate.core.deliver.states import SENDING, STANDING, Backlog, Delivered, Due
from tidegate.core.spec.pipeline import Delivery


def differs(row: Delivered, found: Standing) -> str | None:
    """How what stands there differs from what was read back when it came (D8); None: it does not."""
    if row.content is None:
        return "nobody has read it back"
    if found.token is not None and found.token != row.token:
        return f"its token is of generation {found.token.generation}, try {found.token.epoch}"
    if found.content.rows != row.content.rows:
        return f"{many(found.content.rows, 'row')} there, {row.content.rows:,} were delivered"
    return None if found.content == row.content else "values there are not those that were delivered"


def by_columns_of_today(row: Delivered, found: Standing) -> bool:
    """Whether that may be for its columns alone: the checksum of then is over those that the table had then. Files have
    no columns of today, so that they tell."""
    known = row.content is not None and found.content.rows == row.content.rows
    return known and (found.token is None or found.token == row.token)


def lost(rows: Iterable[Delivered], missing: Missing) -> list[Delivered]:
    """Those that stood in a table that is missing there, or had rows in the part of it that is; and tries under way:
    one may have read its rows back before, and has not said so yet.

    A part that is new, as of a shard that was added, had none."""
    left = None if missing.left is None else dict(missing.left)

    def had_rows(row: Delivered) -> bool:
        return left is None or row.content is None or left.get(row.window_ms, 0) != row.content.rows

    return [row for row in rows if row.state == SENDING or (row.state == STANDING and had_rows(row))]


def behind(stood: Tries, there: Tries) -> list[int]:
    """Windows whose newest try stood there, by the ledger, and which the system does not have, or by an older try only:
    it has lost commits. A later one than the ledger knows of is the next try's matter (R11)."""
    return [window_ms for window_ms, tried in stood.items() if there.get(window_ms, (0, 0)) < tried]


def lag_ms(backlog: Backlog, now_ms: int) -> int:
    """How long the window that has waited longest has been published and does not stand there; 0: none waits."""
    return 0 if backlog.oldest is None else max(0, now_ms - backlog.oldest.published_ms)


def is_late(delivery: Delivery, backlog: Backlog, now_ms: int) -> bool:
    """Whether a window has waited longer than the delivery's SLA allows."""
    return delivery.sla_ms is not None and lag_ms(backlog, now_ms) > delivery.sla_ms


def in_words(backlog: Backlog, now_ms: int) -> str:
    """`120 windows stand there, 3 wait, the oldest (2013-01-05T04:00Z) for 12 min: connection refused`."""
    side = units.side_of(backlog.name)
    stand = f"{those(backlog.standing, backlog.unit, 'stand')} there"
    said = [stand + (f", up to {units.in_words(side, backlog.newest_ms)}" if backlog.newest_ms is not None else "")]
    if backlog.oldest is not None:
        wait = f"{backlog.due:,} wait" if backlog.due != 1 else "1 waits"
        since, why = span(lag_ms(backlog, now_ms)), backlog.why
        said.append(f"{wait}, the oldest ({backlog.oldest.unit}) for {since}{f': {why}' if why else ''}")
    if backlog.refused:
        said.append(f"{backlog.refused:,} refused")
    if backlog.skipped:
        said.append(f"{backlog.skipped:,} skipped")
    return "; ".join(said)


def of_window_in_words(row: Delivered | None, current: int) -> str:
    """What stands of a window whose generation `current` is in force, and what the newest try says."""
    if row is None:
        return f"generation {current} was never sent"
    rows = "" if row.content is None else f" ({many(row.content.rows, 'row')})"
    stands = "nothing stands there" if row.stood is None else f"generation {row.stood} stands there{rows}"
    if row.state == STANDING and row.generation == current:
        return stands
    why = f": {row.why}" if row.why else ""
    newer = "" if row.generation == current else f"; generation {current} is to be sent"
    tried = f"generation {row.generation} is {row.state} (try {row.epoch})" if row.state != STANDING else ""
    return "; ".join(filter(None, (stands, f"{tried}{why}" if tried else ""))) + newer


def may_pass(error: TidegateError) -> bool:
    """Whether a later try of the window may end otherwise by itself: a user who is refused is no fault of its rows."""
    return error.retry or isinstance(error, DeliveryDenied)


def unknown_generation(pipeline: str, due: Due, ahead: DeliveryAhead) -> DeliveryRefused:
    """The further system has a generation that the ledger does not know (R11)."""
    return DeliveryRefused(
        f"{pipeline} {due.unit}: generation {ahead.generation} stands there, and the ledger knows "
        f"{due.generation} as the newest",
        advice="the ledger lost commits, or another installation delivers there too: `tidegate repair "
        f"{pipeline} --adopt` shows what storage remembers",
        retry=False,
    )
