"""The checker of `make demo-failover` finds what it says that it would find."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dev.demo.failover import check

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
