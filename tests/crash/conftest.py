"""One pool of processes for all of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.pool import Pool


@pytest.fixture(scope="package")
def pool() -> Iterator[Pool]:
    with Pool() as made:
        yield made
