"""Runs other programs for the demo: under a keeper, so that none outlives it, with their output in a log file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from dev.stack.errors import PartDied
from dev.stack.processes import Launcher, Program

_LOOK_S = 0.25


@dataclass(frozen=True)
class Finished:
    """Output of a command, standard error included; `ok` is exit code 0, `failure` says what went wrong if not."""

    ok: bool
    text: str
    log: Path
    failure: str = ""


@dataclass(frozen=True)
class Commands:
    """`env` is added to the present environment of every command."""

    launcher: Launcher
    env: Mapping[str, str]
    cwd: Path

    def run(
        self, name: str, argv: Sequence[str], timeout_s: float, meanwhile: Callable[[], None] = lambda: None
    ) -> Finished:
        """Run to the end; `meanwhile` is called several times a second. `name` names the log file."""
        log = self.launcher.logs / f"{name}.log"
        start = log.stat().st_size if log.exists() else 0
        program = Program(list(argv), self.env, self.cwd)
        pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        try:
            running = pool.submit(self.launcher.run, name, program, timeout_s)
            while not running.done():
                meanwhile()
                time.sleep(_LOOK_S)
        finally:
            pool.shutdown(wait=False)  # when interrupted: the stack's end ends the command
        error = running.exception()
        if error is not None and not isinstance(error, PartDied):
            raise error
        text = log.read_bytes()[start:].decode(errors="replace") if log.exists() else ""
        return Finished(error is None, text.strip(), log, str(error or ""))
