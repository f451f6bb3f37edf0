"""The oracle for fields that no column takes, at the top and inside of others, by the page. Imports nothing of the
engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.value_rules.oracle_values import Kind, kind_of

Taker = tuple[tuple[str, ...], Kind | None]
"""The keys that are still to go, and the type of what is there."""


class Looking:
    """`members`: (key, value) of an object, else nothing; `elements`: what is in an array or a map; `names`: all that
    an object could have."""

    def __init__(
        self,
        members: Callable[[Any], Iterable[tuple[str, Any]]],
        elements: Callable[[Any], Iterable[Any]],
        text: Callable[[Any], str],
        names: Callable[[Any], Sequence[str]] | None = None,
    ) -> None:
        self._members, self._elements, self._text, self._names = members, elements, text, names

    def unknown(self, spec: Any, top: Any) -> dict[str, str]:
        self._single: dict[str, str] = {}
        self._several: dict[str, list[str]] = {}
        takers: list[Taker] = [(c.path, kind_of(c.type)) for c in spec.columns]
        self._object(top, takers + ([(spec.time, None)] if spec.time else []), "", many=False)
        return self._single | {name: f"[{','.join(texts)}]" for name, texts in self._several.items()}

    def _object(self, value: Any, takers: list[Taker], place: str, *, many: bool) -> None:
        names = self._names(value) if self._names else ()
        for key, item in self._members(value):
            mine = [after for taker in takers for after in _into(taker, key, names)]
            name = key if not place and not key.startswith("$.") else f"{place or '$'}.{_step(key)}"
            if mine:
                self._inside(item, mine, f"{place or '$'}.{_step(key)}", many=many)
            elif many:
                self._several.setdefault(name, []).append(self._text(item))
            else:
                self._single[name] = self._text(item)

    def _inside(self, value: Any, takers: list[Taker], place: str, *, many: bool) -> None:
        if any(not rest and not _has_struct(kind) for rest, kind in takers):
            return
        kinds = [None if rest else kind for rest, kind in takers]
        if all(kind and kind[0] in ("array", "map") for kind in kinds):
            inner: list[Taker] = [((), k[1] if k[0] == "array" else k[1][1]) for k in kinds if k]
            for item in self._elements(value):
                self._inside(item, inner, f"{place}[]", many=True)
        elif all(kind is None or kind[0] == "struct" for kind in kinds):
            self._object(value, takers, place, many=many)


def _into(taker: Taker, key: str, names: Sequence[str]) -> list[Taker]:
    rest, kind = taker
    if rest:
        return [(rest[1:], kind)] if rest[0] == key else []
    fields = kind[1] if kind and kind[0] == "struct" else ()
    return [
        ((), inner) for name, inner in fields if name == key or (names and name not in names and name == key.lower())
    ]


def _has_struct(kind: Kind | None) -> bool:
    if kind is None or kind[0] not in ("array", "map", "struct"):
        return False
    return kind[0] == "struct" or _has_struct(kind[1] if kind[0] == "array" else kind[1][1])


def _step(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else '"' + re.sub(r'(["\\])', r"\\\1", key) + '"'
