"""What `tidegate doctor` looks at of an Iceberg catalogue: whether it answers."""

from __future__ import annotations

from typing import Any

from tidegate.core.base.errors import TidegateError
from tidegate.core.doctor.findings import Finding, ok
from tidegate.core.doctor.rules import refused
from tidegate.core.spec.pipeline import Pipeline
from tidegate.kinds import Fields
from tidegate.targets.iceberg.opening import opened

NO_STORAGE: Any = None
"""The question needs none of the table's files."""


def examined(pipeline: Pipeline, c: Fields, seconds: float) -> list[Finding]:
    """Raises nothing: what does not answer is a finding. Changes nothing."""
    name = pipeline.name
    try:
        catalogue = opened(c, NO_STORAGE, seconds)
        if not catalogue.answers():
            what = f"the catalogue at {catalogue.address} does not answer"
            return [refused("iceberg", name, what, "no window can be published", "is it up?")]
    except TidegateError as e:
        return [refused("iceberg", name, str(e.args[0]), "no window can be published", e.advice or "is it up?")]
    return [ok("iceberg", f"the catalogue at {catalogue.address} answers", name)]
