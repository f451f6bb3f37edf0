"""Catalogue changes that may still be executed (R8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.window.states import WindowKey

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Intent:
    """A catalogue change that may still be executed until `deadline_ms` (R8)."""

    call_id: str
    window: WindowKey
    location: str
    deadline_ms: int
