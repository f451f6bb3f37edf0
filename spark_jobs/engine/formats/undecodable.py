"""When a message is not a row: it is empty, malformed as a whole, or a column refuses its value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark_jobs.engine.formats import Bad
from spark_jobs.engine.strict import Unfit

Values = Sequence[Any]
"""Of one message: a value for each column as Arrow takes it, the event time in ms if the message has it, and if unknown
fields matter a list of their (name, text)."""
TOMBSTONE = Bad("null value (tombstone)")
NULL = "missing or null, but the column is not nullable"


class Malformed(ValueError):
    """The message as a whole is unusable."""


class Misfits(Exception):
    """Some of a message's values are `Unfit`s: what their columns refuse."""

    def __init__(self, values: Values) -> None:
        super().__init__()
        self.values = values


def first_misfit(columns: Sequence[tuple[str, bool]], values: Values, time_field: str) -> Bad:
    """First error, in the order of the columns, the event time last. `columns`: (name, whether it is nullable)."""
    for (name, nullable), value in zip(columns, values, strict=False):
        if isinstance(value, Unfit):
            return Bad(value.reason, name + value.field)
        if value is None and not nullable:
            return Bad(NULL, name)
    time = values[len(columns)]
    return Bad(time.reason if isinstance(time, Unfit) else "no event time", time_field)
