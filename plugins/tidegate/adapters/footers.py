"""Files of any format, read by a child process, because this one must not import the worker's libraries."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidegate.adapters.child import Child
from tidegate.core.audit.coverage import Excess, Findings, Footer, Missing, RowsSought, Span, Stray
from tidegate.core.base.offsets import Interval
from tidegate.core.base.slabs import Slab


class FooterProcess:
    """File reader (`core.audit.coverage.FileReader`) by `spark_jobs/handlers/footers.py`. Raises StorageError when that
    cannot start, or dies."""

    def __init__(
        self, python: str = sys.executable, user: str | None = None, secrets: Mapping[str, str] | None = None
    ) -> None:
        advice = "install tidegate[worker] (pyarrow, numpy) beside this command, or leave the files out: --no-files"
        self._child = Child("footers", advice, python, user=user, secrets=secrets)

    def close(self) -> None:
        """End the process; the next request starts it again."""
        self._child.close()

    def footers(self, uris: Sequence[str]) -> Iterator[Footer]:
        return map(footer_of, self._ask(list(uris), len(uris))) if uris else iter(())

    def begin(self, slab: Slab) -> None:
        self._tell({"slab": [slab.first, slab.last, slab.offsets]})

    def expect(self, spans: Sequence[Span]) -> None:
        plain = [[s.batch_id, s.partition, s.start, s.end, [[g.start, g.end] for g in s.gaps]] for s in spans]
        self._tell({"spans": plain})

    def coordinates(self, files: Sequence[RowsSought], *, apart: bool = False) -> Iterator[Footer]:
        request = {"files": [_asked(f) for f in files], "apart": apart}
        return map(footer_of, self._ask(request, len(files))) if files else iter(())

    def end(self) -> Findings:
        return findings_of(next(self._ask({"end": True}, 1)))

    def _tell(self, request: Any) -> None:
        for _ in self._ask(request, 0):
            raise AssertionError("no answer was expected")

    def _ask(self, request: Any, answers: int) -> Iterator[dict[str, Any]]:
        """Send one request, even if its answers are not read, and yield its answers."""
        return self._child.ask(request, answers)


def _asked(f: RowsSought) -> list[Any]:
    entry = f.entry
    told = None if entry is None else {"kind": entry.kind, "values": entry.values, "dynamic": f.dynamic}
    return [f.uri, f.batch_id, f.columns, told]


def footer_of(line: Mapping[str, Any]) -> Footer:
    if "error" in line:
        return Footer(path=line["path"], error=str(line["error"]))
    coordinates, parts = line.get("coordinates"), line["partitions"]
    return Footer(
        path=line["path"],
        rows=int(line["rows"]),
        partitions=None
        if parts is None
        else {p["partition"]: (p["rows"], p["min_offset"], p["max_offset"]) for p in parts},
        checksum=None if line["checksum"] is None else int(line["checksum"]),
        kind=line["kind"],
        batches=tuple(line["batches"]) if line.get("batches") else None,
        coordinates=None if coordinates is None else {int(p): (n, low, up) for p, (n, low, up) in coordinates.items()},
        content=line.get("content"),
        opaque="content" in line and line["content"] is None,
    )


def findings_of(line: Mapping[str, Any]) -> Findings:
    """The findings in the line that ends a slab."""
    return Findings(
        line["rows"],
        tuple(Missing(b, p, n, _intervals(first)) for b, p, n, first in line["missing"]),
        tuple(Excess(p, n, _intervals(first), tuple(files)) for p, n, first, files in line["excess"]),
        tuple(Stray(*stray) for stray in line["strays"]),
    )


def _intervals(pairs: Sequence[Sequence[int]]) -> tuple[Interval, ...]:
    return tuple(Interval(a, b) for a, b in pairs)
