"""A limit for calls that can hang: in a socket without a time-out, or in native code that no signal interrupts.

Each call runs in a daemon thread of its own. The caller waits for it as long as its limit says, in Python, so that a
task can be ended meanwhile; then it gets an error, the thread is left to itself, and whatever it brings later is
dropped. For a call that changes something the error says *unknown*: it may have been executed, or still be.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Generic, TypeVar, cast

HANGS_S = 900.0
"""A call to a server that takes longer hangs: their clients' own time-outs are all shorter."""

MOST_STUCK = 8
"""Most calls that may hang at once; beyond it the other side counts as away and gets no further call."""

ANY = "*"
"""Key in a mapping of limits for every call that it does not name."""

Limits = Mapping[str, float] | float
"""Seconds for each call, or for calls by name; `ANY` is needed where a name may be missing."""

_SLICE_S = 0.5
_T = TypeVar("_T")


class Watchdog:
    """Limits calls and counts those that hang; safe for any number of threads. One for each server that can hang."""

    def __init__(
        self,
        limits: Limits,
        unknown: Callable[[str], Exception],
        refused: Callable[[str], Exception] | None = None,
        looking: Collection[str] = (),
        most_stuck: int = MOST_STUCK,
    ) -> None:
        """`unknown` makes the error of a changing call that has not come back; `refused` that of a call named in
        `looking`, and of any call that was not made because too many hang (without it, `unknown` makes those too)."""
        self._limits, self._unknown, self._refused = limits, unknown, refused or unknown
        self._looking, self._most_stuck = frozenset(looking), most_stuck
        self._lock = threading.Lock()
        self._stuck = 0

    @property
    def stuck(self) -> int:
        """Number of calls that were given up and have not come back yet."""
        return self._stuck

    def limit(self, name: str) -> float:
        """Seconds that a call of `name` may take."""
        if isinstance(self._limits, Mapping):
            return self._limits[name] if name in self._limits else self._limits[ANY]
        return self._limits

    def call(self, name: str, function: Callable[[], _T], *, about: str = "") -> _T:
        """Call `function` within its limit; returns or raises what it does. `about` names the subject for the error."""
        if self._stuck >= self._most_stuck:
            raise self._refused(f"{name}{about}: not tried: {self._stuck} calls before it hang without an answer")
        call = _Call(function)
        thread = threading.Thread(target=self._run, args=(call,), name=f"tidegate {name}", daemon=True)
        try:
            thread.start()
            in_time = _wait(call.done, self.limit(name))
        except BaseException:  # the task is ended while it waits
            self._give_up(call)
            raise
        if not in_time and self._give_up(call):
            raise self._overdue(name, about)
        return call.result()

    def _run(self, call: _Call[Any]) -> None:
        call.execute()
        with self._lock:
            call.done.set()
            self._stuck -= call.given_up

    def _give_up(self, call: _Call[Any]) -> bool:
        """Give the call up; False if it came back at the last moment."""
        with self._lock:
            call.given_up = not call.done.is_set()
            self._stuck += call.given_up
            return call.given_up

    def _overdue(self, name: str, about: str) -> Exception:
        late = f"{name}{about}: no answer within {self.limit(name):g} s"
        if name in self._looking:
            return self._refused(late)
        return self._unknown(f"{late}; it may or may not have been executed, or still be")


def _wait(done: threading.Event, seconds: float) -> bool:
    """Wait in slices: Python handles a signal when the main thread next runs."""
    end = time.monotonic() + seconds
    while not done.wait(max(0.0, min(_SLICE_S, end - time.monotonic()))):
        if time.monotonic() >= end:
            return False
    return True


class _Call(Generic[_T]):
    def __init__(self, function: Callable[[], _T]) -> None:
        self._function: Callable[[], _T] | None = function
        self._value: _T | None = None
        self._error: BaseException | None = None
        self.done = threading.Event()
        self.given_up = False

    def execute(self) -> None:
        function, self._function = self._function, None
        assert function is not None
        try:
            self._value = function()
        except BaseException as e:
            self._error = e

    def result(self) -> _T:
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # no cycle with its own traceback
        return cast(_T, self._value)


class Watched:
    """Port whose methods are called under a watchdog; other attributes are passed through."""

    def __init__(
        self,
        port: object,
        limits: Limits,
        unknown: Callable[[str], Exception],
        refused: Callable[[str], Exception] | None = None,
        looking: Collection[str] = (),
        most_stuck: int = MOST_STUCK,
    ) -> None:
        """Arguments as for `Watchdog`; `looking` names the port's methods that change nothing."""
        self._port = port
        self._watchdog = Watchdog(limits, unknown, refused, looking, most_stuck)

    @property
    def stuck(self) -> int:
        """Number of calls that were given up and have not come back yet."""
        return self._watchdog.stuck

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # also while it is being unpickled: there is no port yet
            raise AttributeError(name)
        found = getattr(self._port, name)
        return partial(self._call, name, found) if callable(found) else found

    def _call(self, name: str, method: Callable[..., Any], /, *args: object, **kwargs: object) -> Any:
        about = f" {args[0]}" if args and isinstance(args[0], str) else ""
        return self._watchdog.call(name, partial(method, *args, **kwargs), about=about)
