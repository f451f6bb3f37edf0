"""Words of which there are a few: states and kinds, as the ledger, plans and messages have them."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from tidegate.core.base.errors import UnknownWord


class Choice(StrEnum):
    """A member is its text: it compares, prints and is stored as that. Texts are contracts and are never renamed."""

    __repr__ = str.__repr__  # lists of them in messages show the texts

    @classmethod
    def known(cls, text: str, other: Self | None = None) -> Self:
        """The member that the ledger names. What only a newer release knows is `other`, else raises UnknownWord."""
        try:
            return cls(text)
        except ValueError:
            if other is not None:
                return other
            words = ", ".join(cls)
            raise UnknownWord(f"{text!r} is no {cls.__name__} of this release, which knows {words}") from None
