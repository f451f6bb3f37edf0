"""Change events of a mirror since a token, each exactly once: incremental reading beside the table of newest rows.

    from tidegate.changes import changes

    found = changes("mirrored_orders", after=my_token)     # None: from the beginning
    events = found.arrow()                                 # or found.spark(session), or found.files
    ...                                                    # store what you made of them and found.token, in one commit

A token names the last batch that was read. What has landed does not change, so the same token gives the same events
again: a reader that stores its token together with its result has each event in it once, whatever dies. It needs the
ledger's connection alone, neither Airflow nor the pipeline's YAML.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.core.mirror.changes import ChangeFile

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ChangeFile", "Changes", "changes"]


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Events of whole batches, as Parquet files. `token`: what the next reading is given."""

    pipeline: str
    token: str
    files: tuple[ChangeFile, ...]

    @property
    def rows(self) -> int:
        """Number of events."""
        return sum(f.rows for f in self.files)

    def arrow(self, columns: Sequence[str] | None = None, filesystem: Any = None) -> pa.Table:
        """All events in memory, in no order: `_position_commit` and `_position_row` have it. A column that a batch
        does not have yet is null there, one that has grown has its widest type; without any events the table has no
        columns.

        `filesystem`: of pyarrow, for URIs that it cannot open by itself."""
        import pyarrow as pa
        import pyarrow.dataset as ds
        from pyarrow import fs

        if not self.files:
            return pa.table({})
        if filesystem is None:
            filesystem, _ = fs.FileSystem.from_uri(self.files[0].path)
        paths = [_path(f.path) for f in self.files]
        parts = [ds.dataset(path, format="parquet", filesystem=filesystem) for path in paths]
        schema = pa.unify_schemas([part.schema for part in parts], promote_options="permissive")
        return ds.dataset(paths, schema=schema, format="parquet", filesystem=filesystem).to_table(columns=columns)

    def spark(self, session: Any) -> Any:
        """A DataFrame of all events; None without any."""
        by_version: dict[int, list[str]] = {}
        for f in self.files:
            by_version.setdefault(f.spec_version, []).append(f.path)
        # one reading takes no int for a bigint; a union does
        parts = [session.read.parquet(*paths) for paths in by_version.values()]
        return functools.reduce(lambda one, other: one.unionByName(other, True), parts) if parts else None


def changes(
    pipeline: str, after: str | int | None = None, until: str | int | None = None, *, ledger: str | None = None
) -> Changes:
    """The events of all batches that have landed after `after`, up to `until` (inclusive; None: the newest).

    `pipeline` is its name, or the table as `database.table`. `ledger`: the address, `postgresql://...`; without one
    that of the connection which Tidegate's settings name.

    Raises ValueError for a text that is no token; SpecError for a token beyond what has landed, and for a pipeline with
    windows; NotReady for an `until` that has not landed; LedgerError."""
    from tidegate.core.mirror.changes import batch_of
    from tidegate.wiring import command_lookup, ledger_address, open_changes
    from tidegate.workflow.look import changes as look
    from tidegate.workflow.window import waits

    first, last = batch_of(after), None if until is None else batch_of(until)
    with open_changes(ledger or ledger_address(command_lookup)) as opened:
        spec = waits.find(opened.specs, pipeline)
        token, files = look.changes(opened, spec, first, last)
    return Changes(pipeline=spec.name, token=str(token), files=files)


def _path(uri: str) -> str:
    """The path as pyarrow's filesystems want it."""
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(uri)
    return unquote(f"{parts.netloc}{parts.path}" if parts.scheme == "s3" else parts.path)
