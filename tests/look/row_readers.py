"""Rows of files as `where` reads them, without its child process."""

from __future__ import annotations

import json
from typing import Any

from spark_jobs.handlers.rows import Rows
from tidegate.adapters.rows import RowProcess


class InProcessRows(RowProcess):
    """What the child process does, without the child."""

    def __init__(self) -> None:
        super().__init__()
        self._rows = Rows()

    def _ask(self, request: Any) -> dict[str, Any]:
        return json.loads(json.dumps(self._rows.answer(json.loads(json.dumps(request)))))
