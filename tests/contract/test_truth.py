"""What every other system that counts records must do for us."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.truth_tellers import Http, Teller, telling
from tests.world import window
from tidegate.core.base.errors import TruthUnknown


@pytest.fixture(params=["fake", "sqlite", "postgres", "http", "topic"])
def teller(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with telling(request.param, request, tmp_path) as made:
        yield made


def test_the_count_of_a_window(teller: Teller) -> None:
    teller.tell(1, 3)
    teller.tell(2, 0)
    teller.tell(3, 10**12)
    found = [teller.truth.expected(window(hour)) for hour in (1, 2, 3)]
    assert found == [3, 0, 10**12]
    assert all(type(count) is int for count in found)


def test_a_window_that_it_does_not_know_yet(teller: Teller) -> None:
    teller.tell(1, 3)
    if isinstance(teller, Http):
        teller.tell(2, None)
    assert teller.truth.expected(window(2)) is None
    teller.tell(3, None)
    assert teller.truth.expected(window(3)) is None


@pytest.mark.parametrize("count", [-1, 0.5])
def test_what_is_no_count_is_unknown(teller: Teller, count: Any) -> None:
    teller.tell(1, count)
    with pytest.raises(TruthUnknown, match="is not a (whole number|count of rows)"):
        teller.truth.expected(window(1))


def test_nobody_there_is_unknown(teller: Teller) -> None:
    teller.tell(1, 3)
    teller.leave()
    with pytest.raises(TruthUnknown) as caught:
        teller.truth.expected(window(1))
    assert "\n" not in str(caught.value)
    assert caught.value.retry
