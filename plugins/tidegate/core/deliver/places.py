"""Where a delivery goes: hosts whose YAMLs name different places must not fill them in turns."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.base.errors import DeliveryRefused
from tidegate.core.base.instants import iso
from tidegate.core.deliver.units import base_of
from tidegate.core.spec.pipeline import Delivery


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a delivery and its side tables go by the ledger: `place` is `Delivery.place` of the YAML that came last,
    `number` counts these, `earlier` are those of before. `since_ms`: when it came (UTC)."""

    place: str
    number: int
    earlier: tuple[str, ...]
    since_ms: int


def outdated(pipeline: str, delivery: Delivery, known: Place | None) -> DeliveryRefused | None:
    """The refusal of a YAML that names a place where the delivery went before; None: it names another one."""
    if known is None or delivery.place == known.place or delivery.place not in known.earlier:
        return None
    base = base_of(delivery.name)
    return DeliveryRefused(
        f"{pipeline}: {base} goes to ({known.place}) since {iso(known.since_ms)}, and the YAML on this host names "
        f"({delivery.place}), where it went before",
        advice=f"bring the newest YAML to this host; if it is the newest, and the delivery is to go there again: "
        f"tidegate deliver {pipeline} --to {base} --move --why '...' (sends all of its windows again)",
    )


def elsewhere(pipeline: str, delivery: Delivery, known: Place | None) -> DeliveryRefused | None:
    """The refusal of a task that would send to, or compare with, another place than the ledger knows."""
    if known is None or delivery.place == known.place:
        return None
    base = base_of(delivery.name)
    return outdated(pipeline, delivery, known) or DeliveryRefused(
        f"{pipeline}: {base} goes to ({known.place}) by the ledger, and to ({delivery.place}) by the YAML: nothing was "
        "sent there yet",
        advice=f"nothing: the next run of {pipeline}.deliver sends all windows there; now: tidegate deliver "
        f"{pipeline} --to {base}",
    )


def moved(known: Place | None, place: str) -> Place:
    """What the ledger is to know once the delivery goes to `place`; its time is the ledger's."""
    if known is None:
        return Place(place=place, number=1, earlier=(), since_ms=0)
    earlier = (*(one for one in known.earlier if one not in (place, known.place)), known.place)
    return Place(place=place, number=known.number + 1, earlier=earlier, since_ms=0)
