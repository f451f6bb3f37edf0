"""`tidegate compare` of a pipeline with deliveries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tidegate.cli import surroundings
from tidegate.cli.deliver import SHOWN, meant, named, print_parts, print_unwell, told
from tidegate.cli.explain import parse_range
from tidegate.cli.failures import NOT_WELL, WELL
from tidegate.cli.output import print_json, progress
from tidegate.core.base.wording import many
from tidegate.core.deliver.units import side_of

if TYPE_CHECKING:
    from tidegate.core.spec.pipeline import Delivery, Pipeline
    from tidegate.core.window.states import WindowKey
    from tidegate.workflow.base.context import Context
    from tidegate.workflow.deliver.deliver import Sent


def delivered(
    spec: Pipeline, first: str | None, last: str | None, wanted: Sequence[str], why: str, as_json: bool
) -> int:
    """Compare, and with `why` send what differs once more; the exit code."""
    if last is not None and first is None:
        raise click.UsageError("-e needs -s")
    keys = None if first is None else parse_range(spec, first, last)
    found: dict[str, list[Sent]] = {}
    errors: dict[str, str] = {}
    deliveries, _ = meant(named(spec, wanted), keys, None)
    with surroundings.working(spec, progress) as ctx:
        for one in deliveries:
            found[one.name] = []
            try:
                _of(ctx, one, keys, why, found[one.name])
            except Exception as e:  # another delivery has nothing to do with it
                errors[one.name] = told(e)
    if as_json:
        print_json({"pipeline": spec.name, "deliveries": found, "errors": errors})
    else:
        for one in deliveries:
            _print(one.name, found[one.name], errors.get(one.name))
    return WELL if not errors and all(s.well for sent in found.values() for s in sent) else NOT_WELL


def _of(ctx: Context, one: Delivery, keys: Sequence[WindowKey] | None, why: str, found: list[Sent]) -> None:
    """What was seen until an error comes stays in `found`."""
    from tidegate.workflow.deliver import deliver as workflow

    sender = ctx.sender(one)
    try:
        found += workflow.compare(ctx, one, sender, keys)
        if why:
            found[:] = workflow.fix(ctx, one, sender, found, why)
    finally:
        sender.close()


def _print(name: str, found: Sequence[Sent], error: str | None) -> None:
    counts = Counter(s.what for s in found)
    words = ", ".join(f"{n:,} {what}" for what, n in counts.items())
    words = words or f"no {'batch' if side_of(name) else 'window'} was ever sent"
    click.echo(
        f"{name}: {error}" if error is not None else f"{name}: {words}, {many(sum(s.rows for s in found), 'row')}"
    )
    print_unwell(found)
    for fixed in [s for s in found if s.well and s.parts][:SHOWN]:
        click.echo(f"  {fixed.unit} was sent again")
        print_parts(fixed)
