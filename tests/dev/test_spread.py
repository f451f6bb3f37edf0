"""The suite's own scheduling: real parts are started once where that can be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from spread import AIRFLOW, ALONE, BOARD, CRASH, LONG, SERVICES, UPGRADE, chosen, lane, pool

TESTS = Path(__file__).parents[1]
WAITING = ["tests/core/test_a.py", "tests/operators/test_b.py", "tests/contract/test_c.py", "tests/e2e/test_d.py"]


def taken(waiting: list[str], owners: dict[str, object], node: str) -> str | None:
    return chosen(waiting, owners, node)


def test_a_worker_takes_a_lane_that_no_one_has_and_stays_in_it() -> None:
    assert taken(WAITING, {}, "one") == "tests/contract/test_c.py"
    assert taken(WAITING[2:], {AIRFLOW: "one"}, "one") == "tests/e2e/test_d.py"
    assert taken(WAITING, {AIRFLOW: "one"}, "two") == "tests/contract/test_c.py"


def test_a_folder_is_ended_before_the_next_begins() -> None:
    """Its Airflow ends with it."""
    mixed = ["tests/operators/test_a.py", "tests/e2e/test_b.py", "tests/operators/test_c.py", "tests/e2e/test_d.py"]
    order = []
    while (path := taken(mixed, {AIRFLOW: "one"}, "one")) is not None:
        order.append(path.split("/")[1])
        mixed.remove(path)
    assert order == ["e2e", "e2e", "operators", "operators"]


def test_others_take_what_starts_nothing_and_then_end() -> None:
    both = {AIRFLOW: "one", SERVICES: "two"}
    assert taken(WAITING, both, "three") == "tests/core/test_a.py"
    assert taken(WAITING[1:], both, "three") is None
    assert taken(WAITING[:3], {AIRFLOW: "one"}, "one") == "tests/operators/test_b.py"
    assert taken([WAITING[0], WAITING[2]], {AIRFLOW: "one"}, "one") == "tests/core/test_a.py"


def test_what_takes_long_begins_first() -> None:
    assert taken(["tests/core/test_a.py", f"tests/{LONG[1]}.py"], {}, "one") == f"tests/{LONG[1]}.py"
    for pooled in (CRASH, BOARD, UPGRADE):
        assert taken(["tests/core/test_a.py", pooled], {}, "one") == pooled
    assert [name for name in LONG + ALONE if not ((TESTS / f"{name}.py").is_file() or (TESTS / name).is_dir())] == []


def test_files_that_share_a_pool_go_to_one_worker() -> None:
    assert {pool(f"tests/{name}.py") for name in ("crash/test_pairs", "crash/test_fencing")} == {CRASH}
    assert {pool(f"tests/{name}.py") for name in ("board/test_board_links", "mirror/test_board")} == {BOARD}
    assert pool("tests/core/test_a.py") == "tests/core/test_a.py"
    users = [path for path, text in others() if "board_app.client(" in text or "board_app.application(" in text]
    assert len(users) > 5
    assert [path for path in users if pool(path) != BOARD] == []


def test_the_lane_of_a_file_is_its_folders() -> None:
    assert [lane(path) for path in WAITING] == [None, AIRFLOW, SERVICES, AIRFLOW]
    assert lane("tests/test_x.py") is None
    assert lane("tests/offline/test_real.py") == SERVICES
    assert (lane("tests/offline/test_faults.py"), lane(f"tests/{ALONE[0]}.py")) == (None, None)


def test_whatever_takes_a_sample_of_faults_takes_all_of_them_in_make_test_faults() -> None:
    [whole] = [line for line in (TESTS.parent / "Makefile").read_text().splitlines() if "TIDEGATE_FAULTS=all" in line]
    draws = re.compile(r"TIDEGATE_FAULTS|crash\.cases import|crash\.matrix import .*drawn|ledger_loss import Past")
    sampled = [path for path, text in others() if draws.search(text)]
    assert len(sampled) > 15
    assert [path for path in sampled if path not in whole] == []


def others() -> Iterator[tuple[str, str]]:
    """(path, text) of all files of tests but this one."""
    for path in TESTS.rglob("test_*.py"):
        if path != Path(__file__):
            yield str(path.relative_to(TESTS.parent)), path.read_text()
