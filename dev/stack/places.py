"""Folders of a checkout: everything that the stack writes is below `.tidegate/`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Places:
    """A checkout and the folders in it; nothing is created by asking."""

    checkout: Path

    @classmethod
    def of_checkout(cls) -> Places:
        """The checkout this package was imported from, or TIDEGATE_CHECKOUT when it is installed elsewhere."""
        named = os.environ.get("TIDEGATE_CHECKOUT")
        return cls(Path(named).resolve() if named else Path(__file__).resolve().parents[2])

    @property
    def own(self) -> Path:
        """`.tidegate`, git-ignored."""
        return self.checkout / ".tidegate"

    @property
    def jars(self) -> Path:
        """Verified jars, one folder per set."""
        return self.own / "jars"

    @property
    def tmp(self) -> Path:
        """Scratch space on the same filesystem, so that a rename out of it is atomic."""
        return self.own / "tmp"

    @property
    def logs(self) -> Path:
        """Logs of set-up steps; each stack has logs of its own."""
        return self.own / "logs"

    @property
    def templates(self) -> Path:
        """Prepared things that every stack copies (a migrated database, Spark's class archive)."""
        return self.own / "templates"

    @property
    def stack(self) -> Path:
        """The root of the user's stack, which the demo shares."""
        return self.own / "stack"

    @property
    def dags(self) -> Path:
        """The DAG factory and `pipelines/`."""
        return self.checkout / "dags"

    @property
    def plugins(self) -> Path:
        """Airflow's plugins folder."""
        return self.checkout / "plugins"
