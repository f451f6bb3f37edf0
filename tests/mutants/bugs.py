"""Every planted bug by its name."""

from __future__ import annotations

from tests.mutants import (
    bugs_batches,
    bugs_catchup,
    bugs_failover,
    bugs_iceberg,
    bugs_iceberg_files,
    bugs_late,
    bugs_ledger,
    bugs_redrive,
    bugs_reopen,
    bugs_replay,
    bugs_schema,
    bugs_windows,
    bugs_zones,
)
from tests.mutants.planting import Bug

BUGS: dict[str, Bug] = {
    b.name: b
    for bugs in (
        bugs_batches,
        bugs_windows,
        bugs_ledger,
        bugs_failover,
        bugs_iceberg,
        bugs_iceberg_files,
        bugs_schema,
        bugs_redrive,
        bugs_late,
        bugs_reopen,
        bugs_replay,
        bugs_zones,
        bugs_catchup,
    )
    for b in bugs.BUGS
}
