"""`tidegate`, the command. Imports neither Airflow nor a worker's libraries."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from tidegate.cli import surroundings
from tidegate.cli.failures import WRONG, Commands, Failed
from tidegate.cli.output import let_any_text_through

# name -> (place, line in the help); each is imported when it is called
_COMMANDS = {
    "status": ("tidegate.cli.status:status", "Show the state of pipelines: lag, watermark, blocks, due hours."),
    "metrics": ("tidegate.cli.metrics:metrics", "Print lag, delays, time to loss and counts for Prometheus."),
    "explain": ("tidegate.cli.explain:explain", "Say in which state a window is, why, and what to do next."),
    "wait": ("tidegate.cli.wait:wait", "Wait until windows are published; for scripts."),
    "files": ("tidegate.cli.files:files", "Print the files of windows, for readers by path."),
    "changes": ("tidegate.cli.changes:changes", "Print a mirror's change events since a token."),
    "where": ("tidegate.cli.where:where", "Say what became of one record, by its Kafka offset."),
    "audit": ("tidegate.cli.audit:audit", "Prove that every record is in the table exactly once."),
    "plan": ("tidegate.cli.ledger:plan", "Show which batch the next ingest run would plan."),
    "dirty": ("tidegate.cli.dirty:dirty", "Show why rows are dirty, by field and reason."),
    "redrive": ("tidegate.cli.redrive:redrive", "Turn dirty rows into data after the spec is fixed."),
    "backfill": ("tidegate.cli.backfill:backfill", "Publish or rebuild a range of windows by Airflow's runs."),
    "pause": ("tidegate.cli.pause:pause", "Pause a pipeline's DAGs on purpose, and say why."),
    "unpause": ("tidegate.cli.pause:unpause", "Unpause a pipeline's DAGs; a new pipeline's, too."),
    "apply": ("tidegate.cli.apply:apply", "Merge landed changes into the table of a mirror."),
    "copy": ("tidegate.cli.copy:copy", "Read the source table of a mirror from its database."),
    "compare": ("tidegate.cli.compare:compare", "Compare a mirror with the table of its source, row by row."),
    "failover": ("tidegate.cli.failover:failover", "Go on reading at another site of the source, and come back."),
    "deliver": ("tidegate.cli.deliver:deliver", "Send published windows to further systems."),
    "reopen": ("tidegate.cli.reopen:reopen", "Let a published window take up the late rows that wait for it."),
    "rollback": ("tidegate.cli.rollback:rollback", "Bring back the rows of an earlier generation of a window."),
    "replay": ("tidegate.cli.replay:replay", "Rebuild published windows with today's columns."),
    "events": ("tidegate.cli.ledger:events", "Show who changed what and why."),
    "complete": ("tidegate.cli.complete:complete", "Accept an hour that another system counts differently."),
    "repair": ("tidegate.cli.repairs:repair", "List what alarms have blocked, or clear one block."),
    "clean": ("tidegate.cli.clean:clean", "Delete files that no task or reader needs any more."),
    "source": ("tidegate.cli.source:source", "Accept a topic that was recreated; go on after a log was cut."),
    "spark": ("tidegate.cli.spark:spark", "Let Spark jobs start faster here; end warm sessions."),
    "init": ("tidegate.cli.init:init", "Draft the YAML of a pipeline for a topic, from its messages."),
    "spec": ("tidegate.cli.specs:spec", "Check pipelines' YAML; its schema and reference."),
    "schema": ("tidegate.cli.schemas:schema", "Propose columns for fields that no column takes."),
    "doctor": ("tidegate.cli.doctor:doctor", "Look at the whole set-up: what is wrong, and how to fix it."),
    "db": ("tidegate.cli.ledger:db", "Bring the ledger's schema to this version."),
    "stack": ("dev.stack.cli:stack", "Kafka, PostgreSQL, Hive and Airflow on this machine, for a trial."),
}


def _use_checkout() -> None:
    """Let `dev` be imported, which no wheel brings."""
    checkout = Path(__file__).resolve().parents[3]
    if not (checkout / "dev/stack/cli.py").is_file():
        raise Failed(
            "`tidegate stack` works in a checkout of Tidegate only: the package lacks the parts that it starts\n"
            "  what to do: clone the repository, run `make setup` there, then `.venv/bin/tidegate stack up`",
            WRONG,
        )
    if str(checkout) not in sys.path:
        sys.path.append(str(checkout))


class _Root(Commands):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        if cmd_name == "stack":
            _use_checkout()
        return getattr(import_module(module), attribute)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List them by the table above, so that the help imports none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as e:
            import difflib

            near = difflib.get_close_matches(args[0], _COMMANDS, n=1) if args else []
            if near and near[0] not in e.message:
                e.message += f" Did you mean {near[0]}?"
            raise


@click.group(cls=_Root, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--env-file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar=surroundings.ENV_FILE,
    help="KEY=VALUE lines for what the environment does not say.  [default: those of the stack that runs here]",
)
@click.version_option(package_name="tidegate", prog_name="tidegate", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context, env_file: Path | None) -> None:
    """Topics become Hive hours, exactly once.

    Settings and connections are Airflow's (AIRFLOW__TIDEGATE__..., AIRFLOW_CONN_..., airflow.cfg). Inside a checkout
    the environment of its running stack is used for whatever is not set.

    \b
    Exit codes: 0 well; 1 not well; 2 wrong usage or a wrong YAML; 3 cannot tell; 130 Ctrl-C.
    TIDEGATE_DEBUG=1 shows stack traces. Completion: eval "$(_TIDEGATE_COMPLETE=bash_source tidegate)"
    """
    let_any_text_through()
    if env_file is not None and not env_file.is_file():
        raise click.BadParameter(f"{env_file} is not there", param_hint="--env-file")
    found = env_file or surroundings.find_env_file(Path.cwd())
    if found is not None:
        for name in surroundings.use_env_file(found):
            ctx.call_on_close(lambda name=name: os.environ.pop(name, None))
