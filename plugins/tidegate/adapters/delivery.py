"""Windows sent to further systems by a child process: see `spark_jobs/handlers/deliver.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from tidegate.adapters.child import ByChild, Child
from tidegate.core.base.errors import (
    DeliveryAhead,
    DeliveryDenied,
    DeliveryRefused,
    DeliveryUnsure,
    LostComparison,
    StorageError,
)
from tidegate.core.base.plain import from_plain, to_plain
from tidegate.core.deliver.port import Attempt, Holds, Missing, Needed, Part, Standing, Table, Tries
from tidegate.core.deliver.sender import Generation

ANSWERS_S = 600.0
"""A statement of a further system is given up after so long; what it was then is unknown."""


class SenderProcess(ByChild):
    """`core.deliver.sender.Sender` by `spark_jobs/handlers/deliver.py`. `settings` holds secrets; it is asked for at
    the first request."""

    def __init__(
        self,
        kind: str,
        settings: Callable[[], Mapping[str, Any]],
        table: Table,
        user: str | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self._kind, self._settings, self._table = kind, settings, table
        self._opened = False
        advice = "install tidegate[worker] (pyarrow) and the system's driver beside this command"
        self._child = Child(
            "deliver",
            advice,
            user=user,
            work=f"sending to {table.name}",
            failed=lambda words: DeliveryUnsure(f"sending to {table.name}: {words}"),
            secrets=secrets,
        )

    def close(self) -> None:
        """The next request opens it again."""
        self._opened = False
        self._child.close()

    def missing(self) -> Missing | None:
        return from_plain(Missing | None, self._asked({"missing": True})["missing"])

    def prepare(self) -> list[str]:
        return list(self._asked({"prepare": True})["done"])

    def tries(self) -> Tries | None:
        found = self._asked({"tries": True})["tries"]
        return None if found is None else {window_ms: (generation, epoch) for window_ms, generation, epoch in found}

    def send(self, attempt: Attempt, generation: Generation, holds: Holds) -> Standing:
        asked = {"attempt": to_plain(attempt), **_told(generation)}
        answer = self._asked({"send": asked}, lambda question: holds())
        return from_plain(Standing, answer["standing"])

    def standing(self, window_ms: int) -> Standing:
        return from_plain(Standing, self._asked({"standing": window_ms})["standing"])

    def parts(self, window_ms: int, generation: Generation) -> tuple[Part, ...]:
        answer = self._asked({"parts": {"window_ms": window_ms, **_told(generation)}})
        return from_plain(tuple[Part, ...], answer["parts"])

    def sweep(self, needed: Needed) -> list[str]:
        return list(self._asked({"sweep": True}, lambda question: sorted(needed(set(question["of"]))))["done"])

    def _asked(self, request: Any, reply: Callable[[Any], Any] | None = None) -> Any:
        """The answer; what is asked back meanwhile is replied to. An error of `reply` ends the process: what it was at
        is not finished."""
        try:
            self._open()
            answer = self._ask(request)
            while "asks" in answer:
                assert reply is not None
                answer = self._ask({"told": reply(answer)})
        except BaseException:
            self.close()
            raise
        if "error" in answer:
            _refuse(answer)
        return answer

    def _open(self) -> None:
        if self._opened:
            return
        settings, table = dict(self._settings()), to_plain(self._table)
        asked = {"kind": self._kind, "settings": settings, "table": table, "timeout_s": ANSWERS_S}
        answer = self._ask({"open": asked})
        if "error" in answer:
            _refuse(answer)
        self._opened = True

    def _ask(self, request: Any) -> Any:
        """What a process that died was at is unknown."""
        try:
            return self._child.one(request)
        except StorageError as e:
            raise DeliveryUnsure(str(e.args[0]), advice=e.advice) from None


def _told(generation: Generation) -> dict[str, Any]:
    columns = None if generation.columns is None else [list(c) for c in generation.columns]
    return {"files": to_plain(generation.files), "columns": columns}


def _refuse(answer: Mapping[str, Any]) -> NoReturn:
    kind, what, advice = answer["error"], str(answer["what"]), str(answer["advice"])
    if kind == "ahead":
        raise DeliveryAhead(what, generation=answer["generation"], epoch=answer["epoch"], advice=advice)
    if kind == "lost":
        raise LostComparison(what, advice=advice)
    if kind == "unsure":
        raise DeliveryUnsure(what, advice=advice)
    if kind == "denied":
        raise DeliveryDenied(what, advice=advice)
    raise DeliveryRefused(what, advice=advice, retry=bool(answer["retry"]))
