"""When a set-up is wrong: each rule of the doctor, broken and whole, without a server."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tidegate.core import health_rules as rules
from tidegate.core.health import Finding, exit_code, ok, unknown, worst_first
from tidegate.core.health_rules import DagFacts, Place

ROOT = Path(__file__).parents[2]
GOOD = {
    "apache-airflow": "2.11.2", "apache-airflow-providers-apache-spark": "5.6.0",
    "apache-airflow-providers-apache-kafka": "1.10.0", "apache-airflow-providers-apache-hive": "9.1.0",
    "SQLAlchemy": "1.4.54", "pendulum": "3.1.0", "pydantic": "2.11.7", "confluent-kafka": "2.10.1",
    "hdfs-native": "0.14.7", "pyhive": "0.7.0", "thrift": "0.22", "pure-sasl": "0.6", "pyspark": "3.5.9",
    "pyarrow": "21.0.0", "duckdb": "2.0.0",
}  # fmt: skip
KINDS = ("ingest", "archive", "replay", "maintain")


def levels(found: list[Finding]) -> set[str]:
    return {f.level for f in found}


def test_a_good_set_of_libraries_is_one_line() -> None:
    (found,) = rules.packages(GOOD, worker_here=True)
    assert (found.level, "apache-airflow 2.11.2, pyspark 3.5.9" in found.what) == ("ok", True)
    assert set(GOOD) == set(rules.PACKAGES)


@pytest.mark.parametrize(
    ("name", "version", "mend"),
    [
        ("apache-airflow", "2.10.5", "apache-airflow>=2.11.2,<3"),
        ("apache-airflow", "3.0.0", "<3"),
        ("apache-airflow-providers-apache-spark", "6.0.0", "<6"),
        ("pyspark", "4.0.0", "<4"),
        ("pyspark", None, "pyspark>=3.5.9"),
        ("thrift", None, "thrift"),
        ("SQLAlchemy", "2.0.1", "<2"),
        ("confluent-kafka", "2.9.9", ">=2.10"),
    ],
)
def test_a_library_that_does_not_fit_is_named_with_what_to_install(name: str, version: str | None, mend: str) -> None:
    (found,) = rules.packages(GOOD | {name: version}, worker_here=True)
    assert (found.level, found.about) == ("wrong", name)
    assert mend in found.mend
    assert "pip install" in found.mend


def test_a_host_whose_jobs_run_elsewhere_needs_no_worker_libraries() -> None:
    found = rules.packages(GOOD | dict.fromkeys(("pyspark", "pyarrow", "duckdb")), worker_here=False)
    assert levels(found) == {"ok"}


def test_the_versions_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["worker"]]
    texts = {re.split(r"[\[<>=]", a)[0].lower(): a for a in asked}
    for name, (least, below, _) in rules._VERSIONS.items():
        text = texts.get(name.lower(), "")
        assert least == "0" or f">={least}" in text, (name, text)
        assert below is None or f"<{below}" in text, (name, text)


def test_a_wheel_and_a_copy_of_another_version() -> None:
    wheel, copy = (
        Place("wheel", "/site/tidegate", "1.2", "abc", True),
        Place("plugins", "/plugins/tidegate", "copy", "def"),
    )
    wrong = rules.installations([wheel, copy])
    assert wrong.level == "wrong"
    assert "remove /plugins/tidegate; then restart scheduler" in wrong.mend
    same = rules.installations([wheel, Place("plugins", "/plugins/tidegate", "copy", "abc")])
    assert same.level == "warning"
    assert rules.installations([wheel]).level == "ok"


def test_executors_that_import_another_version() -> None:
    for name in ("tidegate-0.1.0-py3-none-any.whl", "tidegate-worker-0.1.0-cp311-linux_x86_64.tar.gz"):
        (found,) = rules.archives(["", f"hdfs:///a/{name}"], "0.2.0")
        assert (found.level, "0.1.0" in found.what, "0.2.0" in found.what) == ("wrong", True, True)
        assert levels(rules.archives([f"/a/{name}"], "0.1.0")) == {"ok"}
    assert rules.archives([""], "0.2.0") == []


@pytest.mark.parametrize(("version", "level"), [("3.11.7", "ok"), ("3.12.1", "wrong"), ("3.1.0", "wrong")])
def test_python(version: str, level: str) -> None:
    assert rules.python(version).level == level


@pytest.mark.parametrize(
    ("beats", "wrong"),
    [
        ({"scheduler": 95.0, "triggerer": 99.0}, set()),
        ({"scheduler": 95.0, "triggerer": None}, {"triggerer"}),
        ({"scheduler": 95.0}, {"triggerer"}),
        ({"scheduler": 39.0, "triggerer": 40.0}, {"scheduler"}),  # a killed one stays `running` in the table
    ],
)
def test_services_that_do_not_beat(beats: dict[str, float | None], wrong: set[str]) -> None:
    found = rules.services(beats, 100.0)
    assert {f.check for f in found if f.level == "wrong"} == wrong
    assert all(f"airflow {f.check} -D" in f.mend for f in found if f.level == "wrong")


def test_pools() -> None:
    nine = [f"p{i}" for i in range(9)]
    assert levels(rules.pools({"a": nine, "b": ["p"]}, {"a": 2, "b": 1})) == {"ok"}
    assert levels(rules.pools({"a": nine}, {"a": -1})) == {"ok"}
    missing, empty, small = (rules.pools({"a": nine}, found)[0] for found in ({}, {"a": 0}, {"a": 1}))
    assert (missing.level, "--fix" in missing.mend) == ("wrong", True)
    assert (empty.level, empty.mend) == ("wrong", "airflow pools set a 4 'Tidegate'")
    assert (small.level, small.mend) == ("warning", "airflow pools set a 2 'Tidegate'")


def test_dags() -> None:
    facts = {f"p.{kind}": DagFacts(paused=False, active=True) for kind in KINDS}
    assert levels(rules.dags("p", KINDS, facts)) == {"ok"}
    assert levels(rules.dags("p", KINDS, facts | {"p.replay": DagFacts(True, True)})) == {"ok"}, (
        "a backfill runs it paused"
    )
    (paused,) = rules.dags("p", KINDS, facts | {"p.maintain": DagFacts(True, True)})
    assert (paused.level, paused.mend) == ("warning", "airflow dags unpause p.maintain")
    for gone in ({**facts, "p.ingest": DagFacts(False, False)}, {k: v for k, v in facts.items() if k != "p.ingest"}):
        (found,) = rules.dags("p", KINDS, gone)
        assert (found.level, found.what) == ("wrong", "Airflow has no DAG p.ingest")


@pytest.mark.parametrize(
    ("ahead", "level"),
    [(0.5, "ok"), (-1.9, "ok"), (2.5, "warning"), (-29.0, "warning"), (31.0, "wrong"), (-31.0, "wrong")],
)
def test_clocks(ahead: float, level: str) -> None:
    found = rules.clock("the ledger's database", ahead)
    assert found.level == level
    assert level == "ok" or ("ahead of" in found.what) == (ahead > 0)


@pytest.mark.parametrize(("count", "level"), [(6, "ok"), (5, "ok"), (4, "warning"), (0, "warning")])
def test_retries(count: int, level: str) -> None:
    found = rules.retries("p", "ingest.retries", count, 15, 600)
    assert found.level == level
    assert level == "ok" or found.mend == "ingest.retries: 5 or more"


def test_a_topic() -> None:
    day = 86_400_000
    assert rules.topic("p", "t", 7 * day, True, 2 * day).level == "ok"
    assert rules.topic("p", "t", None, True, 2 * day).level == "ok"
    assert rules.topic("p", "t", day, False, 2 * day).level == "ok"
    assert rules.topic("p", "t", day, True, 2 * day).level == "warning"
    assert rules.topic("p", "t", None, None, 2 * day).level == "warning"


def test_storage_and_its_filesystem() -> None:
    assert rules.storage("p", "file:///l", ["create"], "", "").level == "ok"
    wrong = rules.storage("p", "file:///l", ["create"], "rename", "no")
    assert (wrong.level, "cannot rename: no" in wrong.what) == ("wrong", True)
    assert levels(rules.same_filesystem("p", "file:///l", "file:///w", False)) == {"wrong"}
    assert levels(rules.same_filesystem("p", "file:///l", "file:///w", True)) == {"ok"}
    assert rules.same_filesystem("p", "file:///l", "file:///w", None) == []
    assert rules.space("p", "file:///l", 4, 100).level == "warning"
    assert rules.space("p", "file:///l", 6, 100).level == "ok"


def test_connections() -> None:
    assert rules.connection("k", ("kafka",), "kafka", {"p"}).level == "ok"
    assert rules.connection("k", (), "odd", {"p"}).level == "ok"
    wrong = rules.connection("k", ("kafka",), "http", {"q", "p"})
    assert (wrong.level, wrong.means) == ("wrong", "needed by p, q")
    assert rules.missing_connection("k", "no k", "add it", {"p"}).level == "wrong"


def test_executor_and_import_errors() -> None:
    assert rules.executor("SequentialExecutor")[0].level == "wrong"
    assert rules.executor("LocalExecutor")[0].level == "ok"
    assert rules.executor(None) == []
    (found,) = rules.import_errors([("/dags/tidegate_pipelines.py:p.yaml", "p.yaml:3: not a size")])
    assert (found.level, found.what) == ("wrong", "/dags/tidegate_pipelines.py:p.yaml: p.yaml:3: not a size")


def test_exit_codes_and_order() -> None:
    well, wrong, yaml = ok("a", "x"), Finding("a", "wrong", "x"), Finding("yaml", "wrong", "x")
    warning, dark = Finding("a", "warning", "x"), unknown("a", "x")
    assert exit_code([well, warning]) == 0
    assert exit_code([]) == 0
    assert exit_code([well, dark, warning]) == 3
    assert exit_code([yaml, dark]) == 2
    assert exit_code([yaml, wrong, dark]) == 1
    assert [f.level for f in worst_first([well, dark, warning, wrong])] == ["wrong", "warning", "unknown", "ok"]
