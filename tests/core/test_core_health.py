"""When a set-up is wrong: each rule of the doctor, broken and whole, without a server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from tidegate.core.doctor import rules as rules
from tidegate.core.doctor.findings import (
    LEVELS,
    OK,
    UNKNOWN,
    WARNING,
    WRONG,
    Finding,
    exit_code,
    ok,
    unknown,
    worst_first,
)
from tidegate.core.doctor.rules import DagFacts, ParseLimits, Place, parsing

GOOD = {
    "apache-airflow": "2.11.2", "apache-airflow-providers-apache-spark": "5.6.0",
    "apache-airflow-providers-apache-kafka": "1.10.0", "apache-airflow-providers-apache-hive": "9.1.0",
    "SQLAlchemy": "1.4.54", "pendulum": "3.1.0", "pydantic": "2.11.7", "confluent-kafka": "2.10.1",
    "hdfs-native": "0.14.7", "pyhive": "0.7.0", "thrift": "0.22", "pure-sasl": "0.6", "pyspark": "3.5.9",
    "pyarrow": "21.0.0", "duckdb": "2.0.0",
}  # fmt: skip
WORKERS = ("pyspark", "pyarrow", "duckdb")
KINDS = ("ingest", "archive", "replay", "maintain")
HOUR = 3_600_000
HERE = "x86_64, glibc"


def told(found: Finding | Iterable[Finding]) -> list[tuple[str, str, str]]:
    """Check, level and subject of each; whatever is wrong says what it means and how to mend it, what is well does
    not, and every text is one for people."""
    findings = [found] if isinstance(found, Finding) else list(found)
    for one in findings:
        texts = (one.what, one.means, one.mend, one.about)
        assert all(isinstance(text, str) for text in texts), one
        assert "None" not in "".join(texts), one
        assert one.what, one
        assert bool(one.means) == bool(one.mend) == (one.level != OK), one
    return [(one.check, one.level, one.about) for one in findings]


# ---------------------------------------------------------------- what is installed


def test_a_good_set_of_libraries_is_one_line() -> None:
    (found,) = rules.packages(GOOD, worker_here=True)
    assert told(found) == [("versions", OK, "")]
    assert found.what == "apache-airflow 2.11.2, pyspark 3.5.9, pyarrow 21.0.0, and 12 more libraries are as needed"
    assert set(GOOD) == set(rules.PACKAGES)


@pytest.mark.parametrize(
    ("name", "version", "mend"),
    [
        ("apache-airflow", "2.10.5", "apache-airflow>=2.11.2,<3"),
        ("apache-airflow", "2.11.1", "apache-airflow>=2.11.2,<3"),
        ("apache-airflow", "3.0.0", "<3"),
        ("apache-airflow", "3", "<3"),
        ("apache-airflow-providers-apache-spark", "6.0.0", "<6"),
        ("pyspark", "4.0.0", "<4"),
        ("pyspark", None, "pyspark>=3.5.9"),
        ("pyspark", "3.5", "pyspark>=3.5.9"),
        ("thrift", None, "pip install 'thrift>=0', under"),
        ("SQLAlchemy", "2.0.1", "<2"),
        ("confluent-kafka", "2.9.9", ">=2.10"),
        ("pyarrow", "what is this", "'pyarrow>=18'"),
    ],
)
def test_a_library_that_does_not_fit_is_named_with_what_to_install(name: str, version: str | None, mend: str) -> None:
    (found,) = rules.packages(GOOD | {name: version}, worker_here=True)
    assert told(found) == [("versions", WRONG, name)]
    assert (name in found.what, version is None or version in found.what) == (True, True)
    assert mend in found.mend
    assert "pip install" in found.mend
    assert ("jobs on this machine" in found.means) == (version is None and name in WORKERS)
    assert ("nothing here" in found.means) == name.endswith("apache-spark"), "a client that only looks like pyspark"
    if version is not None:
        assert f"is made for {name}>=" in found.means


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("apache-airflow", "2.11.2"),
        ("apache-airflow", "2.12"),
        ("apache-airflow", "2.100.0"),
        ("pydantic", "2.11"),
        ("pydantic", "2.11.0"),
        ("duckdb", "2"),
        ("pyarrow", "18.0.0"),
        ("pyspark", "3.5.9.post1"),
        ("thrift", "0.0.1"),
        ("thrift", "0"),
        ("pendulum", "99"),
    ],
)
def test_versions_are_numbers_and_zeros_at_the_end_say_nothing(name: str, version: str) -> None:
    assert [level for _, level, _ in told(rules.packages(GOOD | {name: version}, worker_here=True))] == [OK]


def test_every_library_that_does_not_fit_is_named() -> None:
    found = rules.packages(GOOD | {"thrift": None, "duckdb": "1.4", "SQLAlchemy": "2.0"}, worker_here=True)
    assert told(found) == [("versions", WRONG, name) for name in ("SQLAlchemy", "thrift", "duckdb")]
    assert len(rules.packages({}, worker_here=True)) == len(GOOD)


def test_a_host_whose_jobs_run_elsewhere_needs_no_worker_libraries() -> None:
    (found,) = rules.packages(GOOD | dict.fromkeys(WORKERS), worker_here=False)
    assert told(found) == [("versions", OK, "")]
    assert found.what == "apache-airflow 2.11.2, and 11 more libraries are as needed"
    assert told(rules.packages(GOOD | {"pyspark": "4.0"}, worker_here=False)) == [("versions", WRONG, "pyspark")]


@pytest.mark.parametrize(
    ("version", "level"), [("3.11.7", OK), ("3.11.0", OK), ("3.12.1", WRONG), ("3.1.0", WRONG), ("3.110.1", WRONG)]
)
def test_python(version: str, level: str) -> None:
    found = rules.python(version)
    assert told(found) == [("python", level, "")]
    assert version in found.what


WHEEL = Place("wheel", "/site/tidegate", "1.2", "abc", True)
COPY = Place("plugins", "/plugins/tidegate", "copy", "def")


def test_a_wheel_and_a_copy_of_another_version() -> None:
    wrong = rules.installations([WHEEL, COPY])
    assert told(wrong) == [("installation", WRONG, "")]
    assert "wheel 1.2 in /site/tidegate; plugins copy in /plugins/tidegate" in wrong.what
    assert wrong.means.startswith("/site/tidegate is imported here")
    assert "remove /plugins/tidegate; then restart scheduler" in wrong.mend
    copied = rules.installations([replace(WHEEL, used=False), replace(COPY, used=True)])
    assert copied.means.startswith("/plugins/tidegate is imported here")
    assert "remove /site/tidegate; then" in copied.mend
    nobody = rules.installations([replace(WHEEL, used=False), COPY])
    assert nobody.means.startswith("/site/tidegate is imported here"), "the first that was looked for"
    third = rules.installations([WHEEL, COPY, replace(COPY, path="/other")])
    assert "remove /plugins/tidegate, /other; then" in third.mend


def test_a_wheel_and_a_copy_of_the_same() -> None:
    same = rules.installations([WHEEL, replace(COPY, content="abc")])
    assert told(same) == [("installation", WARNING, "")]
    assert "wheel 1.2 in /site/tidegate; plugins copy in /plugins/tidegate" in same.what
    alone = rules.installations([WHEEL])
    assert told(alone) == [("installation", OK, "")]
    assert alone.what == "wheel 1.2 in /site/tidegate"


@pytest.mark.parametrize(
    "name",
    [
        "tidegate-{}-py3-none-any.whl",
        "tidegate-worker-{}-cp311-linux_x86_64.tar.gz",
        "tidegate-worker-{}.tar.gz",
        "tidegate-{}.zip",
    ],
)
def test_executors_that_import_another_version(name: str) -> None:
    for there, here in (("0.1.0", "0.2.0"), ("0.2", "0.2.0"), ("1.0rc1", "1.0"), ("1.0", "1.0.dev2")):
        path = f"hdfs:///tidegate-9.9/{name.format(there)}"
        (found,) = rules.archives(["", path], here, HERE)
        assert told(found) == [("archives", WRONG, "")]
        assert found.what == f"executors import tidegate {there}, Airflow has {here}"
        assert found.mend.endswith(path)
    for same in ("0.1.0", "1.0rc1", "1.0.dev2"):
        assert told(rules.archives([f"/a/{name.format(same)}"], same, HERE)) == [("archives", OK, "")]


def test_archives_whose_names_say_no_version_are_not_judged() -> None:
    assert rules.archives([""], "0.2.0", HERE) == rules.archives([], "0.2.0", HERE) == []
    (plain,) = rules.archives(["", "/a/mine.zip", "/b/tidegate-worker-0.2.0.tar.gz"], "0.2.0", HERE)
    assert told(plain) == [("archives", OK, "")]
    assert plain.what == "/a/mine.zip, /b/tidegate-worker-0.2.0.tar.gz"
    odd = rules.archives(["/a/mine.zip", "/b/tidegate-worker-0.1.0.tar.gz", "/c/tidegate-0.1.1.whl"], "0.2.0", HERE)
    assert [one.what[:32] for one in odd] == ["executors import tidegate 0.1.0,", "executors import tidegate 0.1.1,"]


@pytest.mark.parametrize(
    ("name", "platform"),
    [
        ("tidegate-worker-0.2.0-cp311-linux_x86_64.tar.gz", "x86_64, glibc"),
        ("tidegate-worker-0.2.0-cp311-linux_aarch64.tar.gz", "aarch64, glibc"),
        ("tidegate-worker-0.2.0-cp311-musllinux_x86_64.tar.gz", "x86_64, musl"),
        ("tidegate-0.2.0-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.whl", "aarch64, glibc"),
        ("tidegate-0.2.0-py3-none-musllinux_1_2_aarch64.whl", "aarch64, musl"),
    ],
)
def test_archives_for_executors_of_another_platform_are_mentioned(name: str, platform: str) -> None:
    (found,) = rules.archives([f"hdfs:///a/{name}"], "0.2.0", HERE)
    if platform == HERE:
        assert told(found) == [("archives", OK, "")]
        assert found.what == f"hdfs:///a/{name} (for executors on x86_64, glibc)"
    else:
        assert told(found) == [("archives", WARNING, "")]
        assert found.what == f"hdfs:///a/{name} is for executors on {platform}, this machine is {HERE}"
        assert "make dist ARGS='--workers x86_64-glibc'" in found.mend


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


# ---------------------------------------------------------------- servers and places


@pytest.mark.parametrize(
    ("ahead", "level"),
    [
        (0.0, OK), (0.5, OK), (-1.9, OK), (2.0, OK), (-2.0, OK), (2.5, WARNING), (-2.1, WARNING), (-29.0, WARNING),
        (30.0, WARNING), (-30.0, WARNING), (31.0, WRONG), (-30.1, WRONG), (86_400.0, WRONG),
    ],
)  # fmt: skip
def test_clocks(ahead: float, level: str) -> None:
    found = rules.clock("the ledger's database", ahead)
    assert told(found) == [("clocks", level, "the ledger's database")]
    assert "the ledger's database" in found.what
    if level != OK:
        assert f"{abs(ahead):,.1f} s {'ahead of' if ahead > 0 else 'behind'} this" in found.what


def test_storage_and_its_filesystem() -> None:
    well = rules.storage("p", "file:///l", ["create", "rename"], "", "")
    assert told(well) == [("storage", OK, "p")]
    assert well.what == "file:///l: create, rename"
    wrong = rules.storage("p", "file:///l", ["create"], "rename", "no")
    assert told(wrong) == [("storage", WRONG, "p")]
    assert "file:///l: cannot rename: no" in wrong.what
    assert "the right to rename there" in wrong.mend


def test_a_table_and_its_work_directory() -> None:
    (apart,) = rules.same_filesystem("p", "file:///l", "file:///w", False)
    assert told(apart) == [("workdir", WRONG, "p")]
    assert apart.what == "file:///w is on another filesystem than file:///l"
    (together,) = rules.same_filesystem("p", "file:///l", "file:///w", True)
    assert (told(together), together.what) == ([("workdir", OK, "p")], "file:///w")
    assert rules.same_filesystem("p", "file:///l", "file:///w", None) == []


GB = 10**9


@pytest.mark.parametrize(
    ("free", "total", "level"),
    [
        (4 * GB, 100 * GB, WARNING),
        (5 * GB, 100 * GB, OK),
        (6 * GB, 100 * GB, OK),
        (0, 100 * GB, WARNING),
        (0, 1, WARNING),
        (0, 0, OK),  # no disk of this machine says its size
    ],
)
def test_space(free: int, total: int, level: str) -> None:
    found = rules.space("p", "file:///l", free, total)
    assert told(found) == [("disk", level, "p")]
    if level == WARNING:
        assert f"file:///l: {free / GB:.1f} GB of {total / GB:.0f} GB" in found.what
        assert "tidegate clean p" in found.mend
    else:
        assert found.what == f"file:///l: {free // GB} GB are free"


def test_connections() -> None:
    fits = rules.connection("k", ("kafka",), "kafka", {"p"})
    assert (told(fits), fits.what) == ([("connections", OK, "k")], "connection k (kafka)")
    assert told(rules.connection("k", (), "odd", {"p"})) == [("connections", OK, "k")]
    assert rules.connection("k", (), None, {"p"}).what == "connection k (no type)"
    wrong = rules.connection("k", ("kafka", "http"), "hdfs", {"q", "p"})
    assert told(wrong) == [("connections", WRONG, "k")]
    assert (wrong.what, wrong.means) == ("connection k is of type hdfs, not http or kafka", "needed by p, q")
    assert wrong.mend.endswith("airflow connections get k")
    assert rules.connection("k", ("kafka",), None, {"p"}).what == "connection k is of type none, not kafka"
    missing = rules.missing_connection("k", "no k", "add it", {"q", "p"})
    assert told(missing) == [("connections", WRONG, "k")]
    assert (missing.what, missing.means, missing.mend) == ("no k", "needed by p, q", "add it")


def test_a_server_that_said_no() -> None:
    assert rules.refused("hive", "lake.t", "no", "nothing works", "ask") == Finding(
        "hive", WRONG, "no", "nothing works", "ask", "lake.t"
    )
    assert rules.refused("hive", "lake.t", "no", "nothing works", "ask", WARNING).level == WARNING
    with pytest.raises(AssertionError):
        rules.refused("hive", "lake.t", "no", "nothing works", "ask", OK)


# ---------------------------------------------------------------- all of them


def test_kinds_of_findings() -> None:
    assert (ok("a", "fine", "x"), ok("a", "fine").about) == (Finding("a", "ok", "fine", "", "", "x"), "")
    dark = unknown("a", "no answer", "look there", "x")
    assert told(dark) == [("a", "unknown", "x")]
    assert (dark.what, dark.mend) == ("no answer", "look there")
    assert (unknown("a", "no answer").mend, unknown("a", "no answer").about) == ("", "")


WELL, BAD, YAML = ok("a", "x"), Finding("a", WRONG, "x"), Finding("yaml", WRONG, "x")
SO_SO, DARK = Finding("a", WARNING, "x"), unknown("a", "x")


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([], 0),
        ([WELL], 0),
        ([WELL, SO_SO], 0),
        ([ok("yaml", "x")], 0),
        ([WELL, DARK, SO_SO], 3),
        ([DARK], 3),
        ([YAML, DARK], 2),
        ([YAML, YAML, WELL], 2),
        ([YAML, BAD, DARK], 1),
        ([BAD, YAML], 1),
        ([BAD], 1),
    ],
)
def test_exit_codes(findings: Sequence[Finding], code: int) -> None:
    assert exit_code(findings) == code
    assert exit_code(iter(findings)) == code


def test_the_worst_is_told_first_and_the_same_things_together() -> None:
    assert (WRONG, WARNING, UNKNOWN, OK) == LEVELS
    assert [f.level for f in worst_first([WELL, DARK, SO_SO, BAD])] == [WRONG, WARNING, UNKNOWN, OK]
    mixed = [Finding(check, WRONG, "x", about=about) for check, about in (("b", "q"), ("c", "p"), ("a", "q"))]
    assert [(f.about, f.check) for f in worst_first(mixed)] == [("p", "c"), ("q", "a"), ("q", "b")]
    assert worst_first([]) == []


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
def test_a_parse_is_held_against_what_airflow_allows(
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
