"""`tidegate stack`: the real parts on this machine, for a trial of your own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from dev.stack.environment import pipelines_in
from dev.stack.errors import StackError
from dev.stack.info import StackInfo, StackStatus
from dev.stack.places import Places
from dev.stack.registry import HIVES
from dev.stack.stack import FURTHER_PARTS, PARTS, USUAL_PARTS, Stack

T = TypeVar("T")

_root = click.option(
    "--root",
    type=click.Path(file_okay=False, path_type=Path),
    default=lambda: Places.of_checkout().stack,
    help="Folder of the stack.  [default: .tidegate/stack]",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")


@click.group()
def stack() -> None:
    """Kafka, PostgreSQL, Hive and Airflow on this machine, without containers.

    All listen on loopback addresses; everything lies below .tidegate/ and stays there after `down`.
    """


@stack.command()
@_root
@_json
@click.option("--parts", default=",".join(USUAL_PARTS), show_default=True, help="What to start, separated by commas.")
@click.option("--with", "further", multiple=True, type=click.Choice(FURTHER_PARTS),
              help="Start this too. hdfs: pipelines name it by ${TIDEGATE_LAKE_FS}. yarn: Spark's connection "
              "spark_yarn; it brings HDFS. rocketmq: connection rocketmq_default. "
              "clickhouse: two shards, connection clickhouse_default. "
              "iceberg: a REST catalogue, connection iceberg_default. "
              "objects: an object store (S3), connection aws_default; pipelines name its bucket by "
              "${TIDEGATE_LAKE_S3}.")  # fmt: skip
@click.option("--hdfs", is_flag=True, help="The same as --with hdfs.")
@click.option("--hive", type=click.Choice(list(HIVES)), default="spark", show_default=True,
              help="The Hive endpoint: Spark's Thrift server, the same with Iceberg's tables "
              "(SELECT ... FROM iceberg.lake.flights), or with Hive tables in the object store; or a real "
              "HiveServer2, or with its tables in the object store.")  # fmt: skip
@click.option("--port", "ports", multiple=True, metavar="PART=PORT",
              help="A fixed port, e.g. airflow=8080. The others: free ones, the same at the next start.")  # fmt: skip
@click.option("--pipelines", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of pipelines.  [default: dags/pipelines]")  # fmt: skip
@click.option("--foreground", is_flag=True, help="Stay, and end the stack when this command ends (Ctrl-C).")
def up(
    root: Path, as_json: bool, parts: str, further: tuple[str, ...], hdfs: bool, hive: str, ports: tuple[str, ...],
    pipelines: Path | None, foreground: bool,
) -> None:  # fmt: skip
    """Start the stack and print addresses and passwords. A running stack stays as it is.

    \b
    Examples:
      tidegate stack up
      tidegate stack up --parts kafka,postgres --port kafka=9092
      tidegate stack up --with yarn
      tidegate stack up --json | jq -r .airflow_url

    \b
    Exit code: 0 it is up; 1 a part did not start; 2 usage.
    """
    names = [part.strip() for part in parts.split(",")] + [*further] + (["hdfs"] if hdfs else [])
    wanted = Stack(
        root, parts=names, hive=hive, env=pipelines_in(pipelines) if pipelines else None,
        foreground=foreground, ports=_fixed(ports), progress=lambda line: click.echo(line, err=True),
    )  # fmt: skip
    if not foreground:
        _report(_clearly(wanted.up), as_json)
        return
    try:
        _report(_clearly(wanted.up), as_json)
        click.echo("Ctrl-C ends the stack", err=True)
        wanted.wait()
    finally:
        _clearly(wanted.down)


@stack.command()
@_root
@_json
def status(root: Path, as_json: bool) -> None:
    """Show each part, its processes and addresses.

    \b
    Example:
      tidegate stack status --json | jq .ok

    \b
    Exit code: 0 all parts are up; 1 one is down, or there is no stack.
    """
    found = _clearly(Stack(root).status)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=1))
    else:
        _print_status(found)
    if not found.ok:
        raise SystemExit(1)


@stack.command()
@_root
def down(root: Path) -> None:
    """End every process of the stack. The data stays; `up` brings it back.

    \b
    Example:
      tidegate stack down

    \b
    Exit code: 0, also when there is none; 1 it belongs to a process that lives.
    """
    _clearly(Stack(root, progress=lambda line: click.echo(line, err=True)).down)
    click.echo(f"the stack in {root} is down")


@stack.command()
@_root
@click.confirmation_option(prompt="Remove all topics, tables and runs of this stack?")
def wipe(root: Path) -> None:
    """End the stack and remove its data. Downloads and the virtual environment stay.

    \b
    Example:
      tidegate stack wipe --yes

    \b
    Exit code: 0 it is empty; 1 not, or you said no.
    """
    _clearly(Stack(root).wipe)
    click.echo(f"the stack in {root} is empty")


@stack.command()
@_root
def env(root: Path) -> None:
    """Print the environment as `export` lines, for commands of Airflow's.

    \b
    Example:
      eval "$(tidegate stack env)" && airflow dags list

    \b
    Exit code: 0; 1 no stack is up.
    """
    import shlex

    for key, value in sorted(_info(root).env.items()):
        click.echo(f"export {key}={shlex.quote(value)}")


@stack.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@_root
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND...")
def airflow(root: Path, words: tuple[str, ...]) -> None:
    """Run a command of Airflow's against this stack's Airflow.

    \b
    Examples:
      tidegate stack airflow dags list
      tidegate stack airflow tasks clear flights.archive -t publish -s 2013-01-05T04:00 -e 2013-01-05T04:00 -y

    \b
    Exit code: 0 well; 1 no stack is up; else Airflow's own.
    """
    import os

    from dev.stack.airflow_db import airflow_binary

    env = _info(root).env
    os.execve(airflow_binary(), [airflow_binary(), *words], {**os.environ, **env})


@stack.command()
@_root
@click.argument("topic")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--key", metavar="FIELD", help="Field of a JSON message that is its key: one key, one partition.")
@click.option("--partitions", type=click.IntRange(1, 1000), default=4, show_default=True, help="Of a new topic.")
@click.option("--to", type=click.Choice(("kafka", "rocketmq")), default="kafka", show_default=True, help="Where to.")
def produce(root: Path, topic: str, file: str, key: str | None, partitions: int, to: str) -> None:
    """Send each line of FILE to TOPIC as one message; `-` is standard input. A missing topic is created.

    Run twice, it sends the messages twice.

    \b
    Examples:
      tidegate stack produce readings readings.jsonl
      zcat readings.jsonl.gz | tidegate stack produce readings - --key site

    \b
    Exit code: 0 every line was taken; 1 not, or no stack is up.
    """
    from dev.stack.produce import produce_lines, produce_to_rocketmq

    info = _info(root)
    address = info.kafka_bootstrap if to == "kafka" else info.rocketmq_namesrv
    if not address:
        raise click.ClickException(f"the stack in {root} has no {to}; start it with: tidegate stack up --with rocketmq")
    send = produce_lines if to == "kafka" else produce_to_rocketmq
    try:
        with click.open_file(file, "rb") as lines:
            sent = _clearly(lambda: send(address, topic, lines, key, partitions))
    except OSError as e:
        raise click.ClickException(f"{file}: {e.strerror}") from None
    told = f"{sent.messages:,} messages in topic {topic}, {sent.partitions} partitions"
    click.echo(f"{told}; next: tidegate init {topic}" if to == "kafka" else told)


@stack.command()
@_root
@click.argument("query")
def sql(root: Path, query: str) -> None:
    """Ask this stack's Hive; the answer is a header and a line for each row, with tabs between columns.

    Null is `\\N`; binary is base64; booleans are true and false. Within a value a tab is `\\t`, a line feed `\\n`, a
    carriage return `\\r` and a backslash `\\\\`.

    \b
    Example:
      tidegate stack sql 'SELECT `date`, hour, count(*) FROM lake.flights GROUP BY 1, 2 ORDER BY 1, 2'

    \b
    Exit code: 0; 1 Hive refuses it, or no stack is up.
    """
    from dev.stack.query import ask, tsv

    info = _info(root)
    for row in _clearly(lambda: ask(info.hive_host, info.hive_port, query)):
        click.echo(tsv(row))


def _info(root: Path) -> StackInfo:
    found = _clearly(Stack(root).status)
    if found.info is None:
        raise click.ClickException(f"the stack in {root} is down; start it: tidegate stack up")
    return found.info


def _fixed(ports: tuple[str, ...]) -> dict[str, int]:
    fixed = {}
    for text in ports:
        name, _, number = text.partition("=")
        if name not in PARTS or not number.isdigit() or not 0 < int(number) < 65536:
            raise click.BadParameter(
                f"{text!r}: expected PART=PORT with one of {', '.join(PARTS)}", param_hint="--port"
            )
        fixed[name] = int(number)
    return fixed


def _clearly(action: Callable[[], T]) -> T:
    try:
        return action()
    except StackError as error:
        raise click.ClickException(str(error)) from error


def _report(info: StackInfo, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(info.to_json(), indent=1))
    else:
        _print_info(info)


def _print_status(found: StackStatus) -> None:
    if not found.parts:
        click.echo(f"no stack in {found.root}; start one: tidegate stack up")
    for part in found.parts:
        pids = ", ".join(map(str, part.pids)) or "none"
        click.echo(f"{part.name:10} {'up' if part.up else 'DOWN':5} processes: {pids}")
    if found.info is not None:
        _print_info(found.info)


def _print_info(info: StackInfo) -> None:
    rows = {
        "Kafka": info.kafka_bootstrap,
        "PostgreSQL": info.ledger_url,
        "HDFS": info.hdfs_uri,
        "YARN": info.yarn_url,
        "RocketMQ": info.rocketmq_namesrv,
        "Iceberg": info.iceberg_uri,
        "Objects": f"{info.objects_uri} at {info.objects_endpoint}" if info.objects_uri else "",
        "Hive": f"{info.hive_host}:{info.hive_port} (authentication NONE)" if info.hive_port else "",
        "Airflow": f"{info.airflow_url}  user {info.airflow_user}  password {info.airflow_password}"
        if info.airflow_url
        else "",
        "logs": f"{info.root}/logs",
    }
    for name, value in rows.items():
        if value:
            click.echo(f"{name:10} {value}")
