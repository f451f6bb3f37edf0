"""A port that is made when it is first used: most looks need one or two of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Later:
    """Stands for what `make` returns."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._made = make, None

    def __getattr__(self, name: str) -> Any:
        if self._made is None:
            self._made = self._make()
        return getattr(self._made, name)
