"""Where a delivery goes: noted by the first run to a place, asked before each window."""

from __future__ import annotations

from tidegate.core.base.errors import DeliveryRefused, LostComparison
from tidegate.core.base.wording import many
from tidegate.core.deliver.places import Place, elsewhere, outdated
from tidegate.core.spec.pipeline import Delivery
from tidegate.workflow.base.context import ATTEMPTS, Context

_OLD_COLUMNS = "the YAML has changed since this task began: windows may hold columns by now that it does not know"
_WHY = "the YAML names another place: connection, table or location"


def check(ctx: Context, delivery: Delivery, spec: int) -> None:
    """Whether the newest YAML is still the one of number `spec`, which was seen before anything was published by it,
    and the delivery goes where the task sends to. Raises DeliveryRefused.

    Once a look, after it, would be as right and end later: a question takes a fifth of a millisecond (SQLite), and a
    window asks the ledger four more."""
    if ctx.ledger.pipelines.newest(ctx.name) != spec:
        raise DeliveryRefused(_OLD_COLUMNS, advice="nothing: the next run goes on, by the YAML of today")
    refused = elsewhere(ctx.name, delivery, ctx.ledger.deliveries.goes_to(ctx.name, delivery.name))
    if refused is not None:
        raise refused


def check_host(ctx: Context, delivery: Delivery, move: str = "") -> None:
    """Raises DeliveryRefused where the YAML names a place of before. `move`: why it goes there again."""
    _refuse_outdated(ctx, delivery, ctx.ledger.deliveries.goes_to(ctx.name, delivery.name), move)


def _refuse_outdated(ctx: Context, delivery: Delivery, known: Place | None, move: str) -> None:
    refused = outdated(ctx.name, delivery, known)
    if refused is not None and not move:
        raise refused


def arrive(ctx: Context, delivery: Delivery, move: str = "") -> int:
    """Let the delivery go where the YAML says: how many windows and batches are due again because of that.

    Raises DeliveryRefused as `check_host`."""
    ledger = ctx.ledger.deliveries
    for _ in range(ATTEMPTS):
        known = ledger.goes_to(ctx.name, delivery.name)
        _refuse_outdated(ctx, delivery, known, move)
        if known is not None and known.place == delivery.place:
            return 0
        try:
            count = ledger.move(ctx.name, delivery.name, known, delivery.place, move or _WHY)
        except LostComparison:  # another task has noted a place
            continue
        if known is not None:
            went = f"it goes to ({delivery.place}) from now on, not to ({known.place}) any more"
            ctx.say(f"{delivery.name}: {went}: {many(count, 'unit')} that stood there or were under way are sent again")
        return count
    raise LostComparison(f"{ctx.name}: others move {delivery.name} to and fro; run it again")
