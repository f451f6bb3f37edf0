"""Put something into the middle of a task: another task's whole step, or the end of its process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


class Died(BaseException):
    """The process ends here: nothing of the code under test may catch it."""


def die(*_: Any, **__: Any) -> NoReturn:
    raise Died


class Hook:
    """A port whose named methods run something of the test's before or after the real call, with its arguments."""

    def __init__(
        self,
        port: Any,
        before: dict[str, Callable[..., object]] | None = None,
        after: dict[str, Callable[..., object]] | None = None,
    ) -> None:
        self._port, self._before, self._after = port, before or {}, after or {}

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._port, name)
        if name not in self._before and name not in self._after:
            return real

        def hooked(*args: Any, **options: Any) -> Any:
            if name in self._before:
                self._before[name](*args, **options)
            result = real(*args, **options)
            if name in self._after:
                self._after[name](*args, **options)
            return result

        return hooked


class Once:
    """Runs `step` at the n-th call only."""

    def __init__(self, step: Callable[[], object], at: int = 1) -> None:
        self._step, self._left = step, at

    def __call__(self, *_: Any, **__: Any) -> None:
        self._left -= 1
        if self._left == 0:
            self._step()


def catalogue_of(ctx: Any) -> Any:
    """Through which a context's tables are reached."""
    return ctx.target.catalogue


def use_catalogue(ctx: Any, catalogue: Any) -> None:
    """Another one for all of a context's tables."""
    for table in (ctx.target, *ctx.sides.values()):
        table.catalogue = catalogue
