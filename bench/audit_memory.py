"""How much memory and time `tidegate audit --deep` needs: the real command on made files, its whole process tree.

    python -m bench.audit_memory FOLDER [--batches 100] [--offsets 1000000] [--windows 31] [--keep]

The default is 100 million offsets in 3,100 files, the rows of each batch scattered over 31 of them.

Seen on 2 busy cores (load 25), limit 512 MiB: `audit` 146 MiB (command 78 + child 68), 109 s; `audit --deep` 220 MiB
(78 + 142), 312 s, 100,000,000 coordinates read, balanced.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil

from bench.big_pipeline import Big, Shape

LIMIT_MIB = 512


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder that does not exist; it is deleted at the end")
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--offsets", type=int, default=1_000_000, help="of each batch")
    parser.add_argument("--windows", type=int, default=31, help="files of each batch")
    parser.add_argument("--keep", action="store_true", help="leave the folder where it is")
    options = parser.parse_args()
    started = time.monotonic()
    big = Big(options.folder, Shape(options.batches, options.offsets, options.windows))
    big.make()
    size = sum(f.stat().st_size for f in options.folder.rglob("*.parquet"))
    total = options.batches * options.offsets
    print(f"made {total:,} offsets in {size:,} bytes in {time.monotonic() - started:.0f} s", flush=True)
    ok = all([measure(big), measure(big, "--deep")])
    if not options.keep:
        shutil.rmtree(options.folder)
    return 0 if ok else 1


def measure(big: Big, *options: str) -> bool:
    """Run the command, print its peak memory; whether it says balanced within the limit."""
    words = [sys.executable, "-m", "tidegate.cli", "audit", "big", "--json", "-q", "--no-catalogue", "--no-kafka"]
    started = time.monotonic()
    command = subprocess.Popen([*words, *options], env=big.environment(), cwd=big.folder, stdout=subprocess.PIPE)
    assert command.stdout is not None
    peak, parts = watch(command)
    report = json.loads(command.stdout.read())
    seconds = time.monotonic() - started
    shares = " + ".join(f"{name} {rss:.0f}" for name, rss in parts.items())
    print(
        f"audit {' '.join(options)}: peak {peak:.0f} MiB ({shares}), {seconds:.0f} s, "
        f"coordinates {report['files']['coordinates']}, balanced {report['balanced']}"
    )
    for problem in report["problems"][:5]:
        print(f"  {problem}")
    return bool(report["balanced"]) and peak <= LIMIT_MIB


def watch(command: subprocess.Popen[bytes]) -> tuple[float, dict[str, float]]:
    """(largest sum of the tree's resident memory at once, MiB; each process's own share of it)."""
    peak, parts = 0.0, {}
    parent = psutil.Process(command.pid)
    while command.poll() is None:
        now = {}
        try:
            for process in (parent, *parent.children(recursive=True)):
                name = Path(process.cmdline()[1]).name if process.pid != parent.pid else "tidegate"
                now[name] = process.memory_info().rss / 2**20
        except (psutil.Error, IndexError):
            continue
        if sum(now.values()) > peak:
            peak, parts = sum(now.values()), now
        time.sleep(0.02)
    return peak, parts


if __name__ == "__main__":
    sys.exit(main())
