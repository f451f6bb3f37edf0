"""What `tidegate doctor` looks at of a pipeline's RocketMQ topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import TidegateError
from tidegate.core.doctor.findings import Finding
from tidegate.core.doctor.rules import keeps, refused
from tidegate.core.spec.pipeline import Pipeline
from tidegate.sources.rocketmq.control import opened


def examined(
    pipeline: Pipeline, connection: Connection, seconds: float, ask: Callable[[Callable[[], Any]], Any]
) -> list[Finding]:
    try:
        source = opened(connection, pipeline.source, "tidegate-doctor", seconds / 3)
        state = ask(lambda: source.look(pipeline.source.topic))
    except TidegateError as e:
        return [refused("rocketmq", pipeline.name, str(e.args[0]), "no batch can be planned", e.advice)]
    planned_ms = pipeline.windows.watermark_delay_ms + 86_400_000
    longer = f"raise the brokers' fileReservedTime above {planned_ms // 3_600_000} h"
    allow = "let the connection's user read the brokers' configuration"
    return [keeps("rocketmq", pipeline.name, state.topic, state.retention_ms, state.deletes, planned_ms, longer, allow)]
