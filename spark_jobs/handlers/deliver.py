"""Sends windows to a further system. Unlike others it changes something: what an end in the middle leaves there is
settled by the rules D1 to D8. Requests, and their answers:

    {"open": {"kind", "settings", "table", "timeout_s"}}    {}; the settings hold secrets, and come by the pipe
    {"missing": true}                                       {"missing": {"left": [[ms, rows], ...] or null} or null}
    {"prepare": true}                                       {"done": ["what was done", ...]}
    {"tries": true}                                         {"tries": [[ms, generation, epoch], ...] or null}
    {"send": {"attempt", "files", "columns"}}               {"standing": ...}
    {"standing": window start ms}                           {"standing": ...}
    {"parts": {"window_ms", "files", "columns"}}            {"parts": [...]}
    {"sweep": true}                                         {"done": ["what was removed", ...]}

Before an answer it may ask back, and reads the reply as the next request:

    {"asks": "holds"}                    {"told": true or false}
    {"asks": "needed", "of": [...]}      {"told": [...]}

What a system answers but success is {"error": kind, "what", "advice", "retry", ...}, kind: refused | denied | ahead |
unsure | lost.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from spark_jobs.engine.delivered import DeliveredRows, checksum
from spark_jobs.engine.failures import JobError
from spark_jobs.handlers.places import open_file
from spark_jobs.handlers.still import watched
from tidegate.core.base.errors import (
    DeliveryAhead,
    DeliveryDenied,
    DeliveryRefused,
    DeliveryUnsure,
    LostComparison,
    StorageError,
)
from tidegate.core.base.plain import from_plain, to_plain
from tidegate.core.deliver.port import Attempt, FurtherSystem, Table
from tidegate.core.files.merge import Source
from tidegate.kinds import delivery_kind

Ask = Callable[[dict[str, Any]], Any]
STATEMENTS = 3
"""After so many times as long as a statement may take, a process that computes nothing is taken to hang."""


def handler() -> Callable[[Any], dict[str, Any]]:
    pa.set_cpu_count(1)
    return Conversation(_ask).answer


def _ask(question: dict[str, Any]) -> Any:
    """The reply; None where nobody is there any more, which holds nothing."""
    print(json.dumps({"answer": question}), flush=True)
    line = sys.stdin.readline()
    return json.loads(line)["ask"]["told"] if line else None


class Conversation:
    """One system, as long as the process lives."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._system: FurtherSystem | None = None
        self._table: Table | None = None
        self._limit_s = 0.0

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            if "open" in request:
                self._open(request["open"])
                return {}
            assert self._table is not None, "nothing was opened"
            with watched(self._limit_s, f"sending to {self._table.name}"):
                return self._answer(request)
        except DeliveryAhead as e:
            return _told("ahead", e) | {"generation": e.generation, "epoch": e.epoch}
        except DeliveryDenied as e:
            return _told("denied", e)
        except DeliveryRefused as e:
            return _told("refused", e)
        except DeliveryUnsure as e:
            return _told("unsure", e)
        except LostComparison as e:
            return _told("lost", e)
        except JobError as e:  # the files are not what the manifest says
            failure = e.failure
            return {"error": "refused", "what": failure.what, "advice": failure.advice, "retry": failure.retry}
        except StorageError as e:
            return _told("refused" if e.retry else "denied", e)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._system is not None, "nothing was opened"
        if "missing" in request:
            return {"missing": to_plain(self._system.missing())}
        if "prepare" in request:
            return {"done": self._system.prepare()}
        if "tries" in request:
            found = self._system.tries()
            return {"tries": None if found is None else [[window_ms, *tried] for window_ms, tried in found.items()]}
        if "send" in request:
            return self._send(self._system, request["send"])
        if "standing" in request:
            return {"standing": to_plain(self._system.standing(request["standing"]))}
        if "parts" in request:
            asked = request["parts"]
            return {"parts": to_plain(self._system.parts(asked["window_ms"], self._rows(asked["window_ms"], asked)))}
        return {"done": self._system.sweep(self._needed)}

    def _open(self, asked: dict[str, Any]) -> None:
        self._table = from_plain(Table, asked["table"])
        self._limit_s = STATEMENTS * asked["timeout_s"]
        opened = delivery_kind(asked["kind"]).opened
        self._system = opened(asked["settings"], self._table, checksum, asked["timeout_s"])

    def _send(self, system: FurtherSystem, asked: dict[str, Any]) -> dict[str, Any]:
        attempt = from_plain(Attempt, asked["attempt"])
        return {"standing": to_plain(system.send(attempt, self._rows(attempt.token.unit, asked), self._holds))}

    def _rows(self, window_ms: int, asked: dict[str, Any]) -> DeliveredRows:
        assert self._table is not None
        sources = from_plain(tuple[Source, ...], asked["files"])
        return DeliveredRows(self._table.columns, window_ms, sources, asked["columns"], open_file)

    def _holds(self) -> bool:
        return self._ask({"asks": "holds"}) is True

    def _needed(self, stagings: set[str]) -> set[str]:
        told = self._ask({"asks": "needed", "of": sorted(stagings)})
        return stagings if told is None else set(told)


def _told(kind: str, e: Any) -> dict[str, Any]:
    return {"error": kind, "what": str(e.args[0]), "advice": e.advice, "retry": e.retry}
