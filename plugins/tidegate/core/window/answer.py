"""What another system said of a window, and what follows for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What another system said of a window when it was last asked. Times are UTC ms.

    `rows` of the window had landed before the question. `expected` is None where it gave no count; `problem` then says
    why, and is None if it does not know the window yet. `since_ms` is when it was first asked. `accepted`: why an
    operator has what is there published all the same."""

    source: str
    rows: int
    expected: int | None
    problem: str | None
    asked_ms: int
    since_ms: int
    accepted: str | None = None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What a certificate says of it. `verdict`: complete | short | over | unknown; `action`: hold | publish | warn.

    `until_ms`: a window that is held is published with a warning from then on; None: it is not held, or until somebody
    decides. `text` is for people."""

    verdict: str
    action: str
    text: str
    source: str
    rows: int | None = None
    expected: int | None = None
    asked_ms: int | None = None
    until_ms: int | None = None
    accepted: str | None = None
