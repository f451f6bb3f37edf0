"""What is said of a pipeline that is paused on purpose, and when that is over by what somebody did in Airflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from tidegate.core.base.errors import LostComparison
from tidegate.core.base.instants import iso, span
from tidegate.core.source.loss import CRITICAL, TimeToLoss
from tidegate.core.source.trouble import Trouble, What
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.tell.pauses import Pause, near_loss
from tidegate.kinds import source_kind
from tidegate.workflow.base.context import Context
from tidegate.workflow.window.overdue import Concern


def concerns(pipeline: Pipeline, pause: Pause | None, loss: TimeToLoss | None, now_ms: int) -> list[Concern]:
    """Why a pause is a matter for somebody: it lasts longer than was said, or unread records are about to be lost."""
    if pause is None:
        return []
    name, found = pipeline.name, []
    if pause.over(now_ms):
        advice = f"tidegate unpause {name}; if it has to last: tidegate pause {name} --why '...' --until ..."
        late = span(now_ms - (pause.until_ms or now_ms))
        what = f"paused until {iso(pause.until_ms)}, which is over since {late}: {pause.words()}"
        found.append(Concern(what, advice))
    if loss is not None and loss.level != CRITICAL and pause.covers("ingest", now_ms) and near_loss(loss):
        what = f"ingest is paused, and unread records are lost in about {span(loss.stopped_ms or 0)}: {pause.words()}"
        longer = source_kind(pipeline.source.kind).remedy(Trouble(What.KEEPS_LITTLE, pipeline.source.topic))
        advice = f"tidegate unpause {name} --only ingest; or {longer}"
        found.append(Concern(what, advice, "loss_ahead"))
    return found


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
