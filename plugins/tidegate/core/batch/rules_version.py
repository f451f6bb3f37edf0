"""Versions of the row rules: what a plan pins, so that a batch is read alike for ever."""

from __future__ import annotations

from tidegate.core.spec.pipeline import Pipeline

RULES_VERSION = 3
"""Version of the classification rules (window, late, dirty, filtered) that a plan pins; raise it when they change.

2: unknown fields are those at the top of a message. 3: those inside of other fields, too. There is no batch of
version 1: no release has planned by it."""


LEAVING_RULES = 4
"""As 3, of a redrive: dirty rows that are copies from another site, behind the mark of a failover, stay dirty (F3)."""


KNOWN_RULES = frozenset({2, 3, LEAVING_RULES})
"""Versions that a worker can go by: a replay classifies by the one that its batch was planned with."""


COPYING_RULES = 2
"""What the plan of a job says that decodes no message: a worker of the release before takes it."""


def rules_for(pipeline: Pipeline) -> int:
    """The version that a new plan pins. Where unknown fields are ignored version 3 says what version 2 says: such a
    plan can be taken by a worker of the release before."""
    return COPYING_RULES if pipeline.format.unknown_fields == "ignore" else RULES_VERSION


def rules_of_redrive(pipeline: Pipeline, copies: bool) -> int:
    """The same of a redrive. `copies`: those that came behind the mark of a failover are records, too; so they are
    where the YAML names no other site."""
    return LEAVING_RULES if pipeline.source.sites and not copies else rules_for(pipeline)


def rules_of_replay(planned: int, decided_by: Pipeline, today: Pipeline) -> int:
    """The version for rows that are decoded again: their batch's. A batch that ignored unknown fields has captured
    none, so that today's columns get all of them."""
    if decided_by.format.unknown_fields != "ignore":
        return planned
    return max(planned, rules_for(today))
