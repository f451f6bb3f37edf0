"""Single rows, and events of a key, of files, found by a child process: see `spark_jobs/handlers/rows.py`."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.adapters.child import ByChild, Child
from tidegate.core.look.sighting import Lookup, Row
from tidegate.core.mirror.key_history import Event, Found, Question


class RowProcess(ByChild):
    """Row reader (`core.look.sighting.RowReader`) and event reader (`core.mirror.key_history.EventReader`) by
    `spark_jobs/handlers/rows.py`. Raises StorageError also after `limit_s`, if that is given."""

    def __init__(
        self, user: str | None = None, limit_s: float | None = None, secrets: Mapping[str, str] | None = None
    ) -> None:
        advice = "install tidegate[worker] (pyarrow) beside this command: without it only the ledger is asked"
        self._child = Child("rows", advice, user=user, limit_s=limit_s, secrets=secrets)

    def find(self, lookup: Lookup) -> tuple[Row | None, str]:
        answer = self._ask(
            {
                "row": [lookup.partition, lookup.offset, lookup.batch_id],
                "files": [list(uris) for uris in lookup.files],
                "event": list(lookup.event) if lookup.event else None,
                "columns": [None if c is None else list(c) for c in lookup.columns or (None,) * len(lookup.files)],
            }
        )
        found = answer["found"]
        return (None if found is None else Row(**found)), answer["unread"]

    def events(self, question: Question) -> Found:
        answer = self._ask(
            {
                "key": [[v.column, v.type, v.value] for v in question.key],
                "files": [list(uris) for uris in question.files],
                "content": [list(c) for c in question.content],
                "most": question.most,
            }
        )
        return Found(tuple(Event(**e) for e in answer["events"]), answer["count"], answer["unread"])
