"""The audit's chain of batches: ranges lie end to end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_core_audit import SPINE, batch, span

from tidegate.core.audit.problems import RESTORE, Books
from tidegate.core.look.views import (
    BatchRow,
    LossRow,
)

# ---------------------------------------------------------------- the chain


def chain(*batches: BatchRow, losses: tuple[LossRow, ...] = ()) -> list[str]:
    books = Books(replace(SPINE, losses=losses))
    found = []
    for b in batches:
        problems = list(books.batch(replace(b, state="ABANDONED"), ()))
        assert {(p.subject, p.advice) for p in problems} <= {(f"batch {b.batch_id}", RESTORE)}
        found += [p.what for p in problems]
    return found


def links(*steps: dict[int, tuple[int, int]], topic_id: str = "id") -> list[BatchRow]:
    """Batches by (start, end) for each Kafka partition; an empty one has no range."""
    return [
        batch(
            n,
            tuple(span(p, a, b) for p, (a, b) in step.items() if b > a),
            {p: b for p, (_, b) in step.items()},
            topic_id=topic_id,
        )
        for n, step in enumerate(steps, 1)
    ]


@pytest.mark.parametrize(
    ("steps", "losses", "says"),
    [
        (({0: (3, 9)}, {0: (9, 12)}), (), []),
        (({0: (3, 9)}, {0: (9, 9)}, {0: (9, 12)}), (), []),
        (({0: (3, 9)}, {0: (10, 12)}), (), ["partition 0: offsets [9, 10) are in no batch"]),
        (({0: (3, 9)}, {0: (8, 12)}), (), ["partition 0: offsets [8, 9) are in an earlier batch too"]),
        (({0: (3, 9)}, {0: (10, 10)}), (), ["partition 0: offsets [9, 10) are in no batch"]),
        (({0: (3, 9)}, {0: (10, 12)}), (LossRow(2, 0, 9, 10, "r"),), []),
        (({0: (3, 9)}, {0: (10, 12)}), (LossRow(1, 0, 9, 10, "r"),), ["partition 0: offsets [9, 10) are in no batch"]),
        (({0: (3, 9)}, {0: (10, 12)}), (LossRow(2, 1, 9, 10, "r"),), ["partition 0: offsets [9, 10) are in no batch"]),
        (({0: (3, 9)}, {0: (12, 14)}), (LossRow(2, 0, 9, 11, "r"),), ["partition 0: offsets [9, 12) are in no batch"]),
        (({0: (3, 9)}, {0: (12, 14)}), (LossRow(2, 0, 8, 12, "r"),), ["partition 0: offsets [9, 12) are in no batch"]),
        (({0: (3, 9)}, {0: (9, 12), 2: (40, 41)}), (), []),  # of an earlier release: where its log did
        (({0: (3, 9)}, {0: (9, 12), 2: (0, 42)}), (), []),  # a new partition begins at 0
        (({0: (3, 9)}, {0: (9, 12), 2: (41, 42)}), (), ["partition 2: offsets [0, 41) are in no batch"]),
        (
            ({0: (3, 9)}, {0: (9, 12), 2: (41, 42)}),
            (LossRow(2, 2, 40, 41, "r"),),
            ["partition 2: offsets [0, 41) are in no batch"],
        ),
        (({0: (3, 9)}, {0: (9, 12), 2: (41, 42)}), (LossRow(2, 2, 0, 41, "r"),), []),
    ],
)
def test_ranges_lie_end_to_end(
    steps: tuple[dict[int, tuple[int, int]], ...], losses: tuple[LossRow, ...], says: list[str]
) -> None:
    assert chain(*links(*steps), losses=losses) == says


def test_a_recreated_topic_begins_anew_and_the_old_one_is_remembered() -> None:
    one, two, three = links({0: (3, 9)}, {0: (0, 4)}, {0: (9, 12)})
    assert chain(one, replace(two, topic_id="new"), three) == []
    assert chain(one, two) == ["partition 0: offsets [0, 9) are in an earlier batch too"]


def test_planned_ends_and_ranges_say_the_same() -> None:
    (one,) = links({0: (3, 9)})
    assert chain(replace(one, ends={0: 10})) == ["partition 0: the range ends at 9, planned end is 10"]
    assert chain(replace(one, ends={})) == ["partition 0 has a range but no planned end"]
