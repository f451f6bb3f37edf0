"""The C library that decodes messages and hashes rows: built with the package (pyproject.toml), called by ctypes.

It is optional: `library()` is None where it was not built or does not fit; `why_not()` says so in words.
Everything works without it, but a job takes about seven times the CPU.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

VERSION = 5
"""What Python and the library have agreed on (TG_VERSION in json_native.h)."""
PADDING = 64
"""Bytes behind the last message that the library may read (TG_PADDING)."""
NAME, ROW_HASHES, WIRE = "_native", "tg_row_hashes", "tg_protobuf_read"
FOLDER = Path(__file__).parent


_missed = False


def library() -> ctypes.CDLL | None:
    """The library, with its functions declared."""
    global _missed
    found = _load()
    if isinstance(found, ctypes.CDLL):
        return found
    _missed = True
    return None


def row_hashes() -> Callable[..., int] | None:
    """`tg_row_hashes`, if there is a library that has it."""
    found = _load()
    return getattr(found, ROW_HASHES, None) if isinstance(found, ctypes.CDLL) else None


def notes() -> tuple[str, ...]:
    """What somebody should be told about this process: that it had to do without the library."""
    if not _missed:
        return ()
    return (
        "messages were decoded in Python, which makes a job take about seven times the CPU that it needs: the C "
        f"library is missing: {why_not()}; what to do: install a C compiler (gcc, clang, or pip install ziglang and "
        "CC='python -m ziglang cc') and install tidegate again wherever Spark's workers run",
    )


def why_not() -> str:
    """Why there is no library; empty if there is."""
    found = _load()
    return found if isinstance(found, str) else ""


@functools.cache
def _load() -> ctypes.CDLL | str:
    for suffix in EXTENSION_SUFFIXES:
        path = FOLDER / (NAME + suffix)
        if path.exists():
            return open_library(path)
    return f"it was not built (there is no {NAME}{EXTENSION_SUFFIXES[0]} in {FOLDER})"


def open_library(path: Path) -> ctypes.CDLL | str:
    """The library in a file, or why it is of no use."""
    try:
        found = ctypes.CDLL(str(path))
        version = found.tg_version()
    except (OSError, AttributeError) as e:
        return f"{path} cannot be loaded: {e}"
    if version != VERSION:
        return f"{path} was built from other sources (version {version}, needed is {VERSION})"
    pointer, number, size = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
    found.tg_new.restype = pointer
    found.tg_new.argtypes = [pointer, number, ctypes.c_char_p, size]
    found.tg_free.restype = None
    found.tg_free.argtypes = [pointer]
    found.tg_read.restype = size
    found.tg_read.argtypes = [pointer, ctypes.c_char_p, size, pointer, size, size, pointer]
    found.tg_take.restype = size
    found.tg_take.argtypes = [pointer, pointer]
    if hasattr(found, WIRE):
        found.tg_avro_new.restype = pointer
        found.tg_avro_new.argtypes = [pointer, number]
        found.tg_avro_free.restype = None
        found.tg_avro_free.argtypes = [pointer]
        found.tg_avro_add.restype = size
        found.tg_avro_add.argtypes = [pointer, size, pointer, number, pointer, number, ctypes.c_char_p, size]
        found.tg_avro_stranger.restype = size
        found.tg_avro_stranger.argtypes = [pointer, ctypes.c_char_p, size, pointer, size, size]
        found.tg_protobuf_new.restype = pointer
        found.tg_protobuf_new.argtypes = [pointer, pointer]
        found.tg_protobuf_free.restype = None
        found.tg_protobuf_free.argtypes = [pointer]
        found.tg_protobuf_read.restype = size
        found.tg_protobuf_read.argtypes = [pointer, ctypes.c_char_p, size, pointer, size, size, pointer]
        found.tg_avro_read.restype = size
        found.tg_avro_read.argtypes = [pointer, ctypes.c_char_p, size, pointer, size, size, pointer]
    if hasattr(found, ROW_HASHES):
        found.tg_row_hashes.restype = size
        found.tg_row_hashes.argtypes = [pointer, size, pointer, pointer]
    return found
