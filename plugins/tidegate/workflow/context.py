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
"""How often one task looks again after a lost comparison or an unknown outcome; then its retry goes on."""

REQUEST_TTL_MS = 600_000
"""Longest life of a catalogue request (`hive.request_ttl`): after it, an unanswered one is not executed any more."""


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
