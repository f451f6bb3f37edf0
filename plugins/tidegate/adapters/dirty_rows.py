"""What dirty files hold, told by a child process: see `spark_jobs/handlers/dirty.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.adapters.child import ByChild, Child
from tidegate.core.dirty.redrive import Cause, Change, Example

EXAMPLES = 3


class DirtyProcess(ByChild):
    """`core.dirty.redrive.DirtyReader`; its answers come from `spark_jobs/handlers/dirty.py`."""

    def __init__(self, user: str | None = None, secrets: Mapping[str, str] | None = None) -> None:
        advice = "install tidegate[worker] (pyarrow) beside this command"
        self._child = Child("dirty", advice, user=user, secrets=secrets)

    def causes(self, batch_id: int, files: Sequence[Sequence[str]]) -> tuple[list[Cause], str]:
        told = self._ask({"files": [list(uris) for uris in files], "examples": EXAMPLES})
        found = [
            Cause(field, reason, rows, (batch_id,), tuple(Example(batch_id, *e) for e in examples), varies)
            for field, reason, varies, rows, examples in told["groups"]
        ]
        return found, told["unread"]

    def changes(self, before: Mapping[int, Sequence[Sequence[str]]], after: Sequence[str]) -> tuple[list[Change], str]:
        files = [[batch_id, [list(uris) for uris in found]] for batch_id, found in before.items()]
        told = self._ask({"before": files, "after": list(after), "examples": EXAMPLES})
        found = [
            Change(
                field=field,
                reason=reason,
                rows=rows,
                readable=readable,
                still=tuple(map(tuple, still)),
                examples=tuple(Example(*e) for e in examples),
                varies=varies,
            )
            for field, reason, varies, rows, readable, still, examples in told["groups"]
        ]
        return sorted(found, key=lambda c: (-c.rows, c.field, c.reason)), told["unread"]
