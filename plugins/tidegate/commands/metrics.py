"""`tidegate metrics`: what is measured of every pipeline, in Prometheus' text format."""

from __future__ import annotations

import click

from tidegate.commands import surroundings
from tidegate.commands.topics import topics

KAFKA_S = 10.0


@click.command()
@click.option("--pipeline", shell_complete=surroundings.complete_pipeline, help="Of this pipeline only.")
@click.option("--no-kafka", is_flag=True, help="Don't ask Kafka: no lag, no time to loss.")
def metrics(pipeline: str | None, no_kafka: bool) -> None:
    """Print measures of every pipeline in Prometheus' text format; docs/metrics.md explains each.

    It costs a few statements of the ledger, whatever the number of pipelines, and one look at each topic. For a node
    exporter write it to a file of its text file collector, under another name first.

    \b
    Examples:
      tidegate metrics --pipeline flights
      tidegate metrics > tidegate.prom.$$ && mv tidegate.prom.$$ /var/lib/node_exporter/tidegate.prom

    \b
    Exit code: 0 printed, whatever it says; 2 no such pipeline; 3 the ledger gives no answer.
    """
    from tidegate.adapters.clock import SystemClock
    from tidegate.core.measures import broken, exposition
    from tidegate.workflow.measuring import measure_all

    loaded = surroundings.loaded_pipelines()
    if pipeline is not None:
        loaded = [one for one in loaded if one.name == pipeline]
        if not loaded:
            surroundings.pipeline_named(pipeline)  # says which there are
    answers = {} if no_kafka else topics(loaded, KAFKA_S)
    known = {name: answer for name, answer in answers.items() if not isinstance(answer, str)}
    with surroundings.ledger() as ledger:
        sound = [one.pipeline for one in loaded if one.pipeline is not None]
        found = measure_all(sound, known, ledger.reads, SystemClock().now_ms())
    found += [broken(one.name) for one in loaded if one.pipeline is None]
    for line in exposition(found):
        click.echo(line)
