"""Contents of a stack's folder: the processes of the present run, ports, what was asked for."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dev.stack.errors import StackError
from dev.stack.processes import Identity, Running
from dev.stack.secrets import write_private

FILE = "stack.json"


@dataclass(kw_only=True)
class State:
    """Kept 0600 in `<root>/stack.json`; every change is written at once, so that nothing started is forgotten."""

    root: Path
    run_id: str = ""
    owner: str = ""  # identity of the process whose stack it is; empty for a daemon stack
    hive: str = "spark"
    parts: list[str] = field(default_factory=list)
    ports: dict[str, int] = field(default_factory=dict)
    processes: dict[str, str] = field(default_factory=dict)  # name -> keeper's identity
    info: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    @classmethod
    def load(cls, root: Path) -> State:
        """The state of the stack at `root`; an empty one if there never was a stack."""
        path = root / FILE
        try:
            found = json.loads(path.read_text())
            return cls(root=root, **found)
        except FileNotFoundError:
            return cls(root=root)
        except (ValueError, TypeError) as error:
            raise StackError(f"{path} is not a stack's state ({error}); remove it after ending the stack") from error

    def save(self) -> None:
        """Write it out."""
        with self._lock:
            self.root.mkdir(parents=True, exist_ok=True)
            content = asdict(self)
            del content["root"]
            write_private(self.root / FILE, json.dumps(content, indent=1))

    def add(self, running: Running) -> None:
        """Remember a process; called from the threads that start parts."""
        with self._lock:
            self.processes[running.name] = str(running.keeper)
        self.save()

    def identities(self) -> dict[str, Identity]:
        """Every remembered process, living or not."""
        return {name: Identity.parse(text) for name, text in self.processes.items()}

    def alive(self) -> dict[str, Identity]:
        """Those that live."""
        return {name: one for name, one in self.identities().items() if one.alive}

    @property
    def living_owner(self) -> Identity | None:
        """The process that the stack belongs to, while it lives."""
        owner = Identity.parse(self.owner) if self.owner else None
        return owner if owner is not None and owner.alive else None
