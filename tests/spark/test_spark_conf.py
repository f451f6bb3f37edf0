"""What every job's spark-submit is told by default, and that whoever says otherwise wins."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
import zipimport
from pathlib import Path

import pytest

from spark_jobs import lean
from tidegate.spark.conf import DEFAULT_JAVA, EXTRA_JAVA, LOCAL, SHORT_LIVED, YARN, driver_conf, is_local

ROOT = Path(__file__).parents[2]
RUN: dict = {
    "env": os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])},
    "capture_output": True, "text": True, "check": True,
}  # fmt: skip
QUIET = {"spark.log.level": "WARN"}


@pytest.mark.parametrize(
    ("master", "local"),
    [("local", True), ("local[2]", True), ("local[*]", True), ("local[2,3]", True), ("local-cluster[2,1,512]", False),
     ("yarn", False), ("spark://local:7077", False), ("k8s://https://local", False), ("", False)],
)  # fmt: skip
def test_only_a_local_master_is_tuned(master: str, local: bool) -> None:
    assert is_local(master) is local
    assert driver_conf({}, master=master) == QUIET | (
        LOCAL | {DEFAULT_JAVA: SHORT_LIVED} if local else YARN if master == "yarn" else {}
    )


def test_the_class_archive_is_named_where_there_is_one(tmp_path: Path) -> None:
    archive = tmp_path / "spark.jsa"
    assert driver_conf({}, master="local", archive=archive)[DEFAULT_JAVA] == SHORT_LIVED
    archive.touch()
    assert (
        driver_conf({}, master="local", archive=archive)[DEFAULT_JAVA]
        == f"{SHORT_LIVED} -XX:SharedArchiveFile={archive}"
    )


def test_options_of_the_settings_replace_ours_and_come_before_the_pipelines() -> None:
    own = {EXTRA_JAVA: "-Dx=1", "spark.ui.enabled": "true"}
    assert driver_conf(own, "-Xss4m", "local") == QUIET | LOCAL | own | {EXTRA_JAVA: "-Xss4m -Dx=1"}
    assert driver_conf(own, "", "local") == QUIET | LOCAL | own
    assert driver_conf({}, "", "local") == QUIET | LOCAL
    assert driver_conf(own, "-Xss4m", "yarn") == QUIET | YARN | own | {EXTRA_JAVA: "-Xss4m -Dx=1"}


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with PySpark in it, whose zips spark-submit has put in front."""
    for name in ("pyspark", "py4j"):
        (tmp_path / "site-packages" / name).mkdir(parents=True)
        (tmp_path / "site-packages" / name / "__init__.py").touch()
    home = tmp_path / "site-packages" / "pyspark"
    zips = [str(home / "python" / "lib" / name) for name in ("pyspark.zip", "py4j-0.10.9.7-src.zip")]
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setattr(sys, "path", ["/job", *zips, "/lib", str(tmp_path / "site-packages")])
    return tmp_path / "site-packages"


def test_pyspark_comes_from_the_installed_package_not_from_its_zip(packages: Path) -> None:
    lean.pyspark_from_its_folder()
    assert sys.path == ["/job", "/lib", str(packages)]


@pytest.mark.parametrize("lacks", ["pyspark", "py4j", "path", "home"])
def test_without_that_very_package_the_zips_stay(packages: Path, monkeypatch: pytest.MonkeyPatch, lacks: str) -> None:
    if lacks == "path":
        sys.path.pop()
    elif lacks == "home":
        monkeypatch.delenv("SPARK_HOME")
    else:
        (packages / lacks / "__init__.py").unlink()
    before = list(sys.path)
    lean.pyspark_from_its_folder()
    assert sys.path == before


def test_a_job_converts_lists_without_pandas() -> None:
    code = (
        "import sys; from spark_jobs import lean\n"
        "lean.without_pandas(); lean.without_pandas()\n"
        "import pyarrow; pyarrow.array([1, None])\n"
        "print('pandas' in sys.modules, [type(f) for f in sys.meta_path].count(lean._Hidden))"
    )
    assert subprocess.run([sys.executable, "-c", code], **RUN).stdout.split() == ["False", "1"]


def test_archives_on_the_path_are_read_once_however_often_caches_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archives = [tmp_path / "of_spark.zip", tmp_path / "added.zip"]
    for archive in archives:
        with zipfile.ZipFile(archive, "w") as found:
            found.writestr(f"in_{archive.stem}.py", "")
    read: list[str] = []
    directory_of = zipimport._read_directory  # type: ignore[attr-defined]
    monkeypatch.setattr(zipimport, "_read_directory", lambda path: read.append(path) or directory_of(path))
    monkeypatch.setattr(sys, "path_importer_cache", {})
    monkeypatch.setattr(sys, "path", [str(archives[0])])
    assert importlib.util.find_spec("in_of_spark") is not None
    lean.archives_as_they_are()
    sys.path.append(str(archives[1]))
    assert importlib.util.find_spec("in_added") is not None, "one that comes later is found"
    before = list(read)
    importlib.invalidate_caches()
    assert read[len(before) :] == [str(archives[1])]
    assert importlib.util.find_spec("in_of_spark") is not None


def test_a_job_imports_neither_duckdb_nor_a_client_before_it_needs_them() -> None:
    """Each is a part of every cold start that most pipelines would pay for nothing."""
    code = f"import sys, {lean.ENGINE}; print([m for m in ('duckdb', 'confluent_kafka') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], **RUN).stdout.strip() == "[]"


def test_a_merge_writes_and_reads_every_format_without_numpy() -> None:
    code = (
        "import io, sys; from spark_jobs import lean\n"
        "lean.pyarrow_without_numpy(); lean.without_pandas()\n"
        "import spark_jobs.rewrite, pyarrow as pa\n"
        "from spark_jobs.engine.sinks import Encoding, format_of\n"
        "at = pa.array([0, -1_000_000, None], pa.timestamp('us', 'UTC'))\n"
        "rows = pa.table({'at': at, 'n': [1, 2, 3], 's': pa.array([{'x': 1}, None, {'x': 3}])})\n"
        "for name, codec in (('orc', 'zstd'), ('parquet', 'zstd'), ('text', 'gzip')):\n"
        "    some = rows.select(['at', 'n']) if name == 'text' else rows\n"
        "    stream, of = io.BytesIO(), format_of(name)\n"
        "    assert of.unfit(some) == {}\n"
        "    writer = of.join(stream, some.schema, Encoding([], []), codec)\n"
        "    writer.write(some); writer.close({})\n"
        "    stream.seek(0)\n"
        "    back = of.read(stream, 'x' + of.extension(codec), some.schema)\n"
        "    assert pa.Table.from_batches(back.batches(10)).to_pylist() == some.to_pylist(), name\n"
        "print('numpy' in sys.modules)\n"
        "import spark_jobs.engine.rewrite.move; print('numpy' in sys.modules)\n"
        "import numpy; print('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], **RUN).stdout.split() == ["False", "False", "True"]
