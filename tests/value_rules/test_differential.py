"""A sample of the comparison of engine and oracle; `make types` is the whole of it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.value_rules.differential import jobs, report, run

SAMPLE = 30
"""Mutated messages of each row."""
WHOLE_ROWS, WHOLE = 8, 40
"""So many rows, drawn by the seed, also send so many messages into files and back."""


def test_engine_and_oracle_agree_about_mutated_messages(rng: Random) -> None:
    seed = str(rng.randrange(10**9))
    wanted = jobs(0, 0, seed, least=SAMPLE)
    for i in rng.sample(range(len(wanted)), WHOLE_ROWS):
        wanted[i] = replace(wanted[i], whole=WHOLE)
    results = list(run(wanted, processes=2))
    wrong = [text for _, outcome in results for text in outcome.wrong]
    print(report(results))
    assert all(outcome.mutated >= SAMPLE for _, outcome in results)
    assert not wrong, f"seed {seed}: {len(wrong)} disagreements\n" + "\n".join(wrong[:5])
