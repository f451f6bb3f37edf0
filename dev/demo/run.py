"""How a demo begins and ends."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from dev.demo.airflow_rest import AirflowRefused
from dev.demo.driver_kill import KillMissed
from dev.demo.flights import DemoInputError
from dev.demo.output import Output
from dev.demo.world import DemoFailed
from dev.stack.errors import StackError
from dev.stack.processes import Identity, Launcher
from dev.stack.state import State
from tidegate.core.base.errors import TidegateError

_EXPECTED = (StackError, TidegateError, DemoFailed, DemoInputError, KillMissed, AirflowRefused)


def run(target: str, demo: Callable[[Output], int]) -> int:
    """0 only if everything that the demo claims holds; 1 if not; 130 when interrupted."""
    out = Output()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda n, _frame: sys.exit(128 + n))
    try:
        return demo(out)
    except KeyboardInterrupt:
        out.write("\ninterrupted; everything that was started has been ended")
        return 130
    except _EXPECTED as error:
        out.write(f"\nmake {target}: {error}")
        return 1


def launcher_of(root: Path) -> Launcher:
    """Starts what the stack's end ends, too."""
    return Launcher(
        run_id=State.load(root).run_id,
        logs=root / "logs",
        owner=Identity.of(os.getpid()),
        on_start=lambda _running: None,
    )
