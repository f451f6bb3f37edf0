"""The ledger's text columns: states and kinds, which core knows; and whatever a topic, a broker or a person says,
which every database can store.

PostgreSQL takes no NUL, and no driver takes half of a surrogate pair. Both come in names of fields, in samples and in
other people's error messages.
"""

from __future__ import annotations

import re
from typing import Any

import sqlalchemy
from sqlalchemy.types import TypeDecorator
from sqlalchemy.util import memoized_property

from tidegate.core.base.choice import Choice

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def storable(text: str) -> str:
    r"""The same text; NUL and lone surrogates as JSON spells them (`\u0000`), so that in a JSON text they come back as
    what they were, and are seen in any other."""
    if not _UNSTORABLE.search(text):
        return text
    whole = _PAIR.sub(lambda m: m.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text)
    return _UNSTORABLE.sub(lambda m: f"\\u{ord(m.group()):04x}", whole)


class _Own(TypeDecorator):  # type: ignore[misc]  # SQLAlchemy 1.4 has no types
    """SQLAlchemy 1.4 spells such a type anew in the key of each statement that it looks up: here once for each type."""

    _static_cache_key = memoized_property(TypeDecorator._static_cache_key.fget)


class _Storable(_Own):
    """Rows and comparisons alike: a compare-and-set on such a text finds what was written."""

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        return storable(value) if isinstance(value, str) else value


class Text(_Storable):
    impl, cache_ok = sqlalchemy.Text, True


class String(_Storable):
    impl, cache_ok = sqlalchemy.String, True


class Word(_Own):
    """A state or a kind. Rows and comparisons hold the text of a member of `kind`, statements give the member: no other
    text is written or asked for. A text that only a newer release knows reads as `other`, else raises UnknownWord.

    No CHECK holds the column: a newer release that knows one more could not write it while this one runs beside it,
    and dropping the check would lock the table."""

    impl, cache_ok = sqlalchemy.String, True

    def __init__(self, kind: type[Choice], other: Choice | None = None) -> None:
        super().__init__(length=16)
        self.kind, self.other = kind, other

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        return None if value is None else self.kind(value).value

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return None if value is None else self.kind.known(value, self.other)
