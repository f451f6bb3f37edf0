"""Parquet files, read by a child process: what runs here must not import the worker's libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from tidegate.adapters.spark import land_application, local_environment
from tidegate.core.coverage import Excess, Findings, Footer, Missing, Span, Stray
from tidegate.core.errors import StorageError
from tidegate.core.offsets import Interval
from tidegate.core.slabs import Slab

LAST_WORDS = 5


class LineReader(ABC):
    """core.coverage.FileReader, by whoever answers the requests that `spark_jobs/footers.py` describes."""

    @abstractmethod
    def _ask(self, request: Any, answers: int) -> Iterator[dict[str, Any]]:
        """Send one request, yield its answers. It is sent even if nobody looks at them."""

    def close(self) -> None:  # noqa: B027 (nothing to let go of is fine)
        """Let go of whatever answers; it comes back at the next request."""

    def footers(self, uris: Sequence[str]) -> Iterator[Footer]:
        return map(footer_of, self._ask(list(uris), len(uris))) if uris else iter(())

    def begin(self, slab: Slab) -> None:
        self._tell({"slab": [slab.first, slab.last, slab.offsets]})

    def expect(self, spans: Sequence[Span]) -> None:
        plain = [[s.batch_id, s.partition, s.start, s.end, [[g.start, g.end] for g in s.gaps]] for s in spans]
        self._tell({"spans": plain})

    def coordinates(self, files: Sequence[tuple[str, int | None]]) -> Iterator[Footer]:
        return map(footer_of, self._ask({"files": [list(f) for f in files]}, len(files))) if files else iter(())

    def end(self) -> Findings:
        return findings_of(next(self._ask({"end": True}, 1)))

    def _tell(self, request: Any) -> None:
        for _ in self._ask(request, 0):
            raise AssertionError("no answer was expected")


class FooterProcess(LineReader):
    """Its answers come from `spark_jobs/footers.py`, started at the first request, ended by `close`.

    Raises StorageError when the child cannot start, or dies."""

    def __init__(self, python: str = sys.executable) -> None:
        self._python = python
        self._child: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None

    def _ask(self, request: Any, answers: int) -> Iterator[dict[str, Any]]:
        child = self._running()
        assert child.stdin is not None
        try:
            # the child reads a request whole before it answers: neither side waits for the other's pipe
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.flush()
        except OSError:
            raise self._failed() from None
        return self._answers(child, answers)

    def _answers(self, child: subprocess.Popen[bytes], count: int) -> Iterator[dict[str, Any]]:
        assert child.stdout is not None
        for _ in range(count):
            line = child.stdout.readline()
            if not line.endswith(b"\n"):
                raise self._failed()
            yield json.loads(line)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            script = str(land_application().with_name("footers.py"))
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by close)
            self._child = subprocess.Popen(
                [self._python, script],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=os.environ | local_environment(),
            )
        return self._child

    def close(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        assert child.stdin is not None
        assert child.stdout is not None
        child.kill()  # it changes nothing: there is nothing to finish
        child.wait()
        child.stdout.close()
        try:
            child.stdin.close()
        except OSError:  # what was not written any more
            pass
        assert self._errors is not None
        self._errors.close()

    def _failed(self) -> StorageError:
        assert self._child is not None
        assert self._errors is not None
        assert self._child.stdin is not None
        try:
            self._child.stdin.close()
        except OSError:
            pass
        code = self._child.wait()
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace")
        words = " | ".join([line.strip() for line in text.splitlines() if line.strip()][-LAST_WORDS:])
        self.close()
        error = StorageError(
            f"reading files ended with exit code {code}: {words or 'without a word'}",
            advice="install tidegate[worker] (pyarrow, numpy) beside this command, or leave the files out: --no-files",
        )
        error.retry = False
        return error


def footer_of(line: Mapping[str, Any]) -> Footer:
    """One file's line."""
    if "error" in line:
        return Footer(line["path"], error=str(line["error"]))
    coordinates = line.get("coordinates")
    return Footer(
        path=line["path"],
        rows=int(line["rows"]),
        partitions={int(p["partition"]): (p["rows"], p["min_offset"], p["max_offset"]) for p in line["partitions"]},
        checksum=int(line["checksum"]),
        kind=str(line["kind"]),
        coordinates=None if coordinates is None else {int(p): (n, low, up) for p, (n, low, up) in coordinates.items()},
    )


def findings_of(line: Mapping[str, Any]) -> Findings:
    """The line that ends a slab."""
    return Findings(
        line["rows"],
        tuple(Missing(b, p, n, _intervals(first)) for b, p, n, first in line["missing"]),
        tuple(Excess(p, n, _intervals(first), tuple(files)) for p, n, first, files in line["excess"]),
        tuple(Stray(*stray) for stray in line["strays"]),
    )


def _intervals(pairs: Sequence[Sequence[int]]) -> tuple[Interval, ...]:
    return tuple(Interval(a, b) for a, b in pairs)
