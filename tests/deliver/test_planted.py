"""Each bug in how windows are delivered is found by the test that is named here, which passes without it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.databases.fixtures import mariadb, mysql, postgresql  # noqa: F401
from tests.deliver import test_deliver, test_moved, test_parts, test_relational, test_restored
from tests.deliver.lab import Lab, Staged, Transactional
from tests.deliver.planted import DELIVERY_BUGS
from tests.deliver.test_relational import name, opened  # noqa: F401
from tests.fakes.proxy import Fate
from tests.mutants.planting import Planted
from tidegate.core.base.errors import TidegateError

_answers = test_relational.test_a_commit_without_an_answer_is_looked_at
_change = test_deliver.test_a_change_without_an_answer
_restored = test_restored.test_what_a_restored_database_lacks_is_sent_again
_moved = test_moved.test_a_task_of_before_says_nothing_of_the_new_place
_two = partial(test_moved.Two, kind=Staged)
FOUND_BY: dict[str, tuple[Any, Callable[..., None]]] = {
    "tries of one generation share a staging": (Staged, partial(_change, kind=Staged, name="insert", fate="request")),
    "a try does not raise the epoch": (Transactional, test_deliver.test_again_sends_what_stands),
    "a newer generation does not overtake a try":
        (Staged, test_deliver.test_a_newer_generation_before_an_older_try_has_shown_anything),
    "the ledger is not asked": (Staged, test_deliver.test_a_newer_generation_while_an_older_is_in_flight),
    "what stands there is taken for the try's": (Transactional, test_deliver.test_a_try_that_sent_nothing_is_not_found),
    "nothing is compared later": (Staged, test_deliver.test_clear_compares_and_sends_what_differs),
    "rows are counted and not summed": (Transactional, test_deliver.test_clear_sees_other_values),
    "partitions are counted and not summed": (Transactional, test_parts.test_the_partitions_that_differ_are_named),
    "a partition that stands there alone is not named":
        (Transactional, test_parts.test_the_partitions_that_differ_are_named),
    "what a database has lost is not seen": (None, _restored),
    "what it has of before is taken for new": (None, _restored),
    "the token is not compared":
        (None, partial(test_relational.test_an_older_token_that_comes_late_is_refused, generation=1, epoch=9)),
    "a commit without an answer is taken for done": (None, partial(_answers, fate=Fate.LOSE_REQUEST)),
    "a commit without an answer is taken for lost": (None, partial(_answers, fate=Fate.LOSE_REPLY)),
    "rows are not read back": (None, test_relational.test_what_a_trigger_changes_is_seen),
    "a try to another place may say that it stands": (_two, partial(_moved, when="before it is begun")),
    "hosts with different YAMLs send in turns": (_two, test_moved.test_hosts_with_different_yamls_do_not_send_in_turns),
    "overflowing rows lose their values":
        (Staged, test_deliver.test_rows_of_the_overflow_partition_have_their_own_values),
}  # fmt: skip


@pytest.fixture
def server(postgresql: Any) -> Any:  # noqa: F811
    return postgresql


@pytest.mark.parametrize("bug", DELIVERY_BUGS)
def test_a_planted_bug_is_found(bug: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    kind, found_by = FOUND_BY[bug]
    wanted = inspect.signature(found_by).parameters
    known: dict[str, Any] = {"tmp_path": tmp_path}
    if "lab" in wanted:
        known["lab"] = kind(tmp_path) if kind is _two else Lab(tmp_path, kind)
    free = [p for p, told in wanted.items() if told.default is inspect.Parameter.empty]
    given = {p: known[p] if p in known else request.getfixturevalue(p) for p in free}
    with Planted(DELIVERY_BUGS[bug]) as planted:
        with pytest.raises((AssertionError, TidegateError, pytest.fail.Exception)):
            found_by(**given)
        assert planted.never_called() == []
