"""What `tidegate doctor` looks at of a delivery to ClickHouse: that each shard answers, and each of its replicas."""

from __future__ import annotations

from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import TidegateError
from tidegate.core.doctor.findings import Finding, ok
from tidegate.core.doctor.rules import refused
from tidegate.core.spec.pipeline import Delivery, Pipeline
from tidegate.targets.clickhouse.client import Client, Failed, Unanswered
from tidegate.targets.clickhouse.kind import clients, settings

_CHECK = "deliveries"
_MEANS = "windows are published, and wait to be delivered"


def examined(pipeline: Pipeline, delivery: Delivery, c: Connection, seconds: float) -> list[Finding]:
    """Raises nothing: what does not answer is a finding. Changes nothing."""
    about = f"{pipeline.name}.{delivery.name}"
    try:
        shards = clients(settings(c), seconds)
        versions = [shard.ask("SELECT version()")[0][0] for shard in shards]
    except TidegateError as error:
        return [refused(_CHECK, about, str(error.args[0]), _MEANS, error.advice)]
    except (Failed, Unanswered) as error:
        return [
            refused(_CHECK, about, str(error)[:300], _MEANS, f"fix the connection {c.conn_id}, or start the server")
        ]
    found = f"{len(versions)} shard{'' if len(versions) == 1 else 's'} of ClickHouse {', '.join(sorted({*versions}))}"
    replicas = [each for shard in shards for each in shard.replicas]
    return [ok(_CHECK, f"{found} answer for {delivery.table}", about), *(_replica(each, about) for each in replicas)]


def _replica(replica: Client, about: str) -> Finding:
    """One that is not written to."""
    try:
        version = replica.ask("SELECT version()")[0][0]
    except (Failed, Unanswered) as error:
        means = "windows are delivered without it, above the quorum; its readers meet older ones"
        return refused(_CHECK, about, str(error)[:300], means, "start the server, or take it out of the connection")
    return ok(_CHECK, f"the replica {replica.address} answers: ClickHouse {version}", about)
