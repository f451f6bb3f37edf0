"""Lives of mirrors by days that purge tombstones. `make test` takes one, `make test-nightly` many."""

from __future__ import annotations

import os
from unittest import mock

import pytest

from tests.mirror.days_purge_lives import live

LIVES = 200 if os.environ.get("TIDEGATE_NIGHTLY") == "all" else 1


@pytest.mark.parametrize("number", range(LIVES))
def test_each_day_is_what_an_oracle_says(number: int) -> None:
    with mock.patch.object(os, "fsync"):
        live(f"{os.environ['TIDEGATE_TEST_SEED']}:{number}")
