"""Parquet footers, read by a child process: what runs here must not import the worker's libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidegate.adapters.spark import land_application, local_environment
from tidegate.core.coverage import Footer
from tidegate.core.errors import StorageError
from tidegate.core.offsets import Interval

LAST_WORDS = 5


class FooterProcess:
    """`spark_jobs/footers.py`: a JSON list of URIs on its standard input, a JSON line for each file on its output."""

    def __init__(self, python: str = sys.executable) -> None:
        self._python = python

    def __call__(self, uris: Sequence[str], coordinates: bool) -> Iterator[Footer]:
        """A footer for each URI, as the child gets to it. Raises StorageError when it ends with an error."""
        script = str(land_application().with_name("footers.py"))
        command = [self._python, script, *(["--coordinates"] if coordinates else [])]
        with tempfile.TemporaryFile() as wanted, tempfile.TemporaryFile() as errors:
            wanted.write(json.dumps(list(uris)).encode())
            wanted.seek(0)
            child = subprocess.Popen(
                command, stdin=wanted, stdout=subprocess.PIPE, stderr=errors, env=os.environ | local_environment()
            )
            assert child.stdout is not None
            try:
                answered = 0
                for line in child.stdout:
                    answered += 1
                    yield footer_of(json.loads(line))
                code = child.wait()
            finally:
                child.stdout.close()
                if child.poll() is None:
                    child.kill()
                    child.wait()
            if answered < len(uris):  # a file that cannot be read is an answer too
                errors.seek(0)
                raise _failed(code, errors.read().decode(errors="replace"))


def _failed(code: int, text: str) -> StorageError:
    words = " | ".join([line.strip() for line in text.splitlines() if line.strip()][-LAST_WORDS:])
    error = StorageError(
        f"reading footers ended with exit code {code}: {words or 'without a word'}",
        advice="install tidegate[worker] (pyarrow) beside this command, or leave the files out: --no-files",
    )
    error.retry = False
    return error


def footer_of(line: Mapping[str, Any]) -> Footer:
    """One line of the child's output."""
    if "error" in line:
        return Footer(line["path"], error=str(line["error"]))
    partitions = {int(p["partition"]): (p["rows"], p["min_offset"], p["max_offset"]) for p in line["partitions"]}
    intervals = None
    if "intervals" in line:
        intervals = {int(p): tuple(Interval(a, b) for a, b in many) for p, many in line["intervals"].items()}
    return Footer(
        path=line["path"],
        rows=int(line["rows"]),
        partitions=partitions,
        checksum=int(line["checksum"]),
        kind=str(line["kind"]),
        intervals=intervals,
        repeated=int(line.get("duplicate_rows", 0)),
        duplicates=tuple((int(p), int(o)) for p, o in line.get("duplicates", ())),
    )
