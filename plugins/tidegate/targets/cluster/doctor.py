"""What `tidegate doctor` looks at of a delivery to another cluster: its catalogue, and its files."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.base.connection import Connection
from tidegate.core.base.storage import can_rename
from tidegate.core.doctor import rules
from tidegate.core.doctor.findings import Finding
from tidegate.core.spec.pipeline import Delivery, Pipeline
from tidegate.kinds import target_kind
from tidegate.storage.probing import probe_storage
from tidegate.targets.cluster.kind import there


def examined(pipeline: Pipeline, delivery: Delivery, c: Connection, seconds: float) -> list[Finding]:
    """Raises nothing: what does not answer is a finding. Leaves nothing there."""
    spec = there(pipeline, delivery.table, dict(delivery.options), c.conn_id)
    about = f"{pipeline.name}.{delivery.name}"
    found = target_kind(spec.sink.kind).examined(replace(spec, name=about), c, seconds)
    if not can_rename(spec.sink.workdir):
        return found  # no connection to the store is at hand here
    probe = probe_storage(spec.sink.workdir, spec.sink.user)
    return [
        *found,
        rules.storage(about, spec.sink.workdir, probe.done, probe.failed, probe.said),
    ]
