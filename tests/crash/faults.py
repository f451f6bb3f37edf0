"""Faults at port calls: every state-changing call is a site, and a site can fail in several ways."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tidegate.core.errors import (
    CatalogueUnsure,
    JobFailed,
    LedgerError,
    OutcomeUnknown,
    SourceUnavailable,
    TidegateError,
)

CHANGING: dict[str, frozenset[str]] = {
    "storage": frozenset({"make_dirs", "rename_no_replace", "delete", "write_new", "open_new"}),
    "catalogue": frozenset({"ensure_table", "add_partitions", "set_location", "drop_partitions"}),
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
            "discard",
            "begin_swap",
            "publish",
            "announced",
            "declare_intent",
            "answer_intent",
            "block",
        }
    ),
    "launcher": frozenset({"run"}),
    "source": frozenset({"commit_group"}),
}
"""The calls of each port that change something; `test_every_changing_call_is_a_site` holds it against the ports."""

UNKNOWN: dict[str, type[TidegateError]] = {
    "storage": OutcomeUnknown,
    "catalogue": CatalogueUnsure,
    "batches": LedgerError,
    "windows": LedgerError,
    "launcher": JobFailed,
    "source": SourceUnavailable,
}

KINDS = ("gone before", "gone after", "refused", "reply lost")
"""The process dies before or after the call; or the call reports an unknown outcome, not executed or executed."""


class ProcessGone(BaseException):
    """What SIGKILL looks like from inside: nobody's `except Exception` sees it."""


@dataclass
class Faults:
    """Counts changing calls; the one numbered `at` fails by `kind`, once. `fired` names it."""

    at: int = -1
    kind: str = ""
    calls: list[str] = field(default_factory=list)
    fired: str | None = None

    def wrap(self, name: str, port: Any) -> Any:
        return _Port(self, name, port)

    def call(self, port: str, method: str, function: Any, args: Any, kwargs: Any) -> Any:
        number = len(self.calls)
        self.calls.append(f"{port}.{method}")
        if number != self.at or self.fired:
            return function(*args, **kwargs)
        self.fired = f"{port}.{method}"
        if self.kind == "gone before":
            raise ProcessGone
        if self.kind == "refused":
            raise UNKNOWN[port](f"injected: {port}.{method} was not executed")
        function(*args, **kwargs)
        if self.kind == "gone after":
            raise ProcessGone
        raise UNKNOWN[port](f"injected: the reply of {port}.{method} was lost")


class _Port:
    def __init__(self, faults: Faults, name: str, port: Any) -> None:
        self._faults, self._name, self._port = faults, name, port

    def __getattr__(self, method: str) -> Any:
        function = getattr(self._port, method)
        if method not in CHANGING.get(self._name, ()):
            return function

        def faulty(*args: Any, **kwargs: Any) -> Any:
            return self._faults.call(self._name, method, function, args, kwargs)

        return faulty
