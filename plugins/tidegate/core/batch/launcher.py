"""The port to Spark: runs one plan."""

from __future__ import annotations

from typing import Protocol


class Launcher(Protocol):
    def run(self, plan_path: str) -> None:
        """Run `land.py` on a plan until it ends; whether it succeeded is in the attempt's directory, not here.

        Raises JobFailed (retry) when the job could not be started or ended with an error."""
        ...
