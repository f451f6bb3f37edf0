"""How a job on a cluster ends, and who ends it."""

from __future__ import annotations

import getpass
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fakes import yarn as fake_yarn

from tests.spark.test_spark_cluster import connect
from tests.spark.test_spark_launcher import PLAN, airflow_launcher, settings, spark  # noqa: F401
from tidegate.airflow.launcher import AirflowSparkLauncher
from tidegate.core.base.errors import JobKilled
from tidegate.spark import yarn
from tidegate.spark.launcher import SubprocessLauncher

# ---------------------------------------------------------------- how it ends


@pytest.fixture
def rm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[fake_yarn.FakeYarn]:
    with fake_yarn.serving() as fake:
        for name, value in fake.conf(tmp_path / "hadoop").items():
            if name != "PATH":
                monkeypatch.setenv(name, value)
        yield fake


def plain(binary: Path) -> SubprocessLauncher:
    return SubprocessLauncher(lambda line: None, str(binary), "yarn")


@pytest.mark.parametrize("launcher", [airflow_launcher, plain])
def test_a_kill_ends_the_application_without_a_command_yarn(
    spark: Callable[[str], Path],  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rm: fake_yarn.FakeYarn,
    launcher: Callable,
) -> None:
    """What spark-submit says of the application is not even needed: a logging configuration may hide it."""
    connect(monkeypatch, "yarn", **{"deploy-mode": "cluster"})
    monkeypatch.setattr("shutil.which", _without("yarn"))
    monkeypatch.setattr("tidegate.airflow.launcher.CLIENT_LEAVES_S", 0.1)
    monkeypatch.setenv("PATH", str(tmp_path))
    job = launcher(spark("print('Submitted application_1_0007', flush=True)\ntime.sleep(600)"))
    errors: list[BaseException] = []
    thread = threading.Thread(target=lambda: _noting(errors, lambda: job.run(PLAN)), daemon=True)
    thread.start()
    tag = _until(lambda: settings(tmp_path)["spark.yarn.tags"])
    rm.applications = {
        "application_1_0007": (tag, "RUNNING"),
        "application_1_0008": ("tidegate-other", "RUNNING"),
        "application_1_0006": (tag, "FINISHED"),
    }
    _until(lambda: not isinstance(job, AirflowSparkLauncher) or job._job._hook._submit_sp)  # type: ignore[union-attr]
    job.kill()
    thread.join(60)
    assert [type(e) for e in errors] == [JobKilled]
    assert {name: state for name, (_, state) in rm.applications.items()} == {
        "application_1_0007": "KILLED",
        "application_1_0008": "RUNNING",
        "application_1_0006": "FINISHED",
    }
    assert rm.users == [getpass.getuser()]


def test_a_resource_manager_that_refuses_leaves_it_to_the_command(tmp_path: Path) -> None:
    command = tmp_path / "bin" / "yarn"
    command.parent.mkdir()
    command.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n[ $2 = -list ] && echo "application_1_0007 tidegate RUNNING"\n:\n'
    )
    command.chmod(0o755)
    said: list[str] = []
    with fake_yarn.serving() as fake, pytest.MonkeyPatch.context() as patch:
        fake.refuses = 401
        patch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
        yarn.end_applications("tag", said.append, fake.conf(tmp_path / "conf") | {"PATH": os.environ["PATH"]})
    assert (tmp_path / "asked").read_text().splitlines()[1:] == ["application -kill application_1_0007"]
    assert said == ["YARN ends application_1_0007"]


def test_nobody_to_ask_is_said_with_the_commands(tmp_path: Path) -> None:
    said: list[str] = []
    yarn.end_applications("tag", said.append, {"PATH": "/nowhere"})
    yarn.end_applications(
        "tag", said.append, fake_yarn.site(tmp_path / "c", {"yarn.resourcemanager.webapp.address": "127.0.0.1:1"})
    )
    assert "no yarn-site.xml in HADOOP_CONF_DIR" in said[0]
    assert "Connection refused" in said[1]
    assert all("yarn application -list -appTags tag" in line and "never published" in line for line in said)


def test_resource_managers_are_found_as_hadoop_finds_them(tmp_path: Path) -> None:
    def found(**properties: str) -> list[str]:
        names = {f"yarn.{key.replace('__', '-').replace('_', '.')}": value for key, value in properties.items()}
        return yarn.resource_managers(fake_yarn.site(tmp_path / "c", names))

    assert found(resourcemanager_hostname="rm") == ["http://rm:8088"]
    address = "${yarn.resourcemanager.hostname}:9088"
    assert found(resourcemanager_hostname="rm", resourcemanager_webapp_address=address) == ["http://rm:9088"]
    assert found(resourcemanager_hostname="rm", http_policy="HTTPS_ONLY") == ["https://rm:8090"]
    assert found(
        resourcemanager_ha_enabled="true",
        resourcemanager_ha_rm__ids="one, two",
        resourcemanager_hostname_one="a",
        resourcemanager_webapp_address_two="b:80",
    ) == ["http://a:8088", "http://b:80"]
    assert found() == []


def _without(name: str) -> Callable[..., str | None]:
    import shutil

    real = shutil.which
    return lambda command, *a, **k: None if command == name else real(command, *a, **k)


def _noting(errors: list[BaseException], run: Callable[[], None]) -> None:
    try:
        run()
    except BaseException as e:
        errors.append(e)


def _until(look: Callable[[], object]) -> object:
    deadline = time.monotonic() + 60
    while True:
        try:
            if found := look():
                return found
        except (OSError, ValueError, AttributeError, KeyError):
            pass
        assert time.monotonic() < deadline
        time.sleep(0.01)
