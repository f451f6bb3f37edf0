"""Blocking calls beside an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


async def in_thread(call: Callable[[], T], name: str) -> T:
    """Make `call` in a thread of its own, which ends with the call; returns or raises what it does.

    A daemon thread, unlike those of the loop's executor: a triggerer that stops must not wait for a database that
    hangs. It has no context variables either, so nothing that it logs is taken for one trigger's. Whoever is cancelled
    while waiting leaves the call to end by itself."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            settle = _success, call()
        except BaseException as e:
            settle = _failure, e
        with suppress(RuntimeError):  # the loop has ended: no one waits any more
            loop.call_soon_threadsafe(settle[0], done, settle[1])

    Thread(target=run, name=name, daemon=True).start()
    return await done


def in_background(call: Callable[[], object], name: str) -> None:
    """Make `call` in a thread of its own without waiting for it."""
    Thread(target=call, name=name, daemon=True).start()


def _success(done: asyncio.Future[T], value: T) -> None:
    if not done.done():
        done.set_result(value)


def _failure(done: asyncio.Future[T], error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)
