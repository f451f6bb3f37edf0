"""Hold a published window against its manifest, and put right what can be."""

from __future__ import annotations

from tidegate.core.target.port import Verified
from tidegate.core.window.states import PublishedGeneration
from tidegate.workflow.base import zone_data
from tidegate.workflow.base.context import Context
from tidegate.workflow.publish.fence import WindowFence


def verify(ctx: Context, generation: PublishedGeneration) -> Verified:
    """Nothing is changed where nothing is wrong: names, times and digests of an intact window stay."""
    zone_data.refuse_other_spelling(ctx, generation)
    return ctx.target.mend(WindowFence(ctx, generation))
