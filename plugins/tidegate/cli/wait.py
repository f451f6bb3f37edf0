"""`tidegate wait`: wait until windows are published, for consumers outside of Airflow."""

from __future__ import annotations

import time

import click

from tidegate.cli.failures import CANNOT_TELL, NOT_WELL, WELL
from tidegate.cli.output import json_option, print_json, progress
from tidegate.cli.windows import parse_window
from tidegate.core.base.errors import LedgerError
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.waits import Answer, PublishedWait, WaitLedger


class DurationType(click.ParamType):
    """Milliseconds of `90s` or `2h`."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from pydantic import TypeAdapter, ValidationError

        from tidegate.spec.values import Duration

        if isinstance(value, int):
            return value
        try:
            return TypeAdapter(Duration).validate_python("0s" if value == "0" else value)
        except ValidationError:
            self.fail(f"{value!r} is no duration such as 90s, 30m or 2h", param, ctx)


@click.command()
@click.argument("pipeline")
@click.argument("windows")
@click.option("--timeout", type=DurationType(), default="1h", show_default=True, help="Give up after; 0: look once.")
@click.option("--poll", type=DurationType(), default="30s", show_default=True, help="How often to look.")
@click.option("--at-least-generation", type=click.IntRange(1), default=1, show_default=True)
@json_option
def wait(pipeline: str, windows: str, timeout: int, poll: int, at_least_generation: int, as_json: bool) -> None:
    """Wait until windows are published. Needs the ledger's connection only, not the pipeline's YAML.

    PIPELINE is its name, or the table as database.table. WINDOWS is one window (an instant in it, the table's
    partition, or its id), or <from>..<to>: all windows from the one of <from> up to the start of the one of <to>,
    which is left out.

    \b
    Examples:
      tidegate wait flights 2013-01-26T16 --timeout 2h && spark-submit report.py
      tidegate wait lake.flights 2013-01-26..2013-01-27
      tidegate wait flights date=2013-01-26/hour=16 --timeout 0

    \b
    Exit code: 0 all are published; 1 the time is up, standard error says what is missing and what holds it;
    2 wrong usage; 3 the time is up and the ledger gives no answer, or knows no such pipeline.
    """
    from tidegate.wiring import command_lookup, ledger_address, open_specs, open_waits
    from tidegate.workflow.window import waits

    url = ledger_address(command_lookup)
    with open_specs(url) as specs:
        spec = waits.find(specs, pipeline)
    wanted = waits.published_wait(spec.name, spec.windows, *_interval(spec, windows), at_least_generation)
    ledger = open_waits(url)
    try:
        answer = _wait(ledger, wanted, timeout / 1000, max(poll / 1000, 0.05))
    finally:
        ledger.close()
    if as_json:
        print_json({"pipeline": spec.name, "published": answer.done, "windows": wanted.of, "text": answer.text})
    elif answer.done:
        click.echo(answer.text)
    raise SystemExit(WELL if answer.done else NOT_WELL)


def _interval(spec: Pipeline, text: str) -> tuple[int, int]:
    first, dots, last = text.partition("..")
    start = parse_window(spec, first)
    if not dots:
        return start.start_ms, start.end_ms
    end = parse_window(spec, last)
    if end.start_ms <= start.start_ms:
        raise click.BadParameter(f"{text!r} holds no window: <to> is not after <from>", param_hint="WINDOWS")
    return start.start_ms, end.start_ms


def _wait(ledger: WaitLedger, wanted: PublishedWait, timeout_s: float, poll_s: float) -> Answer:
    """Wait, and say on standard error what changes. Ends the process where the ledger stays silent to the end.

    Raises LedgerError where that will not change."""
    from tidegate.workflow.window import waits

    deadline, said = time.monotonic() + timeout_s, ""
    while True:
        trouble: LedgerError | None = None
        try:
            answer, wanted = waits.ask(ledger, wanted, time.time_ns() // 1_000_000)
            text = answer.text
            if answer.done:
                return answer
        except LedgerError as e:
            if not e.retry:
                raise
            trouble, text = e, str(e)
        if text != said:
            progress(text)
            said = text
        left = deadline - time.monotonic()
        if left <= 0 and trouble is not None:
            raise SystemExit(CANNOT_TELL)
        if left <= 0:
            return answer
        time.sleep(min(poll_s, left))
