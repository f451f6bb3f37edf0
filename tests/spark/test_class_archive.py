"""`tidegate spark prepare`, with a script in spark-submit's place."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tidegate.cli.main import main

SPARK = f"""#!{sys.executable}
import re, sys
(path,) = re.findall("ArchiveClassesAtExit=(.*)", " ".join(a for a in sys.argv if "defaultJavaOptions" in a))
"""


@pytest.fixture
def prepare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs the command with this end of the script; its archive is `home/tidegate/spark.jsa`."""
    binary = tmp_path / "spark-submit"
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AIRFLOW__TIDEGATE__SPARK_BINARY", str(binary))

    def run(body: str) -> Result:
        binary.write_text(SPARK + body)
        binary.chmod(0o755)
        return CliRunner().invoke(main, ["spark", "prepare"])

    return run


def archive(tmp_path: Path) -> Path:
    return tmp_path / "home/tidegate/spark.jsa"


def test_the_archive_appears_where_jobs_look_for_it_and_is_replaced_by_another_run(prepare, tmp_path: Path) -> None:
    for content in ("one", "another"):
        done = prepare(f"open(path, 'w').write({content!r})")
        assert done.exit_code == 0, done.output
        assert archive(tmp_path).read_text() == content
    assert [p.name for p in archive(tmp_path).parent.iterdir()] == ["spark.jsa"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("print('Unrecognized VM option ArchiveClassesAtExit'); sys.exit(1)", "Java 13 or later"),
        ("open(path, 'w'); print('no master'); sys.exit(1)", "no master"),
        ("print('done')", "exit code 0"),
    ],
)
def test_a_failure_says_why_and_leaves_what_was_there(prepare, tmp_path: Path, body: str, says: str) -> None:
    prepare("open(path, 'w').write('old')")
    done = prepare(body)
    assert done.exit_code == 1
    assert says in done.output
    assert archive(tmp_path).read_text() == "old"
    assert [p.name for p in archive(tmp_path).parent.iterdir()] == ["spark.jsa"]
