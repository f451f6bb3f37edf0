"""`tidegate metrics`: measures of every pipeline in Prometheus' text format."""

from __future__ import annotations

import time
from typing import Any

import click

from tidegate.cli import surroundings
from tidegate.cli.failures import CANNOT_TELL, Failed
from tidegate.cli.output import progress
from tidegate.cli.topics import topics
from tidegate.core.look.measures import broken, exposition

KAFKA_S, KAFKA_LISTENING_S, READ_AGAIN_S = 10.0, 4.0, 600.0


@click.command()
@click.option("--pipeline", shell_complete=surroundings.complete_pipeline, help="Of this pipeline only.")
@click.option("--no-kafka", is_flag=True, help="Don't ask Kafka: no lag, no time to loss.")
@click.option(
    "--listen",
    metavar="[HOST:]PORT",
    help="Answer GET /metrics until ended by Ctrl-C; on the loopback address by default.",
)
def metrics(pipeline: str | None, no_kafka: bool, listen: str | None) -> None:
    """Print measures of every pipeline in Prometheus' text format; docs/metrics.md explains each.

    It costs a few statements of the ledger, for any number of pipelines, and one look at each topic. For a node
    exporter write it to a file of its text file collector, under another name first. With --listen Prometheus asks for
    it; there is neither TLS nor a login.

    \b
    Examples:
      tidegate metrics > tidegate.prom.$$ && mv tidegate.prom.$$ /var/lib/node_exporter/tidegate.prom
      tidegate metrics --listen 9469

    \b
    Exit code: 0 printed, whatever it says; 2 no such pipeline; 3 the ledger gives no answer, or the address is taken.
    """
    if listen is None:
        click.echo(_text(surroundings.loaded_pipelines(pipeline), no_kafka, KAFKA_S), nl=False)
        return
    from tidegate.adapters.scrape import Kept

    specs = _Specs(pipeline)
    specs.loaded()  # an unknown name ends the command here
    with surroundings.ledger() as ledger:  # so does a missing ledger
        ledger.reads.names()
    _serve(listen, Kept(lambda: _text(specs.loaded(), no_kafka, KAFKA_LISTENING_S)))


def _serve(listen: str, kept: Any) -> None:
    from tidegate.adapters.scrape import Server, address, is_loopback

    try:
        host, port = address(listen)
    except ValueError:
        raise click.UsageError(f"--listen {listen}: must be a port, host:port or [address]:port") from None
    try:
        server = Server(host, port, kept)
    except OSError as e:
        raise Failed(
            f"cannot listen on {host}, port {port}: {e.strerror or e}\n  what to do: choose another port", CANNOT_TELL
        ) from None
    bare = host if ":" not in host else f"[{host}]"
    progress(f"listening: http://{bare}:{server.server_port}/metrics")
    if not is_loopback(host):
        progress("anyone who reaches this address can read the measures: there is neither TLS nor a login")
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            progress("ended")


class _Specs:
    """The pipelines folder, read again when a YAML has changed, and now and then for the files that they name."""

    def __init__(self, pipeline: str | None) -> None:
        self._pipeline, self._seen, self._loaded, self._until = pipeline, None, [], 0.0  # type: ignore[var-annotated]

    def loaded(self) -> list[Any]:
        folder = surroundings.pipelines_folder()
        found = sorted((p.name, p.stat().st_mtime_ns, p.stat().st_size) for p in folder.glob("*.y*ml"))
        if found != self._seen or time.monotonic() > self._until:
            self._loaded = surroundings.loaded_pipelines(self._pipeline)
            self._seen, self._until = found, time.monotonic() + READ_AGAIN_S  # type: ignore[assignment]
        return self._loaded


def _text(loaded: list[Any], no_kafka: bool, kafka_s: float) -> str:
    """Raises TidegateError."""
    from tidegate.adapters.clock import SystemClock
    from tidegate.workflow.look.measures import measure_all

    answers = {} if no_kafka else topics(loaded, kafka_s)
    known = {name: answer for name, answer in answers.items() if not isinstance(answer, str)}
    with surroundings.ledger() as ledger:
        sound = [one.pipeline for one in loaded if one.pipeline is not None]
        found = measure_all(sound, known, ledger.reads, SystemClock().now_ms())
    found += [broken(one.name) for one in loaded if one.pipeline is None]
    return "".join(f"{line}\n" for line in exposition(found))
