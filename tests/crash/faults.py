"""Faults at port calls: every state-changing call is a site, and a site can fail in several ways.

A shot names the call by its number, or by its site (what is called on what, without the names that chance gives).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.crash.partial import partly
from tests.crash.sites import site_of
from tests.fakes.objects import upload
from tidegate.adapters.watchdog import Watched
from tidegate.core.base.errors import (
    CatalogueError,
    CatalogueUnsure,
    DeliveryRefused,
    DeliveryUnsure,
    JobFailed,
    LedgerError,
    OutcomeUnknown,
    SourceUnavailable,
    StorageError,
    TidegateError,
)

CHANGING: dict[str, frozenset[str]] = {
    "storage": frozenset({"make_dirs", "rename_no_replace", "delete", "write_new", "open_new"}),
    "catalogue": frozenset(
        {"ensure_table", "evolve_table", "add_partitions", "set_location", "drop_partitions", "execute"}
    ),
    "switch": frozenset({"switch_partitions"}),
    "iceberg": frozenset({"create", "commit"}),
    "pipelines": frozenset({"register", "pin", "accept_topic"}),
    "due": frozenset({"save"}),
    "totals": frozenset({"advance"}),
    "batches": frozenset(
        {"insert_plan", "bind", "take", "replan", "refuse", "seal", "adopt", "land", "mark_side", "abandon", "block"}
    ),
    "windows": frozenset(
        {
            "save_certificate",
            "begin_close",
            "finish_close",
            "begin_generation",
            "take",
            "built",
            "take_back",
            "discard",
            "begin_swap",
            "publish",
            "announced",
            "declare_intent",
            "answer_intent",
            "block",
        }
    ),
    "recovery": frozenset({"withdraw", "restore", "set_aside"}),
    "cleaning": frozenset({"batch_cleaned", "generation_goes", "generation_cleaned", "cleaned"}),
    "redrives": frozenset({"cleared"}),
    "truths": frozenset({"save", "accept"}),
    "reopenings": frozenset({"cleared"}),
    "rollbacks": frozenset({"begin"}),
    "replays": frozenset({"rehearsed"}),
    "repairs": frozenset({"clear_batch", "clear_window", "release"}),
    "applies": frozenset({"begin", "refuse", "applied", "overtaken", "stands"}),
    "copies": frozenset(
        {"begin", "cut", "attempt", "accept", "again", "whole", "merge", "give_up", "confirm", "forget", "looked"}
    ),
    "schema_changes": frozenset({"accept"}),
    "deliveries": frozenset({"take", "stands", "failed", "refuse", "again", "skip", "move"}),
    "sender": frozenset({"prepare", "send", "sweep"}),
    "launcher": frozenset({"run"}),
    "source": frozenset({"remember"}),
}
"""The calls of each port that change something; `test_every_changing_call_is_a_site` holds it against the ports."""

OF_A_LAKEHOUSE = frozenset({"cleaning.generation_goes", "iceberg.create", "iceberg.commit", "pipelines.pin"})
"""Hive's catalogue knows no field ids."""
OF_A_MIRROR = frozenset(f"applies.{method}" for method in CHANGING["applies"])
"""Pipelines with windows merge nothing; `tests/mirror/test_faults.py` meets these."""
OF_A_COPY = frozenset(f"copies.{method}" for method in CHANGING["copies"])
"""No table is copied in this life; `tests/copies/test_faults.py` meets these."""
OF_A_DELIVERY = frozenset(f"{port}.{method}" for port in ("deliveries", "sender") for method in CHANGING[port])
"""No further system gets this life's windows; `tests/deliver/test_faults.py` meets these."""
OF_EVOLUTION = frozenset({"schema_changes.accept"})
"""No field of this life becomes a column; `tests/mirror/test_evolve.py` meets it."""

UNKNOWN: dict[str, type[TidegateError]] = {
    "storage": OutcomeUnknown,
    "catalogue": CatalogueUnsure,
    "switch": CatalogueUnsure,
    "iceberg": CatalogueUnsure,
    "pipelines": LedgerError,
    "due": LedgerError,
    "totals": LedgerError,
    "batches": LedgerError,
    "windows": LedgerError,
    "recovery": LedgerError,
    "cleaning": LedgerError,
    "redrives": LedgerError,
    "truths": LedgerError,
    "reopenings": LedgerError,
    "rollbacks": LedgerError,
    "replays": LedgerError,
    "repairs": LedgerError,
    "applies": LedgerError,
    "copies": LedgerError,
    "schema_changes": LedgerError,
    "deliveries": LedgerError,
    "failovers": LedgerError,
    "sender": DeliveryUnsure,
    "launcher": JobFailed,
    "source": SourceUnavailable,
}

REFUSED: dict[str, type[TidegateError]] = {
    "storage": StorageError,
    "catalogue": CatalogueError,
    "switch": CatalogueError,
    "iceberg": CatalogueError,
    "launcher": JobFailed,
    "sender": DeliveryRefused,
}
"""Ports with a definite refusal that says nothing of the state ("no space left", "permission denied").

The ledger has none: its only definite answer is a lost comparison, and that is never given without a reason."""

KINDS = (
    "gone before",
    "gone after",
    "not done, unknown",
    "done, reply lost",
    "refused",
    "half done, gone",
    "half done, unknown",
    "half done, refused",
    "hangs for ever",
    "hangs, done later",
)
"""The process dies before or after the call; the call reports an unknown outcome, executed or not; it refuses for
certain; it does a part and the process dies, the outcome is unknown, or it refuses the rest; it blocks until the
watchdog ends the wait, and is never executed, or while a later try is over already."""

OVERTAKEN = ("overtaken before", "overtaken after", "cleaned before")
"""At the call, before or after it, another process takes over: it runs a whole try of the same task, or it cleans what
40 days have left; then the first one goes on, as a zombie."""

HANG_LIMIT_S = 0.04
"""How long the watchdog waits for a call that blocks."""


class ProcessGone(BaseException):
    """What SIGKILL looks like from inside: nobody's `except Exception` sees it."""


@dataclass(frozen=True)
class Call:
    """A changing call that was made; `site` names it without chance names, `parts` is whether it has several."""

    port: str
    site: str
    parts: bool

    @property
    def method(self) -> str:
        """`port.method`"""
        return self.site.partition("(")[0]

    def kinds(self) -> tuple[str, ...]:
        """The ways in which it can fail."""
        impossible = set()
        if self.port not in REFUSED:
            impossible |= {"refused", "half done, refused"}
        if not self.parts:
            impossible |= {k for k in KINDS if k.startswith("half")}
        return tuple(k for k in KINDS if k not in impossible)


@dataclass(frozen=True)
class Shot:
    """One fault: at the call numbered `at`, or else at the `nth` (from 0) call of `site` since the shot before it."""

    kind: str
    at: int = -1
    site: str = ""
    nth: int = 0


@dataclass
class Faults:
    """Counts changing calls and fires the shots, each once and in their order. `fired` names their sites."""

    shots: list[Shot] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    fired: list[str] = field(default_factory=list)
    late_answers: list[str] = field(default_factory=list)
    rival: Callable[[str], None] = field(default=lambda kind: None)
    _met: int = 0
    _in_flight: list[_Blocking] = field(default_factory=list)
    _late: set[int] = field(default_factory=set)

    @classmethod
    def one(cls, at: int, kind: str) -> Faults:
        return cls([Shot(kind, at)])

    def wrap(self, name: str, port: Any) -> Any:
        return _Port(self, name, port)

    @property
    def exhausted(self) -> bool:
        return len(self.fired) == len(self.shots)

    def call(self, port: str, method: str, real: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        function = partial(getattr(real, method), *args, **options)
        if threading.get_ident() in self._late:  # part of a call that is executed late
            return function()
        number, half = len(self.calls), partly(port, method, real, args)
        call = Call(port, site_of(port, method, args), half is not None)
        self.calls.append(call)
        shot = self._shot(number, call.site)
        if shot is None:
            return function()
        self.fired.append(call.site)
        return self._fail(shot.kind, port, call.site, function, half)

    def _shot(self, number: int, site: str) -> Shot | None:
        if self.exhausted:
            return None
        due = self.shots[len(self.fired)]
        if due.site == site:
            self._met += 1
        hit = due.at == number if due.at >= 0 else due.site == site and self._met == due.nth + 1
        if not hit:
            return None
        self._met = 0
        return due

    def _fail(
        self, kind: str, port: str, site: str, function: Callable[[], Any], half: Callable[[], None] | None
    ) -> Any:
        unknown = UNKNOWN[port]
        if kind in OVERTAKEN:
            if kind.endswith("before"):
                self.rival(kind)
                return function()
            result = function()
            self.rival(kind)
            return result
        if kind == "gone before":
            raise ProcessGone
        if kind == "not done, unknown":
            raise unknown(f"injected: {site} was not executed")
        if kind == "refused":
            raise REFUSED.get(port, unknown)(f"injected: {site}: no space left")
        if kind.startswith("hangs"):
            blocking = _Blocking(self, site, function if kind == "hangs, done later" else None)
            self._in_flight.append(blocking)
            return Watched(blocking, HANG_LIMIT_S, unknown).call()
        if kind.startswith("half"):
            assert half is not None, f"{site} has no parts"
            half()
            if kind == "half done, gone":
                raise ProcessGone
            raise (unknown if kind == "half done, unknown" else REFUSED[port])(f"injected: {site} was done in part")
        function()
        if kind == "gone after":
            raise ProcessGone
        raise unknown(f"injected: the reply of {site} was lost")

    @property
    def in_flight(self) -> bool:
        return bool(self._in_flight)

    def arrive(self) -> None:
        """Requests that block are executed now (or dropped for good)."""
        while self._in_flight:
            self._in_flight.pop().release()


class _Blocking:
    """A call that does not come back until it is let go; then it is executed, unless it has been dropped."""

    def __init__(self, faults: Faults, site: str, function: Callable[[], Any] | None) -> None:
        self._faults, self._site, self._function = faults, site, function
        self._released, self._done = threading.Event(), threading.Event()

    def call(self) -> Any:
        self._released.wait()
        me = threading.get_ident()
        self._faults._late.add(me)
        try:
            if self._function is not None:
                self._function()
                self._faults.late_answers.append(f"{self._site}: done")
        except TidegateError as e:
            self._faults.late_answers.append(f"{self._site}: {type(e).__name__}")
        finally:
            self._faults._late.discard(me)
            self._done.set()

    def release(self) -> None:
        self._released.set()
        assert self._done.wait(60), f"{self._site} did not end"


class _Port:
    def __init__(self, faults: Faults, name: str, port: Any) -> None:
        self._faults, self._name, self._port = faults, name, port

    def __getattr__(self, method: str) -> Any:
        if method == "open_new" and not self._port.renames:
            return partial(upload, self)  # there a file's one change is the write that closes it
        if method not in CHANGING.get(self._name, ()):
            return getattr(self._port, method)

        def faulty(*args: Any, **options: Any) -> Any:
            return self._faults.call(self._name, method, self._port, args, options)

        return faulty
