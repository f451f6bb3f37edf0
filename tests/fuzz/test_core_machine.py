"""The core's rules under two planners, zombies, replays and cleaners; TIDEGATE_TEST_SEED makes a run happen again."""

from __future__ import annotations

import os
import random

import hypothesis
from hypothesis.stateful import run_state_machine_as_test

from tests.fuzz.core_machine import CoreMachine

EXAMPLES = int(os.environ.get("TIDEGATE_FUZZ_EXAMPLES", "100"))


def test_the_core_keeps_its_rules(rng: random.Random) -> None:
    machine = hypothesis.seed(rng.randrange(2**32))(CoreMachine)
    settings = hypothesis.settings(
        max_examples=EXAMPLES,
        stateful_step_count=60,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    run_state_machine_as_test(machine, settings=settings)
