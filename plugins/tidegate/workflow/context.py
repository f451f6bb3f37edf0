"""What every workflow works with: one pipeline and the ports to gather from and to apply to."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate.core.layout import Layout
from tidegate.core.ledger import Ledger
from tidegate.core.pipeline import Pipeline
from tidegate.core.ports import Catalogue, Clock, Launcher, Source, Storage
from tidegate.core.window import WindowKey

ATTEMPTS = 8
"""How often a lost comparison or an unknown outcome is looked at again within one task; then the task's retry goes on."""

REQUEST_TTL_MS = 600_000
"""The longest life of a catalogue request: after it, an unanswered one can no longer be executed (`hive.request_ttl`)."""


def _nonce() -> str:
    return uuid.uuid4().hex[:8]


@dataclass
class Context:
    """`spec_version` is the ledger's number of `pipeline`; `say` takes progress lines for the task log."""

    pipeline: Pipeline
    spec_version: int
    ledger: Ledger
    source: Source
    storage: Storage
    catalogue: Catalogue
    launcher: Launcher
    clock: Clock
    say: Callable[[str], None] = print
    nonce: Callable[[], str] = field(default=_nonce)
    request_ttl_ms: int = REQUEST_TTL_MS

    @property
    def name(self) -> str:
        return self.pipeline.name

    @property
    def layout(self) -> Layout:
        return Layout.of(self.pipeline)


@dataclass(frozen=True)
class Published:
    """What stands in the table for a window. `new` is False when an existing generation was verified or unchanged."""

    window: WindowKey
    generation: int
    new: bool
    rows: int
    digest: str
    location: str
    note: str = ""
