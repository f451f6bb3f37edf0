"""What the doctor says of Airflow: services, pools, DAGs, retries, and how long the DAG file takes."""

from __future__ import annotations

import pytest
from test_core_health import KINDS, told

from tidegate.core.doctor import rules as rules
from tidegate.core.doctor.findings import (
    OK,
    WARNING,
    WRONG,
    Finding,
)
from tidegate.core.doctor.rules import DagFacts, ParseLimits, parsing
from tidegate.core.tell.pauses import Pause

# ---------------------------------------------------------------- Airflow


@pytest.mark.parametrize(
    ("beats", "wrong"),
    [
        ({"scheduler": 95.0, "triggerer": 99.0}, {}),
        ({"scheduler": 40.0, "triggerer": 40.0}, {}),
        ({"scheduler": 101.0, "triggerer": 99.0}, {}),
        ({"scheduler": 95.0, "triggerer": None}, {"triggerer": "no triggerer runs"}),
        ({"scheduler": 95.0}, {"triggerer": "no triggerer runs"}),
        ({"triggerer": 0.0}, {"scheduler": "no scheduler runs", "triggerer": "has not beaten for 100 s"}),
        # a killed one stays `running` in the table
        ({"scheduler": 39.0, "triggerer": 40.0}, {"scheduler": "has not beaten for 61 s"}),
    ],
)
def test_services_that_do_not_beat(beats: dict[str, float | None], wrong: dict[str, str]) -> None:
    found = rules.services(beats, 100.0)
    names = ("scheduler", "triggerer")
    assert told(found) == [(name, WRONG if name in wrong else OK, name) for name in names]
    for one in found:
        if one.level == WRONG:
            assert wrong[one.check] in one.what
            assert f"airflow {one.check} -D" in one.mend


def test_pools() -> None:
    nine, eight = [f"p{i}" for i in range(9)], [f"p{i}" for i in range(8)]
    assert told(rules.pools({"b": ["p"], "a": nine}, {"a": 2, "b": 1})) == [("pools", OK, "a"), ("pools", OK, "b")]
    (endless,) = rules.pools({"a": nine}, {"a": -1})
    assert told(endless) == [("pools", OK, "a")]
    assert endless.what == "pool a: no limit for 9 pipelines"
    assert [f.what for f in rules.pools({"a": eight, "b": ["p"]}, {"a": 1, "b": 12})] == [
        "pool a: 1 slot for 8 pipelines",
        "pool b: 12 slots for 1 pipeline",
    ]
    assert rules.pools({}, {"a": 1}) == []


def test_pools_that_hold_tasks_up() -> None:
    nine = [f"p{i}" for i in range(9)]
    missing, empty, small = (rules.pools({"a": nine}, found)[0] for found in ({}, {"a": 0}, {"a": 1}))
    assert told([missing, empty, small]) == [("pools", WRONG, "a"), ("pools", WRONG, "a"), ("pools", WARNING, "a")]
    assert "--fix, or: airflow pools set a 4 'Tidegate'" in missing.mend
    assert "for ever" in missing.means
    assert empty.mend == "airflow pools set a 4 'Tidegate'"
    assert "9 pipelines" in empty.means
    assert (small.what, small.mend) == ("pool a has 1 slot", "airflow pools set a 2 'Tidegate'")
    (two,) = rules.pools({"a": [f"p{i}" for i in range(25)]}, {"a": 2})
    assert (two.what, two.mend) == ("pool a has 2 slots", "airflow pools set a 4 'Tidegate'")
    assert "25 pipelines" in two.means
    (alone,) = rules.pools({"a": ["p"]}, {"a": 0})
    assert "of 1 pipeline stay" in alone.means


FOUND = {f"p.{kind}": DagFacts(paused=False, active=True) for kind in KINDS}
PAUSED, GONE = DagFacts(paused=True, active=True), DagFacts(paused=False, active=False)


def test_dags_that_are_there() -> None:
    assert told(rules.dags("p", KINDS, FOUND)) == [("dags", OK, "p")]
    assert told(rules.dags("p", KINDS, FOUND | {"p.replay": PAUSED})) == [("dags", OK, "p")], (
        "a backfill runs it paused"
    )
    others = FOUND | {"q.ingest": PAUSED, "q.archive": GONE}
    assert told(rules.dags("p", KINDS, others)) == [("dags", OK, "p")]


@pytest.mark.parametrize(
    "found", [{**FOUND, "p.ingest": GONE}, {k: v for k, v in FOUND.items() if k != "p.ingest"}], ids=["old", "none"]
)
def test_dags_that_are_missing(found: dict[str, DagFacts]) -> None:
    (one,) = rules.dags("p", KINDS, {**found, "p.maintain": PAUSED})
    assert told(one) == [("dags", WRONG, "p")]
    assert one.what == "Airflow has no DAG p.ingest"
    (all_of_them,) = rules.dags("p", KINDS, {})
    assert all_of_them.what == "Airflow has no DAG p.ingest, p.archive, p.replay, p.maintain"


def test_dags_that_are_paused() -> None:
    (maintain,) = rules.dags("p", KINDS, FOUND | {"p.maintain": PAUSED})
    assert told(maintain) == [("dags", WARNING, "p")]
    assert (maintain.what, maintain.mend) == ("paused: p.maintain", "airflow dags unpause p.maintain")
    assert "cleans" in maintain.means
    (two,) = rules.dags("p", KINDS, FOUND | {"p.ingest": PAUSED, "p.archive": PAUSED, "p.replay": PAUSED})
    assert two.what == "paused: p.ingest, p.archive"
    assert two.mend == "airflow dags unpause p.ingest; airflow dags unpause p.archive"
    assert "cleans" not in two.means


def test_dags_that_are_paused_on_purpose() -> None:
    pause = Pause(1, 0, "anna", "works", ("ingest", "archive", "copy"))
    meant = FOUND | {"p.ingest": PAUSED, "p.archive": PAUSED}
    (still,) = rules.dags("p", KINDS, meant, pause)
    assert (told(still), still.what) == ([("dags", OK, "p")], pause.words())
    (also,) = rules.dags("p", KINDS, meant | {"p.maintain": PAUSED}, pause)
    assert (told(also), also.what) == ([("dags", WARNING, "p")], "paused: p.maintain")
    (moves,) = rules.dags("p", KINDS, FOUND | {"p.ingest": PAUSED}, pause)
    assert moves == Finding(
        "dags", WARNING, "the ledger says that p.archive is paused on purpose",
        "they are not: what goes wrong with them is not counted", "tidegate unpause p --only archive", "p",
    )  # fmt: skip
    (both,) = rules.dags("p", KINDS, FOUND, pause)
    assert both.what == "the ledger says that p.ingest, p.archive are paused on purpose"
    assert both.mend == "tidegate unpause p --only ingest --only archive"


def test_executors_and_import_errors() -> None:
    for name in ("SequentialExecutor", "airflow.executors.sequential_executor.SequentialExecutor"):
        (slow,) = rules.executor(name)
        assert told(slow) == [("executor", WRONG, "")]
        assert slow.what == name
    (fast,) = rules.executor("LocalExecutor")
    assert (told(fast), fast.what) == ([("executor", OK, "")], "LocalExecutor")
    assert rules.executor(None) == rules.executor("") == []
    (found,) = rules.import_errors([("/dags/tidegate_pipelines.py:p.yaml", "p.yaml:3: not a size")])
    assert told(found) == [("imports", WRONG, "tidegate_pipelines.py:p.yaml")]
    assert found.what == "/dags/tidegate_pipelines.py:p.yaml: p.yaml:3: not a size"
    assert "after an upgrade of tidegate restart the scheduler" in found.mend
    assert rules.import_errors([]) == []


@pytest.mark.parametrize(("count", "lasts"), [(6, "16 min"), (5, "8 min"), (4, "225 s"), (1, "15 s"), (0, "0 s")])
def test_retries(count: int, lasts: str) -> None:
    found = rules.retries("p", "ingest.retries", count, 15, 600)
    assert told(found) == [("retries", OK if count > 4 else WARNING, "p")]
    assert found.what == f"ingest.retries: {count} last {lasts} at least"
    assert found.level == OK or found.mend == "ingest.retries: 5 or more"


def test_retries_that_last_exactly_as_long_as_an_outage() -> None:
    assert rules.retries("p", "ingest.retries", 2, 100, 600).level == OK
    assert rules.retries("p", "ingest.retries", 2, 99, 600).level == WARNING


# ---------------------------------------------------------------- how long the DAG file takes

DAG_FILE = "/opt/airflow/dags/tidegate_pipelines.py"


def parse_levels(seconds: float | None, **limits: float) -> list[str]:
    found = parsing(DAG_FILE, seconds, ParseLimits(**limits))
    assert {(check, about) for check, _, about in told(found)} == {("parsing", "tidegate_pipelines.py")}
    return [f.level for f in found]


@pytest.mark.parametrize(
    ("seconds", "limits", "expected"),
    [
        (None, {}, [OK]),
        (2.0, {}, [OK]),
        (14.9, {}, [OK]),
        (15.0, {}, [WARNING]),  # half of what an import may take
        (15.0, {"import_s": 0.0}, [OK]),  # no limit
        (15.0, {"import_s": 60.0}, [OK]),
        (25.0, {"import_s": 60.0}, [WARNING]),  # half of what a file may take
        (29.9, {}, [WARNING]),
        (30.0, {}, [WARNING, WARNING]),  # parsed without a pause
        (49.9, {}, [WARNING, WARNING]),
        (50.0, {}, [WRONG, WARNING]),  # ended by Airflow
        (50.0, {"interval_s": 300.0}, [WRONG]),
        (20.0, {"import_s": 300.0, "file_s": 300.0, "stale_s": 300.0}, [OK]),
        (20.0, {"import_s": 300.0, "file_s": 300.0}, [WARNING]),  # longer than the threshold may be allowed
        (None, {"file_s": 300.0}, [WARNING]),
        (100.0, {"import_s": 300.0, "file_s": 300.0, "stale_s": 300.0, "interval_s": 600.0}, [OK]),
    ],
)
def test_a_parse_is_compared_with_what_airflow_allows(
    seconds: float | None, limits: dict[str, float], expected: list[str]
) -> None:
    assert parse_levels(seconds, **limits) == expected


def test_what_is_said_of_a_parse() -> None:
    (well,), (dark,) = (
        parsing(DAG_FILE, 1234.0, ParseLimits(0.0, 9e3, 9e3, 9e3)),
        parsing(DAG_FILE, None, ParseLimits()),
    )
    assert well.what == "tidegate_pipelines.py takes 1,234 s to parse"
    assert dark.what == "tidegate_pipelines.py: unknown how long it takes"
    slow, often = parsing(DAG_FILE, 33.0, ParseLimits())
    assert slow.what == "tidegate_pipelines.py takes 33 s to parse; Airflow ends it after 30 s"
    assert slow.means == "a parse that takes longer loses all its DAGs until the next one: nothing is scheduled"
    assert often.what == "tidegate_pipelines.py takes 33 s to parse, and is parsed again 30 s later"
    (stale,) = parsing(DAG_FILE, None, ParseLimits(file_s=1300.0))
    assert stale.what == (
        "tidegate_pipelines.py: unknown how long it takes; DAGs are taken for removed after 50 s, a parse may "
        "take 1,300 s"
    )
    assert stale.means == slow.means
    assert stale.mend == (
        "[scheduler] stale_dag_threshold: 1300 (AIRFLOW__SCHEDULER__STALE_DAG_THRESHOLD=1300); then restart the "
        "scheduler"
    )


def test_what_to_set_is_enough() -> None:
    """With what it says set, it is content."""
    first, second = parsing(DAG_FILE, 33.0, ParseLimits())
    assert "takes 33 s" in first.what
    assert first.mend == (
        "[core] dagbag_import_timeout and dag_file_processor_timeout, [scheduler] stale_dag_threshold: 140 "
        "(AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT=140 ...); then restart the scheduler"
    )
    assert second.mend.startswith("[scheduler] min_file_process_interval: 140 ")
    assert parse_levels(33.0, import_s=140, file_s=140, stale_s=140, interval_s=140) == [OK]
    (short,) = parsing(DAG_FILE, 10.0, ParseLimits(import_s=15.0))
    assert "stale_dag_threshold: 60 " in short.mend, "no less than what Airflow allows by itself"
    (stale,) = parsing(DAG_FILE, 20.0, ParseLimits(file_s=300.0, import_s=300.0))
    assert stale.mend.startswith("[scheduler] stale_dag_threshold: 300 ")
    assert parse_levels(20.0, file_s=300.0, import_s=300.0, stale_s=300.0) == [OK]
