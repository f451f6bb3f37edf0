"""`tidegate pause` and `tidegate unpause`: stop a pipeline's DAGs on purpose, and start them again."""

from __future__ import annotations

import time
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli import surroundings
from tidegate.cli.airflow_library import airflow_library
from tidegate.cli.failures import NOT_WELL, WELL, Failed
from tidegate.cli.output import json_option, print_json, progress, stripped
from tidegate.cli.wait import DurationType
from tidegate.core.base.errors import LostComparison, StepMissing
from tidegate.core.tell.pauses import ALL, Pause, ordered

if TYPE_CHECKING:
    from tidegate.airflow.switches import Switches
    from tidegate.core.spec.pipeline import Pipeline
    from tidegate.ledger import SqlLedger

LOOK_S = 1.0
"""Seconds between questions for DAGs that Airflow does not know yet."""

_only = click.option(
    "--only", multiple=True, type=click.Choice(ALL), help="Only this DAG; may be repeated.  [default: all]"
)
_wait = click.option(
    "--wait", "wait_ms", type=DurationType(), default="90s", show_default=True,
    help="How long to wait for DAGs that Airflow has not parsed yet.",
)  # fmt: skip


class UntilType(click.ParamType):
    """UTC ms of an instant, or of a duration from now on."""

    name = "instant"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from datetime import UTC, datetime

        now_ms = time.time_ns() // 1_000_000
        try:
            at = datetime.fromisoformat(str(value))
            found = int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError):
            try:
                found = now_ms + DurationType().convert(value, param, ctx)
            except click.BadParameter:
                self.fail(f"{value!r} is neither an instant (2026-11-24T08:00Z) nor a duration (8h)", param, ctx)
        if found <= now_ms:
            self.fail(f"{value!r} is over already", param, ctx)
        return found


@dataclass(frozen=True)
class Turned:
    """A DAG after the command; `changed` by it. `paused`: None where Airflow does not know it."""

    dag_id: str
    paused: bool | None
    changed: bool = False

    def words(self) -> str:
        if self.paused is None:
            return f"{self.dag_id}: Airflow does not know it yet"
        done, was = ("paused", "was paused already") if self.paused else ("unpaused", "was not paused")
        return f"{self.dag_id}: {done if self.changed else was}"


@click.command()
@surroundings.pipeline_argument
@click.option(
    "--why", required=True, metavar="TEXT", callback=stripped, help="For status, the board and the event log."
)
@click.option("--until", "until_ms", type=UntilType(), metavar="WHEN", help="An instant, or a duration from now on.")
@_only
@_wait
@json_option
def pause(pipeline: str, why: str, until_ms: int | None, only: tuple[str, ...], wait_ms: int, as_json: bool) -> None:
    """Pause a pipeline's DAGs on purpose, and say why.

    `status`, `doctor`, the board, messages and alerts then say `paused on purpose` with the reason, and count no window
    as overdue that waits for these DAGs alone, until --until is over, or unread records come within
    `source.loss_warning` of being lost. A running task ends; no new one begins. A DAG that somebody pauses in
    Airflow's UI has no reason, and is reported as before.

    Runs where Airflow is installed, with the database that its scheduler has.

    \b
    Examples:
      tidegate pause flights --why "the airport's gateway is being replaced" --until 8h
      tidegate pause flights --only ingest --why "broker 2 is rebuilt" --until 4h

    \b
    Exit code: 0 they are paused, and the reason is kept; 1 Airflow does not know one of them; 2 wrong usage, or no
    Airflow is installed here; 3 the ledger or Airflow's database gives no answer.
    """
    if not why:
        raise click.BadParameter("say why: the next shift reads it", param_hint="--why")
    spec = surroundings.pipeline_named(pipeline)
    kinds = _kinds(spec, only)
    with airflow_library("pause"), surroundings.ledger() as ledger, redirect_stdout(click.get_text_stream("stderr")):
        old = ledger.pauses.standing(spec.name)
        switches = _switches(spec.name, kinds)
        turned = _turn(switches, True, wait_ms)
        # after the DAGs: a command that dies in between leaves them paused for no reason that anyone knows
        kept, problem = _keep(ledger, spec.name, kinds, why, until_ms, old)
        errors = _import_errors(switches, turned)
    _tell(spec.name, turned, errors, kept, as_json)
    if not as_json and kept is not None:
        click.echo(kept.words())
    if problem:
        progress(problem)
    raise SystemExit(NOT_WELL if _missing(turned) or problem else WELL)


@click.command()
@surroundings.pipeline_argument
@_only
@_wait
@json_option
def unpause(pipeline: str, only: tuple[str, ...], wait_ms: int, as_json: bool) -> None:
    """Unpause a pipeline's DAGs: ingest, archive, replay and maintain.

    For a new YAML the command waits until Airflow has parsed it. It also ends a `tidegate pause` of these DAGs.
    A second time it changes nothing.

    Runs where Airflow is installed, with the database that its scheduler has.

    \b
    Examples:
      tidegate unpause flights
      tidegate unpause flights --only ingest --only maintain

    \b
    Exit code: 0 they are not paused; 1 Airflow does not know one of them (its import errors are shown); 2 wrong usage,
    or no Airflow is installed here; 3 the ledger or Airflow's database gives no answer.
    """
    spec = surroundings.pipeline_named(pipeline)
    kinds = _kinds(spec, only)
    with airflow_library("unpause"), surroundings.ledger() as ledger, redirect_stdout(click.get_text_stream("stderr")):
        switches = _switches(spec.name, kinds)
        old = ledger.pauses.standing(spec.name)
        # before the DAGs: a command that dies in between leaves them paused for no reason that anyone knows
        left = old
        if old is not None and set(old.kinds) & set(kinds):
            left = ledger.pauses.unpause(spec.name, kinds, old)
        turned = _turn(switches, False, wait_ms)
        errors, alive = _import_errors(switches, turned), switches.scheduler_alive()
    _tell(spec.name, turned, errors, left, as_json)
    if not as_json and old is not None and left != old:
        click.echo(f"over: {old.words()}")
    if not alive:
        progress("WARNING: no scheduler has given a sign for a minute: nothing runs before one does")
    if not as_json and "ingest" in kinds and spec.ingest.schedule is None and not _missing(turned):
        click.echo(f"{spec.name}.ingest has no schedule; to read now: airflow dags trigger {spec.name}.ingest")
    raise SystemExit(NOT_WELL if _missing(turned) else WELL)


def _kinds(spec: Pipeline, only: tuple[str, ...]) -> tuple[str, ...]:
    """The DAGs that are meant, of those that the pipeline has. Raises click.BadParameter."""
    from tidegate.kinds import dags_of

    there = dags_of(spec)
    for kind in only:
        if kind not in there:
            raise click.BadParameter(f"{spec.name} has no {kind}: it has {', '.join(there)}", param_hint="--only")
    return ordered(only or there)


def _switches(name: str, kinds: tuple[str, ...]) -> Switches:
    from tidegate.airflow.switches import Switches

    return Switches([f"{name}.{kind}" for kind in kinds])


def _turn(switches: Switches, paused: bool, wait_ms: int) -> list[Turned]:
    """Turn each DAG that Airflow knows, and wait for the others."""
    until, said = time.monotonic() + wait_ms / 1000, False
    turned: dict[str, Turned] = {}
    while True:
        for dag_id in switches.look():
            if dag_id not in turned:
                turned[dag_id] = Turned(dag_id, paused, switches.turn(dag_id, paused))
        if len(turned) == len(switches.dag_ids) or time.monotonic() >= until or not switches.scheduler_alive():
            return [turned.get(dag_id, Turned(dag_id, None)) for dag_id in switches.dag_ids]
        if not said:
            missing = ", ".join(dag_id for dag_id in switches.dag_ids if dag_id not in turned)
            progress(f"Airflow does not know {missing} yet; waiting until it has parsed the YAML")
            said = True
        time.sleep(LOOK_S)


def _missing(turned: list[Turned]) -> list[str]:
    return [one.dag_id for one in turned if one.paused is None]


def _import_errors(switches: Switches, turned: list[Turned]) -> list[str]:
    return switches.import_errors() if _missing(turned) else []


def _keep(
    ledger: SqlLedger, name: str, kinds: tuple[str, ...], why: str, until_ms: int | None, old: Pause | None
) -> tuple[Pause | None, str]:
    """Write the reason to the ledger. Returns what it has now, and what went wrong."""
    if old is not None and (old.why, old.until_ms) == (why, until_ms) and set(kinds) <= set(old.kinds):
        return old, ""
    try:
        return ledger.pauses.pause(name, kinds, why, until_ms, old), ""
    except StepMissing as e:
        return None, f"the reason is kept nowhere: {str(e).splitlines()[0]}"
    except LostComparison:
        raise Failed(
            f"somebody else has paused or unpaused {name} meanwhile: the reason was not kept\n"
            f"  what to do: tidegate status {name}; then run it again",
            NOT_WELL,
        ) from None


def _tell(name: str, turned: list[Turned], errors: list[str], pause: Pause | None, as_json: bool) -> None:
    missing = _missing(turned)
    if as_json:
        plain: dict[str, Any] = {"pipeline": name, "dags": turned, "missing": missing, "import_errors": errors}
        print_json({**plain, "paused_on_purpose": pause})
        return
    for one in turned:
        click.echo(one.words())
    for error in errors:
        progress(f"import error: {error}")
    if missing:
        look = (
            "airflow dags list-import-errors shows all of it" if errors else "is the scheduler alive? tidegate doctor"
        )
        progress(f"  what to do: {look}; a new YAML is seen by the next parse: then run it again")
