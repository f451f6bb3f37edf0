"""A storage whose calls are counted: one may die, or get no answer and be executed at a later one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.hooks import Died
from tidegate.core.base.errors import OutcomeUnknown, TidegateError

LOOKS = ("list_files", "list_names", "exists", "read")


@dataclass
class Calls:
    """Storage as one life of the pipeline sees it: call number `late` reports an unknown outcome and is executed right
    before call number `until`; the process dies before call number `dies`. `watch` looks at the world at each call."""

    storage: Any
    late: int = -1
    until: int = -1
    dies: int = -1
    watch: Callable[[], None] = lambda: None
    made: list[str] = field(default_factory=list)
    owed: Callable[[], object] | None = None
    on: bool = True

    def __getattr__(self, method: str) -> Any:
        function = getattr(self.storage, method)

        def called(*args: Any) -> Any:
            if not self.on:
                return function(*args)
            number = len(self.made)
            self.made.append(method)
            if number == self.until and self.owed is not None:
                owed, self.owed = self.owed, None
                try:
                    owed()
                except TidegateError:
                    pass  # refused: nobody hears of it
            self.watch()
            if number == self.dies:
                raise Died
            if number == self.late and method not in LOOKS:
                self.owed = lambda: function(*args)
                raise OutcomeUnknown(f"{method}: no answer")
            return function(*args)

        return called
