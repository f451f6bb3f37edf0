"""Ends a pause on purpose when somebody has unpaused the DAGs in Airflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from tidegate.core.base.errors import LostComparison
from tidegate.workflow.base.context import Context


def settle(ctx: Context, look: Callable[[], Mapping[str, bool]]) -> list[str]:
    """What the ledger says of DAGs that somebody has unpaused in Airflow is over; what was done, in words.

    `look`: whether each DAG of those that it knows is paused; asked only where a pause stands."""
    pause = ctx.ledger.pauses.standing(ctx.name)
    if pause is None:
        return []
    paused = look()
    moving = [kind for kind in pause.kinds if paused.get(f"{ctx.name}.{kind}") is False]
    if not moving:
        return []
    with suppress(LostComparison):  # an operator has said something else meanwhile
        ctx.ledger.pauses.unpause(ctx.name, moving, pause)
        return [f"no longer paused on purpose, since somebody has unpaused it in Airflow: {', '.join(moving)}"]
    return []
