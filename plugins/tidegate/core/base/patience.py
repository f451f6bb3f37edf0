"""How long a task's retries last, as Airflow counts: exponential backoff, jitter, a longest delay. All in seconds."""

from __future__ import annotations

OUTAGE_S = 300
"""An outage of this length of anything that a task needs must pass without a human."""


def delays(retries: int, first_s: float, longest_s: float) -> list[tuple[float, float]]:
    """Shortest and longest delay before each retry.

    Airflow doubles the first delay with every try and adds a jitter of up to as much again."""
    steps = (first_s * 2**n for n in range(retries))
    return [(min(step, longest_s), min(2 * step, longest_s)) for step in steps]


def lasts_s(retries: int, first_s: float, longest_s: float) -> float:
    """Seconds from the end of the first try to the beginning of the last one, at least: tries that fail at once, no
    jitter."""
    return sum(shortest for shortest, _ in delays(retries, first_s, longest_s))


def enough(first_s: float, longest_s: float, outage_s: float = OUTAGE_S) -> int:
    """The least number of retries that outlasts an outage."""
    retries = 1
    while lasts_s(retries, first_s, longest_s) < outage_s:
        retries += 1
    return retries
