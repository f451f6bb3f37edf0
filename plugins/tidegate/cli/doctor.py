"""`tidegate doctor`: what is wrong with the set-up, what it means, how to fix it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from tidegate.cli import surroundings
from tidegate.cli.failures import CANNOT_TELL, Failed
from tidegate.cli.output import console, json_option, print_json, progress
from tidegate.core.base.errors import SpecError
from tidegate.core.base.wording import first_line
from tidegate.core.doctor.findings import WRONG, Finding, exit_code, worst_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.spec import Loaded

SLOTS = 4
MOST_NAMED = 8
_STYLES = {"wrong": "bold red", "warning": "yellow", "unknown": "magenta", "ok": "green"}


@click.command()
@click.argument("pipeline", required=False, shell_complete=surroundings.complete_pipeline)
@json_option
@click.option("--all", "show_all", is_flag=True, help="Show what is well, too.")
@click.option("--fix", is_flag=True, help="Make the pools that are missing; nothing else is changed.")
@click.option(
    "--timeout", "seconds", default=8.0, show_default=True, type=click.FloatRange(0.5, 300), metavar="SECONDS",
    help="For each server's answer.",
)  # fmt: skip
def doctor(pipeline: str | None, as_json: bool, show_all: bool, fix: bool, seconds: float) -> None:
    """Look at the whole set-up: what is wrong, what that means, and the command that fixes it.

    Python, libraries, installations, Spark; Airflow's database, scheduler, triggerer, pools, DAGs, import errors, how
    long the DAG file takes to parse; the ledger; each connection that a YAML names; Kafka, Hive and storage as each
    pipeline uses them; a mirror's source tables and its connector; clocks. Without PIPELINE, for every YAML of the
    pipelines folder. It asks servers side by side; a server that leaves a question unanswered is asked no more, and the
    report names the checks left out. It changes nothing: in storage it makes a new directory and removes it again.

    \b
    Examples:
      tidegate doctor
      tidegate doctor flights --all
      tidegate doctor --json | jq -r '.findings[] | select(.level == "wrong") | .mend'

    \b
    Exit code: 0 nothing is wrong (there may be warnings); 1 something is wrong; 2 usage, or nothing but a YAML is
    wrong; 3 nothing is wrong, but something could not be looked at.
    """
    from tidegate.cli.examination import Examination

    loaded, folder = _loaded(pipeline)
    found = Examination(loaded, seconds, progress).findings() + folder
    if fix and (made := _make_pools(found, seconds)):
        if not as_json:
            for name in made:
                click.echo(f"made pool {name} with {SLOTS} slots")
        found = Examination(loaded, seconds, progress).findings() + folder
    found, code = worst_first(found), exit_code(found)
    if as_json:
        counts = {level: sum(f.level == level for f in found) for level in _STYLES}
        print_json({"well": code == 0, "counts": counts, "findings": found})
    else:
        _show(found, show_all)
    raise SystemExit(code)


def _loaded(name: str | None) -> tuple[list[Loaded], list[Finding]]:
    """The YAMLs, and what is wrong with their folder. Raises click.UsageError for a name that no YAML has."""
    try:
        return surroundings.loaded_pipelines(name), []
    except SpecError as e:
        if name is not None:
            raise
        mend = e.advice or "AIRFLOW__TIDEGATE__PIPELINES_FOLDER=<folder of the pipelines' YAML>"
        return [], [Finding("folder", WRONG, str(e.args[0]), "Airflow has no pipeline", mend)]


def _make_pools(found: Sequence[Finding], seconds: float) -> list[str]:
    """Those that are missing; others stay as they are. Raises Failed where Airflow's database does not let us."""
    from sqlalchemy.exc import SQLAlchemyError

    from tidegate.adapters.airflow_facts import add_pool, database_address

    missing = [f.about for f in found if f.check == "pools" and f.level == WRONG]
    url = database_address()
    if not missing or url is None:
        return []
    try:
        return [name for name in missing if add_pool(url, name, SLOTS, "Tidegate's tasks", seconds)]
    except SQLAlchemyError as e:
        advice = f"airflow pools set {missing[0]} {SLOTS} Tidegate"
        raise Failed(f"Airflow's database: {first_line(e)}\n  what to do: {advice}", CANNOT_TELL) from e


def _show(found: Sequence[Finding], show_all: bool) -> None:
    out = console()
    shown = [f for f in found if show_all or f.level != "ok"]
    for f in _together(shown):
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(width=7, no_wrap=True)
        grid.add_column(overflow="fold")
        about = f"{f.about}: " if f.about and f.about not in f.what else ""
        grid.add_row(Text(f.level, style=_STYLES[f.level]), Text(f"{about}{f.what}"))
        if f.means:
            grid.add_row("", Text(f.means, style="dim"))
        out.print(grid)
        if f.mend:  # in one piece: it holds commands
            out.print(Text(f"         to fix:  {f.mend}"), soft_wrap=True)
    _sum(out, found, len(shown) < len(found))


def _together(found: Sequence[Finding]) -> list[Finding]:
    """The same thing of many pipelines is one line."""
    from dataclasses import replace

    abouts: dict[Finding, list[str]] = {}
    for f in found:
        abouts.setdefault(replace(f, about=""), []).append(f.about)
    return [replace(f, about=_names([a for a in names if a])) for f, names in abouts.items()]


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _sum(out: Any, found: Sequence[Finding], hidden: bool) -> None:
    counts = {level: sum(f.level == level for f in found) for level in _STYLES}
    words = {"wrong": "wrong", "warning": "to look at", "unknown": "not known", "ok": "well"}
    told = ", ".join(f"{n} {words[level]}" for level, n in counts.items() if n)
    out.print(Text(f"{told or 'nothing to look at'}{' (--all shows them)' if hidden else ''}"), soft_wrap=True)
