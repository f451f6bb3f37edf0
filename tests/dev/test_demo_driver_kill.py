"""The demo kills a Spark driver between a closed file and the receipt, or says that it missed the moment."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dev.demo.driver_kill import MERGE, KillMissed, kill_next_driver

# A driver whose workers go on without it, and who writes the receipt as soon as they have written all files: many, for
# on a busy machine it takes long to find it; a few more once it is dead.
DRIVER = """
import os, pathlib, subprocess, sys, time
attempt = pathlib.Path(sys.argv[1]).parents[1] / "tmp" / pathlib.Path(sys.argv[1]).stem
(attempt / "data").mkdir(parents=True)
worker = '''
import os, pathlib, sys, time
parent, left = os.getppid(), MANY
for n in range(MANY):
    left = min(left, 20) if os.getppid() != parent else left
    left -= 1
    if left < 0:
        break
    with open(f"{sys.argv[1]}/data/{n}.parquet", "wb") as f:
        f.write(b"PAR1" + bytes(100)); f.flush(); time.sleep(0.005); f.write(b"PAR1")
'''
time.sleep(float(sys.argv[2]))
subprocess.run([sys.executable, "-c", worker, attempt], check=True)
(attempt / "_receipt.json").write_text("{}")
"""
QUICK = DRIVER.replace("MANY", "40")
DRIVER = DRIVER.replace("MANY", "10_000")
UNCLOSED = QUICK.replace('f.write(b"PAR1")', "pass")


def start(tmp_path: Path, source: str, delay_s: float = 0.0) -> tuple[subprocess.Popen[bytes], Path]:
    job, plan = tmp_path / "land.py", tmp_path / "_tidegate" / "plans" / "7.1-abcd.json"
    job.write_text(source)
    plan.parent.mkdir(parents=True)
    plan.write_text("{}")
    return subprocess.Popen([sys.executable, str(job), str(plan), str(delay_s)]), plan


@pytest.mark.parametrize("delay_s", [0.0, 0.3])
def test_it_dies_after_a_closed_file_and_before_the_receipt(tmp_path: Path, delay_s: float):
    driver, plan = start(tmp_path, DRIVER, delay_s)
    try:
        killed = kill_next_driver(tmp_path / "_tidegate", timeout_s=120)
        assert driver.wait(60) == -9
        assert killed.attempt == plan.parents[1] / "tmp" / "7.1-abcd"
        assert not (killed.attempt / "_receipt.json").exists()
        assert killed.closed
        assert set(killed.closed) <= set(killed.files)
    finally:
        driver.kill()


def test_a_driver_that_closes_no_file_goes_on_and_the_miss_is_told(tmp_path: Path):
    driver, _ = start(tmp_path, UNCLOSED)
    try:
        with pytest.raises(KillMissed, match="no file was closed"):
            kill_next_driver(tmp_path / "_tidegate", timeout_s=120)
        assert driver.wait(60) == 0
    finally:
        driver.kill()


def test_another_pipelines_driver_is_left_alone(tmp_path: Path):
    driver, _ = start(tmp_path, QUICK)
    try:
        with ThreadPoolExecutor(1) as pool, pytest.raises(KillMissed, match="no Spark driver"):
            pool.submit(kill_next_driver, tmp_path / "elsewhere", 0.5).result()
        assert driver.wait(60) == 0
    finally:
        driver.kill()


# A merge of a mirror has no workers: while it is stopped, nothing comes.
MERGE_JOB = """
import pathlib, sys, time
attempt = pathlib.Path(sys.argv[1]).with_suffix("")
attempt.mkdir()
(attempt / "handed.arrow").write_bytes(b"ARROW1")
for n in range(10_000):
    with open(attempt / f"{n}.parquet", "wb") as f:
        f.write(b"PAR1" + bytes(100)); f.flush(); time.sleep(0.05); f.write(b"PAR1")
"""


def test_a_merge_of_a_mirror_dies_between_two_of_its_files(tmp_path: Path):
    script, plan = tmp_path / "rewrite.py", tmp_path / "_tidegate" / "apply" / "1-2.1-abcd.json"
    script.write_text(MERGE_JOB)
    plan.parent.mkdir(parents=True)
    plan.write_text("{}")
    merge = subprocess.Popen([sys.executable, str(script), str(plan)])
    try:
        killed = kill_next_driver(tmp_path / "_tidegate", 120, MERGE)
        assert merge.wait(60) == -9
        assert killed.attempt == plan.with_suffix("")
        assert killed.closed
        assert "handed.arrow" not in killed.closed
    finally:
        merge.kill()
