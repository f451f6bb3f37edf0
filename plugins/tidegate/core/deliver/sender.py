"""The control plane's side of a further system: what it hands over, and is told. Another process does the work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tidegate.core.deliver.port import Attempt, Holds, Missing, Needed, Part, Standing, Tries
from tidegate.core.files.merge import Source


@dataclass(frozen=True, kw_only=True)
class Generation:
    """The files of a published generation, by its manifest. `columns`: (name, Hive type) of what they hold, where they
    do not say it themselves."""

    files: tuple[Source, ...]
    columns: tuple[tuple[str, str], ...] | None = None


class Sender(Protocol):
    """One table of one further system. Raises DeliveryRefused, DeliveryUnsure, and LostComparison where `holds` says
    no."""

    def missing(self) -> Missing | None:
        """As `core.deliver.port.FurtherSystem` has it; so are the others."""
        ...

    def prepare(self) -> list[str]: ...

    def tries(self) -> Tries | None: ...

    def send(self, attempt: Attempt, generation: Generation, holds: Holds) -> Standing: ...

    def standing(self, window_ms: int) -> Standing: ...

    def parts(self, window_ms: int, generation: Generation) -> tuple[Part, ...]: ...

    def sweep(self, needed: Needed) -> list[str]: ...

    def close(self) -> None: ...
