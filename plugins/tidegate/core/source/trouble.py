"""What may be the matter with a log; the source's folder says what to do about it, with its own tools' commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class What(StrEnum):
    """The sentence that a source completes is given with each."""

    EXPIRES = "expires"
    """Unread records are about to be deleted: "first ...; then read faster"."""
    KEEPS_LITTLE = "keeps little"
    """Reading is paused on purpose and records are about to be deleted: "unpause; or ..."."""
    TRANSACTION = "transaction"
    """A transaction stays open: "commit or abort the transaction that is open in partition 3: ..."."""
    YOUNG_TRANSACTION = "young transaction"
    """A transaction is open since a moment: "nothing yet: ..."."""


@dataclass(frozen=True)
class Trouble:
    """`limit`: time | bytes, of records that expire. `within`: for how long a transaction is young, in words."""

    what: What
    topic: str = ""
    limit: str = "time"
    within: str = ""


Remedy = Callable[[Trouble], str]
"""What to do about it. Implemented by a kind of source."""
