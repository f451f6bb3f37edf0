"""The C library that decodes messages and hashes rows: built with the package (pyproject.toml), called by ctypes.

It is optional: `library()` is None where it was not built or does not fit; `why_not()` says so in words.
Everything works without it, but a job takes about seven times the CPU.

It needs nothing of Python's, so a wheel has it as `_native.so`, for every Python; a build in place names it for one.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

VERSION = 6
"""What Python and the library have agreed on (TG_VERSION in json_native.h)."""
PADDING = 64
"""Bytes behind the last message that the library may read (TG_PADDING)."""
ADVICE = (
    "wherever Spark's workers run, install the wheel that `make dist` builds for their platform; executors on other "
    "machines get it from [tidegate] spark_worker_archive"
)
"""For machines without the library."""
NAME, ROW_HASHES, WIRE, CSV = "_native", "tg_row_hashes", "tg_protobuf_read", "tg_csv_read"
FOLDER = Path(__file__).parent
_POINTER, _NUMBER, _SIZE, _BYTES = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_char_p
_READ = [_POINTER, _BYTES, _SIZE, _POINTER, _SIZE, _SIZE, _POINTER]
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "tg_new": (_POINTER, [_POINTER, _NUMBER, _BYTES, _SIZE]),
    "tg_free": (None, [_POINTER]),
    "tg_read": (_SIZE, _READ),
    "tg_take": (_SIZE, [_POINTER, _POINTER]),
    "tg_avro_new": (_POINTER, [_POINTER, _NUMBER]),
    "tg_avro_free": (None, [_POINTER]),
    "tg_avro_add": (_SIZE, [_POINTER, _SIZE, _POINTER, _NUMBER, _POINTER, _NUMBER, _BYTES, _SIZE]),
    "tg_avro_stranger": (_SIZE, [_POINTER, _BYTES, _SIZE, _POINTER, _SIZE, _SIZE]),
    "tg_avro_read": (_SIZE, _READ),
    "tg_protobuf_new": (_POINTER, [_POINTER, _POINTER]),
    "tg_protobuf_free": (None, [_POINTER]),
    WIRE: (_SIZE, _READ),
    "tg_csv_new": (_POINTER, [_POINTER, _POINTER, _POINTER, _NUMBER, _POINTER, _NUMBER, _BYTES, _SIZE]),
    "tg_csv_free": (None, [_POINTER]),
    CSV: (_SIZE, _READ),
    ROW_HASHES: (_SIZE, [_POINTER, _SIZE, _POINTER, _POINTER]),
}
"""What each returns and takes. Which of them an older library lacks is asked where they are used."""


_asked = False


def library() -> ctypes.CDLL | None:
    """The library, with its functions declared."""
    global _asked
    _asked = True
    found = _load()
    return found if isinstance(found, ctypes.CDLL) else None


def row_hashes() -> Callable[..., int] | None:
    """`tg_row_hashes`, if there is a library that has it."""
    found = _load()
    return getattr(found, ROW_HASHES, None) if isinstance(found, ctypes.CDLL) else None


def notes() -> tuple[str, ...]:
    """Lines of this process for the job's log: what decoded its messages; nothing if none had to be decoded."""
    if not _asked:
        return ()
    why = why_not()
    if not why:
        return (f"messages were decoded by {named()}",)
    return (
        "messages were decoded by the row rules in Python, which makes a job take about seven times the CPU that it "
        f"needs, because {why}; what to do: {ADVICE}",
    )


def named() -> str:
    """The library's version and platform, in words."""
    return f"the C library (version {VERSION}, {here()})"


def here() -> str:
    """Processor and C library of this machine, such as `x86_64, glibc 2.36`."""
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or "musl"
    except (ValueError, OSError):
        libc = "musl"
    return f"{os.uname().machine}, {libc}"


def why_not() -> str:
    """Reason why there is no library; empty if there is one."""
    found = _load()
    return found if isinstance(found, str) else ""


@functools.cache
def _load() -> ctypes.CDLL | str:
    for suffix in EXTENSION_SUFFIXES:
        path = FOLDER / (NAME + suffix)
        if path.exists():
            return open_library(path)
    if not FOLDER.is_dir():
        archive = next((p for p in FOLDER.parents if p.is_file()), FOLDER)
        return f"the C library cannot be loaded from inside of {archive}"
    return f"the C library is missing: there is no {NAME}.so in {FOLDER}"


def open_library(path: Path) -> ctypes.CDLL | str:
    """The library in a file, or why it is of no use."""
    try:
        found = ctypes.CDLL(str(path))
        version = found.tg_version()
    except (OSError, AttributeError) as e:
        return f"the C library {path} cannot be loaded on this machine ({here()}): {e}"
    if version != VERSION:
        return f"the C library {path} was built from other sources (version {version}, needed is {VERSION})"
    for name, (result, arguments) in _FUNCTIONS.items():
        if hasattr(found, name):
            function = getattr(found, name)
            function.restype, function.argtypes = result, arguments
    return found
