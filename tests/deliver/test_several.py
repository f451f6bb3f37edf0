"""Several deliveries of one pipeline: what becomes of one says nothing of the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.audit.audits import balanced
from tests.deliver.lab import SHOP, Lab, Staged, Transactional
from tests.world import HOUR, T0, record, window
from tidegate.workflow.deliver import deliver
from tidegate.workflow.late import reopen

OTHER = replace(SHOP, name="other", table="readings_too")


@pytest.fixture(params=[Transactional, Staged])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    made = Lab(tmp_path, request.param, OTHER)
    made.hours(2)
    return made


def reopens(lab: Lab) -> None:
    """The next generation of the first hour."""
    lab.world.produce(record("late", 0.2))
    lab.world.ingest("late")
    with lab.context() as ctx:
        reopen.reopen(ctx, window(0))


def there(lab: Lab, name: str) -> list[list[str]]:
    return [lab.servers[name].ids(T0 + hour * HOUR) for hour in (0, 1)]


FIRST, SECOND = ["0-0", "0-1"], ["1-0", "1-1"]


def test_what_is_left_out_at_one_is_sent_to_the_other(lab: Lab) -> None:
    with lab.context() as ctx:
        assert [s.what for s in deliver.skip(ctx, SHOP, [window(0)], "no room")] == ["skipped"]
    assert (lab.deliver("shop"), lab.deliver("other")) == (["delivered"], ["delivered", "delivered"])
    assert (there(lab, "shop"), there(lab, "other")) == ([[], SECOND], [FIRST, SECOND])
    reopens(lab)
    assert (lab.deliver("shop"), lab.deliver("other")) == (["delivered"], ["delivered"])
    assert there(lab, "shop") == there(lab, "other") == [[*FIRST, "late"], SECOND]
    balanced(lab.world)


def test_one_that_is_taken_out_of_the_yaml_for_a_while_gets_what_came_meanwhile(lab: Lab) -> None:
    def sends(*of: Any) -> dict[str, list[str]]:
        lab.world.change_spec(deliver=of)
        return {one.name: lab.deliver(one.name) for one in of}

    assert sends(SHOP) == {"shop": ["delivered", "delivered"]}
    balanced(lab.world)
    assert sends(OTHER) == {"other": ["delivered", "delivered"]}
    reopens(lab)
    assert sends(OTHER) == {"other": ["delivered"]}
    balanced(lab.world)
    assert sends(SHOP, OTHER) == {"shop": ["delivered"], "other": []}
    assert there(lab, "shop") == there(lab, "other") == [[*FIRST, "late"], SECOND]
    balanced(lab.world)
