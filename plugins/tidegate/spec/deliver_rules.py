"""The list `deliver`: what it goes together with, and what it is compiled to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tidegate.core.base.fields import read_as
from tidegate.core.deliver.units import name_of
from tidegate.core.spec.pipeline import Delivery, Pipeline
from tidegate.core.target.port import Unit
from tidegate.kinds import delivery_kind, target_kind
from tidegate.spec.by_kind import own_options
from tidegate.spec.deliver import DeliverySection
from tidegate.spec.model import PipelineSpec
from tidegate.spec.problems import Problem
from tidegate.spec.rules import epoch_ms, local_instant


def check(spec: PipelineSpec) -> Iterator[Problem]:
    """What is wrong with the list, by itself and together with other sections."""
    if spec.deliver and (target_kind(spec.sink.kind).unit is not Unit.WINDOW or target_kind(spec.sink.kind).follows):
        yield Problem(("deliver",), f"windows of rows are delivered, and {spec.sink.kind} has none; leave it out")
    names: set[str] = set()
    tables: dict[tuple[str, str], str] = {}
    for i, one in enumerate(spec.deliver):
        if one.name in names:
            yield Problem(("deliver", i, "name"), f"{one.name} is there already: the ledger would mix them")
        names.add(one.name)
        for table in (one.table, *(f"{one.table}__{side}" for side in one.sides)):
            other = tables.setdefault((one.conn_id, table), one.name)
            if other != one.name:
                yield Problem(("deliver", i, "table"), f"{table} is the table of {other} already")


def problems(pipeline: Pipeline) -> Iterator[Problem]:
    """What the kinds of the deliveries say against the compiled pipeline."""
    for i, one in enumerate(one for one in pipeline.deliver if not one.side):
        for name, what in delivery_kind(one.kind).problems(pipeline, one):
            yield Problem(("deliver", i, name), what)


def compiled(spec: PipelineSpec) -> tuple[Delivery, ...]:
    """In the YAML's order; each one's side tables before it, for its windows may wait for them (D11)."""
    found: list[Delivery] = []
    for one in spec.deliver:
        own = _compiled(one, spec.windows.timezone)
        found += [replace(own, name=name_of(own.name, side), side=side, since_ms=None) for side in one.sides]
        found.append(own)
    return tuple(found)


def _compiled(one: DeliverySection, timezone: str) -> Delivery:
    return read_as(
        Delivery,
        one,
        side="",
        since_ms=None if one.since is None else epoch_ms(local_instant(one.since, timezone)),
        sla_ms=one.sla,
        options=own_options(one, DeliverySection, ("side_tables",)),
    )
