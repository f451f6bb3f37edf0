"""The checker of `make demo-failover` finds what it says that it would find."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dev.demo.failover import check, check_copy
from tests.deliver.cluster_lab import more_columns
from tests.deliver.iceberg_lab import IcebergLab

IDS = [f"oslo-{n:07}" for n in range(20)]


def checked(folder: Path, landed: list[str], acknowledged: list[str]) -> int:
    for number, some in enumerate((landed[:7], landed[7:])):
        home = folder / "landed" / str(number)
        home.mkdir(parents=True)
        pq.write_table(pa.table({"id": pa.array(some, pa.string())}), home / "a.parquet")
    (folder / "log").write_text("".join(f"{one}\n" for one in acknowledged))
    return check.main(str(folder / "landed"), str(folder / "log"))


def test_each_record_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(tmp_path, IDS, IDS) == 0
    assert "20 records were acknowledged; 20 rows have landed\n0 missing\n0 there twice" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("landed", "said"),
    [(IDS[1:], "1 missing, oslo-0000000"), ([*IDS, IDS[3]], "1 there twice, oslo-0000003"), ([*IDS, "x"], "1 never")],
)
def test_damage(landed: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(tmp_path, landed, IDS) == 1
    assert said in capsys.readouterr().out


# ---------------------------------------------------------------- the checker of the copy


def test_the_checker_of_the_copy_sees_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = IcebergLab(tmp_path)
    lab.hours(2)
    lab.deliver()
    copy, own = (path.removeprefix("file://") for path in (lab.there, lab.pipeline.sink.location))
    assert check_copy.main(copy, own) == check_copy.main(copy) == 0
    assert "4 rows are in the copy\n0 rows are in one of both alone" in capsys.readouterr().out
    more_columns(lab)
    lab.world.replay(0)
    assert check_copy.main(copy, own) == 1
    assert "4 rows are in one of both alone" in capsys.readouterr().out


def test_the_checker_of_the_copy_sees_rows_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Counter({("a",): 2, ("b",): 1})
    monkeypatch.setattr(check_copy, "rows", lambda folder: found)
    assert check_copy.main("copy", "own") == 1
    found.clear()
    assert check_copy.main("copy", "own") == 1, "a copy without rows proves nothing"
