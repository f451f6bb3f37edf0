"""Files of published windows for readers by path, from the ledger; no directory is listed.

    from tidegate.files import files_in_force

    for hour in files_in_force("flights", "2013-01-05T00:00Z", "2013-01-05T23:00Z"):
        for values, paths in hour.by_values().items():
            ...                       # values: date, hour and the dynamic partition columns, which are in no file

It needs the ledger's connection alone, neither Airflow nor the pipeline's YAML. docs/swap.md says how long the files
stay.
"""

from __future__ import annotations

from datetime import datetime

from tidegate.core.publish.in_force import TableFile, WindowFiles

__all__ = ["TableFile", "WindowFiles", "files_in_force"]


def files_in_force(
    pipeline: str, first: str | datetime, last: str | datetime | None = None, *, ledger: str | None = None
) -> list[WindowFiles]:
    """The files of each window from `first` to `last` (both included), or of the one of `first` alone.

    `pipeline` is its name, or the table as `database.table`. A window is an instant in it (UTC unless it has a zone),
    its partition (`date=2013-01-05/hour=04`) or its id. `ledger`: the address, `postgresql://...`; without one that of
    the connection which Tidegate's settings name. An hour without rows has no files.

    Raises NotReady if a window is not published, or its files are being moved; SpecError for windows before
    `windows.start`; ValueError for a text that names no window; LedgerError."""
    from tidegate.core.window.name import named
    from tidegate.wiring import command_lookup, ledger_address, open_files
    from tidegate.workflow.look import files
    from tidegate.workflow.publish.backfill import windows_between
    from tidegate.workflow.window import waits

    with open_files(ledger or ledger_address(command_lookup)) as opened:
        spec = waits.find(opened.specs, pipeline)
        begin = named(spec, _text(first))
        end = begin if last is None else named(spec, _text(last))
        if end.start_ms < begin.start_ms:
            raise ValueError(f"{last} is before {first}")
        found = files.in_force(opened, spec, windows_between(spec.windows, begin, end))
    files.refuse_unready(spec.name, found)
    return found


def _text(window: str | datetime) -> str:
    return window.isoformat() if isinstance(window, datetime) else window
