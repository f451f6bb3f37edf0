"""The wheel's bounds admit what Airflow's own constraints pin, and what the tests run with."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tidegate
from tidegate.core.doctor import rules

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEWER = {"duckdb"}
"""Airflow's constraints name it now and then; expressions need a newer one: docs/install.md says how."""


def needed(*extras: str) -> dict[str, Requirement]:
    named = [*PROJECT["dependencies"], *(one for extra in extras for one in PROJECT["optional-dependencies"][extra])]
    return {canonicalize_name(Requirement(one).name): Requirement(one) for one in named}


def pins(path: Path) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s\\;]+)", path.read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


@pytest.mark.parametrize("published", sorted((ROOT / "tests/fixtures/airflow").glob("constraints-*.txt")))
def test_the_wheel_installs_under_airflows_constraints(published: Path) -> None:
    wants, has = needed("postgres", "mysql", "worker"), pins(published)
    both = wants.keys() & has.keys()
    assert len(both) >= 15
    refused = {name: str(wants[name]) for name in both if has[name] not in wants[name].specifier}
    assert not {name: why for name, why in refused.items() if name not in NEWER}


def test_the_lock_is_within_the_wheels_bounds() -> None:
    wants, has = needed("postgres", "mysql", "worker", "iceberg"), pins(ROOT / "requirements.lock")
    assert wants.keys() <= has.keys()
    assert not {name: has[name] for name, one in wants.items() if has[name] not in one.specifier}


def test_the_doctor_asks_for_the_versions_of_the_project() -> None:
    asked = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["worker"]]
    texts = {re.split(r"[\[<>=]", a)[0].lower(): a for a in asked}
    for name, (least, below, _) in rules._VERSIONS.items():
        text = texts.get(name.lower(), "")
        assert least == "0" or f">={least}" in text, (name, text)
        assert below is None or f"<{below}" in text, (name, text)


def test_the_sources_say_their_version() -> None:
    """Where a folder is copied there is no distribution to ask."""
    assert PROJECT["version"] == tidegate.__version__
