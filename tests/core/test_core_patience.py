"""How long retries last, by their count and their delays. What Airflow makes of them: test_dags_retries.py."""

from __future__ import annotations

import pytest

from tidegate.core.base.patience import OUTAGE_S, delays, enough, lasts_s


@pytest.mark.parametrize(
    ("retries", "seconds"), [(0, 0), (1, 15), (3, 105), (4, 225), (5, 465), (6, 945), (7, 1545), (8, 2145)]
)
def test_how_long_retries_last(retries: int, seconds: float) -> None:
    assert lasts_s(retries, 15, 600) == seconds


def test_each_delay_is_twice_the_one_before_up_to_the_longest() -> None:
    assert delays(0, 15, 600) == []
    assert delays(1, 15, 600) == [(15, 30)]
    assert delays(7, 15, 600) == [
        (15, 30), (30, 60), (60, 120), (120, 240), (240, 480), (480, 600), (600, 600),
    ]  # fmt: skip
    assert delays(2, 900, 600) == [(600, 600), (600, 600)], "not even the first is longer"
    assert lasts_s(2, 900, 600) == 1200


def test_how_many_retries_outlast_an_outage() -> None:
    assert OUTAGE_S == 300
    assert enough(15, 600) == 5
    assert enough(15, 600, outage_s=15) == 1
    assert enough(15, 600, outage_s=16) == 2
    assert (enough(300, 600), enough(299, 600)) == (1, 2)
    assert enough(15, 60) == 7
    assert enough(15, 600, outage_s=0) == 1, "without a retry every fault is a human's"


@pytest.mark.parametrize("first_s", [1, 7, 60, 400])
@pytest.mark.parametrize("longest_s", [10, 60, 600])
def test_one_retry_less_is_not_enough(first_s: float, longest_s: float) -> None:
    for outage_s in (20, 301, 3600):
        least = enough(first_s, longest_s, outage_s)
        assert lasts_s(least, first_s, longest_s) >= outage_s
        assert least == 1 or lasts_s(least - 1, first_s, longest_s) < outage_s
