"""Airflow's own library in a command's process: its database must be the scheduler's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

import click

from tidegate.cli.failures import CANNOT_TELL, WRONG, Failed
from tidegate.core.base.wording import first_line


@contextmanager
def airflow_library(command: str) -> Iterator[None]:
    """Import Airflow, with its log on standard error. Raises Failed where it is not installed, or its database
    silent."""
    quiet = {"AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING"} | os.environ  # it is read once
    with redirect_stdout(click.get_text_stream("stderr")):
        try:
            with _environment(quiet):
                import airflow.settings  # noqa: F401
        except ModuleNotFoundError as e:
            if (e.name or "").partition(".")[0] != "airflow":
                raise
            raise Failed(
                f"`tidegate {command}` works in Airflow's database, and no Airflow is installed here\n"
                "  what to do: run it where the scheduler runs, or with the same Airflow and its database's address",
                WRONG,
            ) from None
    from sqlalchemy.exc import DBAPIError

    try:
        yield
    except DBAPIError as e:
        raise Failed(
            f"Airflow's database gives no answer: {first_line(e)}\n"
            "  what to do: `airflow db check` says more; AIRFLOW__DATABASE__SQL_ALCHEMY_CONN must be the scheduler's",
            CANNOT_TELL,
        ) from e


@contextmanager
def _environment(wanted: dict[str, str]) -> Iterator[None]:
    added = wanted.keys() - os.environ.keys()
    os.environ.update({name: wanted[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
