"""Commands about Spark's start on this machine."""

from __future__ import annotations

import click

from tidegate.cli.output import progress
from tidegate.settings import load


@click.group()
def spark() -> None:
    """How Spark jobs start on this machine: prepare a faster start, end warm sessions."""


@spark.command()
def prepare() -> None:
    """Make the archive of Spark's classes that jobs with a local master start with; takes half a minute.

    Run it on each Airflow worker, as Airflow's user and with its environment, and again after an update of Java or
    Spark. The file is <AIRFLOW_HOME>/tidegate/spark.jsa, or the setting spark_class_archive. Jobs run without it too,
    a few seconds slower. Java 13 or later.

    \b
    Example:
      tidegate spark prepare

    \b
    Exit code: 0 it is there; 1 Spark does not run, or this Java cannot.
    """
    from tidegate.spark.class_archive import make_class_archive

    settings = load()
    archive = settings.spark_class_archive
    make_class_archive(settings.spark_binary, archive, progress)
    click.echo(f"{archive}: {archive.stat().st_size / 1e6:.0f} MB; jobs with a local master use it from now on")


@spark.command()
def end() -> None:
    """End this user's warm sessions on this machine, each after the plan that it works on.

    The next job of a pipeline with `ingest.spark.session: warm` starts a new one.

    \b
    Example:
      tidegate spark end

    \b
    Exit code: 0, also without a session.
    """
    from tidegate.spark.warm_session import end_sessions

    click.echo(f"{end_sessions(load().spark_session_folder)} warm sessions were told to end")
