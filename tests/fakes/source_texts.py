"""A source's table in memory whose key is a text, compared as by MariaDB's utf8mb4_general_ci: case and accents and
blanks at the end count for nothing, so that no other place knows the order, or which two keys are one."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from functools import cache
from typing import Any

from tests.fakes.source_table import TABLE, FakeSource
from tidegate.core.copy.port import SourceColumn


class FakeTexts(FakeSource):
    """`rows` by the texts of their keys."""

    rows: dict[Any, str]

    def __init__(self) -> None:
        super().__init__()
        self.table = replace(TABLE, columns=(SourceColumn("id", "varchar(40)", nullable=False), TABLE.columns[1]))

    def order(self, key: Any) -> Any:
        return _order(key)

    def set(self, key: Any, word: str | None) -> None:
        """One that has another spelling goes: connectors tell a key that changes as a delete and an insert."""
        for other in self._spelled_otherwise(key):
            super().set(other, None)
        super().set(key, word)

    def sneak(self, key: Any, word: str) -> None:
        for other in self._spelled_otherwise(key):
            self.lose(other)
        super().sneak(key, word)

    def _spelled_otherwise(self, key: Any) -> list[Any]:
        return [k for k in self.rows if k != key and self.order(k) == self.order(key)]


@cache
def _order(key: str) -> str:
    letters = unicodedata.normalize("NFKD", key.casefold())
    return "".join(one for one in letters if not unicodedata.combining(one)).rstrip(" ")
