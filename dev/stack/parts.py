"""What every part of the stack has: a name, its ports, a start that returns when it is ready."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from dev.stack.jars import ensure_jars
from dev.stack.places import Places
from dev.stack.processes import Launcher
from dev.stack.secrets import Secrets


@dataclass(frozen=True, kw_only=True)
class Site:
    """One stack's folder, ports and passwords, and how to start a process there."""

    root: Path
    places: Places
    ports: Mapping[str, int]
    secrets: Secrets
    launcher: Launcher
    progress: Callable[[str], None]
    durable: bool  # survive a crash of the machine, at the price of waiting for the disk
    env: dict[str, str]  # how everybody sees the stack; see environment.py

    def folder(self, name: str) -> Path:
        """A data folder below the root, made when missing."""
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


class Part(ABC):
    """One piece of the stack. Stopping is the stack's business: it ends the keepers that `start` made."""

    name: ClassVar[str]  # also the first word of its processes' names: `airflow`, `airflow-scheduler`
    port_names: ClassVar[tuple[str, ...]]
    after: ClassVar[tuple[str, ...]] = ()  # parts that must be ready before this one starts
    jar_set: ClassVar[str] = ""  # that it runs on; see jars.py

    def __init__(self, site: Site) -> None:
        self.site = site

    def prepare(self) -> None:
        """Fetch or make what every stack shares (downloads may take minutes). Raises StackError."""
        if self.jar_set:
            self.jars()

    def jars(self) -> Path:
        """The folder of its jars."""
        return ensure_jars(self.jar_set, self.site.places, self.site.progress)

    @abstractmethod
    def start(self) -> None:
        """Start and return when ready. Raises StackError."""

    @property
    def port(self) -> int:
        """The part's own (first) port."""
        return self.site.ports[self.port_names[0]]
