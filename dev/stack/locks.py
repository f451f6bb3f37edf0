"""An advisory lock on a file, freed by the kernel when its holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.stack.errors import StackError


@contextmanager
def file_lock(path: Path, *, wait: bool = True, busy: str = "") -> Iterator[None]:
    """Hold the lock; waits for its present holder, or raises StackError(busy) at once when `wait` is False."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise StackError(busy or f"{path} is locked by another process") from None
        yield
    finally:
        os.close(handle)
