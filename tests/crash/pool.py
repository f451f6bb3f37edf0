"""Cases on every core: each process lives the fault-free life once with each kind of table that it is asked for, in a
folder of its own, and then takes cases."""

from __future__ import annotations

import atexit
import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from typing import Any, TypeVar

from tests.crash.life import HIVE
from tests.crash.matrix import Case, Reference, a_reference, run_case

_T = TypeVar("_T")
_exits = ExitStack()
_mine: dict[str, Reference] = {}


class Pool:
    """Closed by `with`; a worker that dies fails the cases that it had."""

    def __init__(self, jobs: int | None = None) -> None:
        self._executor = ProcessPoolExecutor(
            jobs or len(os.sched_getaffinity(0)), multiprocessing.get_context("spawn"), _begin
        )

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(cancel_futures=True)

    def submit(self, function: Callable[..., _T], *args: Any, target: str = HIVE) -> Future[_T]:
        """`function(reference, *args)` in one of the processes."""
        return self._executor.submit(_here, target, function, args)


def _begin() -> None:
    atexit.register(_exits.close)


def _here(target: str, function: Callable[..., _T], args: tuple[Any, ...]) -> _T:
    if target not in _mine:
        _mine[target] = _exits.enter_context(a_reference(target))
    return function(_mine[target], *args)


def failures(reference: Reference, cases: Iterable[Case]) -> list[str]:
    """Of these cases, in words that say how to run one alone."""
    found = []
    for case in cases:
        wrong = run_case(reference, case)
        if wrong is not None:
            site = reference.calls[case.step][case.at].site
            found.append(f"{case} at {site}: {wrong}")
    return found


def told(reference: Reference) -> tuple[list[list[Any]], list[dict[str, Any]]]:
    """The calls and the states of the fault-free life."""
    return reference.calls, reference.after
