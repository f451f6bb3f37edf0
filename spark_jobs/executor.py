"""An executor that the workers' archive was not made for says so, before it imports what it could not load.

The archive holds libraries of one processor and one C library (`make dist`). Elsewhere the first of them to be imported
would end the task with a message of the loader's. Standard library only.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

FILE = "tidegate_platform"
"""In the archive, beside the packages: `cp311 x86_64-glibc`."""
WRONG_PLATFORM = "the workers' archive was made for"


def check_archive(folder: Path | None = None) -> None:
    """Raise ImportError if what is imported here comes from an archive of another platform."""
    try:
        made_for = ((folder or Path(__file__).parents[1]) / FILE).read_text().strip()
    except OSError:
        return  # installed, or an archive that does not say
    if made_for != here():
        wanted = here().rpartition(" ")[2]
        raise ImportError(
            f"{WRONG_PLATFORM} {made_for}, this executor is {here()}; what to do: make dist ARGS='--workers {wanted}', "
            "and name that archive in [tidegate] spark_worker_archive; or run executors on the archive's platform, "
            "with its Python"
        )


def here() -> str:
    """This Python, processor and C library, as `make dist` writes them."""
    libc = "musl" if "musl" in EXTENSION_SUFFIXES[0] else "glibc"
    return f"cp{sys.version_info[0]}{sys.version_info[1]} {os.uname().machine}-{libc}"
