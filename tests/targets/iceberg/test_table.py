"""Windows and side tables in Iceberg: the contract of targets, and rules C1 to C9."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.target_suite import KEY, Lab, TargetSuite
from tests.targets.iceberg.lab import make, metadata_of, sqlite
from tidegate.targets.iceberg import snapshot
from tidegate.targets.iceberg.live import look


class TestIceberg(TargetSuite):
    @pytest.fixture
    def lab(self, tmp_path: Path) -> Lab:
        return make(tmp_path, sqlite(tmp_path))

    def lose(self, lab: Lab) -> None:
        """As another engine's DELETE does."""
        table = lab.world.context().target
        loaded = table.catalogue.load(table.name)  # type: ignore[attr-defined]
        seen = look(loaded.metadata, loaded.io, {KEY.start_ms * 1000})
        table.catalogue.commit(loaded, (), snapshot.replaced(loaded.metadata, loaded.io, seen, [], {}, None))  # type: ignore[attr-defined]
        assert metadata_of(lab.world, table.catalogue) is not None  # type: ignore[attr-defined]
