"""Files whose keys an object store of the other cluster does not take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.deliver.cluster_lab import ClusterLab
from tests.deliver.iceberg_lab import IcebergLab
from tests.world import record
from tidegate.core.files.overflow import MAX_KEY_BYTES

DEEP = "s3://there/" + "x/" * 380 + "readings"


@pytest.mark.parametrize("kind", [ClusterLab, IcebergLab])
def test_a_key_that_is_too_long_is_refused_before_anything_is_copied(tmp_path: Path, kind: Any) -> None:
    """Where files have names on a disk here, a partition's name may be one too many there."""
    lab = kind(tmp_path, objects=True, location=DEEP)
    lab.world.produce(record("short", 0.1, site="a"), record("long", 1.1, site="å" * 90), record("open", 4.5))
    lab.world.produce(record("other", 4.5), partition=1)
    lab.world.ingest("first")
    for hour in range(2):
        lab.world.archive(hour)
    assert lab.deliver() == ["delivered", "refused"]
    assert [state.split()[0] for state in lab.states()] == ["STANDING", "REFUSED"]
    assert not [key for key in lab.storage.files() if "20130105T010000Z" in key]
    with lab.context() as ctx:
        (_, row) = ctx.ledger.deliveries.within("readings", "shop", 0, 2**60)
    assert f"than the {MAX_KEY_BYTES:,} bytes" in row.why
    assert lab.deliver() == [], "a person decides"
