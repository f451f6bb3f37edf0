"""When a set-up is wrong: each rule of the doctor, broken and whole, without a server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from tidegate.core.base.wording import size
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
from tidegate.core.doctor.rules import Place

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
    limits = [limit for least, below, _ in rules._VERSIONS.values() for limit in (least, below or "")]
    assert not [limit for limit in limits if limit.endswith(".0")], "3 is below 3.0 as they are compared"


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
        ("pyhive", "what is this", "'pyhive>=0.7'"),
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
    helped = rules.storage("p", "file:///l", [], "create directories", "the filesystem is read-only", "mount it")
    assert helped.mend == "mount it"
    store = rules.storage("p", "s3://l", ["create"], "rename", "no")
    assert store.mend.startswith("check sink.object_store_conn_id, and give its login the rights")


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
        assert found.what == f"file:///l: {size(free)} of {size(total)} are free"
        assert "tidegate clean p" in found.mend
    else:
        assert found.what == f"file:///l: {size(free)} are free"


def test_connections() -> None:
    fits = rules.connection("k", ("kafka",), "kafka", {"p"})
    assert (told(fits), fits.what) == ([("connections", OK, "k")], "connection k (kafka)")
    assert told(rules.connection("k", (), "odd", {"p"})) == [("connections", OK, "k")]
    assert rules.connection("k", (), None, {"p"}).what == "connection k (no type)"
    wrong = rules.connection("k", ("kafka", "http"), "hdfs", {"q", "p"})
    assert told(wrong) == [("connections", WRONG, "k")]
    assert (wrong.what, wrong.means) == ("connection k is of type hdfs, not http or kafka", "needed by p, q")
    assert wrong.mend.endswith("airflow connections get k")
    generic = rules.connection("k", ("mysql", "mariadb"), "generic", {"p"}).mend
    assert generic.startswith("without the type's provider Airflow's form and --conn-type make a generic one: ")
    assert (
        'airflow connections delete k; airflow connections add k --conn-json \'{"conn_type": "mariadb|mysql"' in generic
    )
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
