"""The suite's own scheduling: real parts are started once where that can be."""

from __future__ import annotations

from spread import AIRFLOW, SERVICES, chosen, lane

WAITING = ["tests/core/test_a.py", "tests/operators/test_b.py", "tests/contract/test_c.py", "tests/e2e/test_d.py"]


def taken(waiting: list[str], owners: dict[str, object], node: str) -> str:
    return chosen(waiting, owners, node)


def test_a_worker_takes_a_lane_that_no_one_has_and_stays_in_it() -> None:
    assert taken(WAITING, {}, "one") == "tests/operators/test_b.py"
    assert taken(WAITING[2:], {AIRFLOW: "one"}, "one") == "tests/e2e/test_d.py"
    assert taken(WAITING, {AIRFLOW: "one"}, "two") == "tests/contract/test_c.py"


def test_others_take_what_starts_nothing_and_help_last() -> None:
    both = {AIRFLOW: "one", SERVICES: "two"}
    assert taken(WAITING, both, "three") == "tests/core/test_a.py"
    assert taken(WAITING[1:], both, "three") == "tests/operators/test_b.py"
    assert taken(WAITING[:3], {AIRFLOW: "one"}, "one") == "tests/operators/test_b.py"
    assert taken([WAITING[0], WAITING[2]], {AIRFLOW: "one"}, "one") == "tests/core/test_a.py"


def test_the_lane_of_a_file_is_its_folders() -> None:
    assert [lane(path) for path in WAITING] == [None, AIRFLOW, SERVICES, AIRFLOW]
    assert lane("tests/test_x.py") is None
