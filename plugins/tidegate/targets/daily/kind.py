"""Keyed tables by days as a kind of target. The YAML says `kind: mirror, store: hive_daily`."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.port import Site, Target, Targets
from tidegate.kinds import Connect, found_at
from tidegate.targets.daily.rules import problems
from tidegate.targets.hive.kind import KIND as HIVE
from tidegate.targets.hive.kind import Hive


class Daily(Hive):
    """Implements `core.target.port.Targets`."""

    def data(self, site: Site) -> Target:
        """The pipeline's keyed table."""
        from tidegate.targets.daily.table import DailyTable

        return DailyTable(site, self.catalogue, self.switch)


def _opened(pipeline: Pipeline, connect: Connect, looking: bool) -> Targets:
    opened = HIVE.opened(pipeline, connect, looking)
    assert isinstance(opened, Hive)
    return Daily(opened.catalogue, opened.switch)


KIND = replace(
    HIVE,
    name="hive_daily",
    title="Hive",
    section=found_at("tidegate.targets.daily.section:DailySection"),
    opened=_opened,
    follows=True,
    fixed=("store", "key", "buckets"),
    problems=problems,
)
