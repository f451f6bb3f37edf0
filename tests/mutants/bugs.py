"""Every planted bug by its name."""

from __future__ import annotations

from tests.mutants import bugs_batches, bugs_ledger, bugs_redrive, bugs_schema, bugs_windows
from tests.mutants.planting import Bug

BUGS: dict[str, Bug] = {
    b.name: b
    for b in (*bugs_batches.BUGS, *bugs_windows.BUGS, *bugs_ledger.BUGS, *bugs_schema.BUGS, *bugs_redrive.BUGS)
}
