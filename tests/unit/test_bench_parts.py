"""What the benchmarks measure with."""

from __future__ import annotations

import subprocess
import sys

from bench.parts import TreeCpu

# Twenty children of 10 ms that are waited for, one of 300 ms whose end nobody hears of, and 100 ms of the parent's own.
FAMILY = """
import os, signal, time
def burn(seconds):
    while time.process_time() < seconds: pass
for _ in range(20):
    pid = os.fork()
    if not pid: burn(0.01); os._exit(0)
    os.waitpid(pid, 0)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
pid = os.fork()
if not pid: burn(0.3); time.sleep(0.5); os._exit(0)  # on a busy machine the next look comes late
began = time.process_time()
while time.process_time() < began + 0.1: pass
try: os.waitpid(pid, 0)
except ChildProcessError: pass
"""


def test_cpu_time_of_a_tree_misses_neither_unheard_nor_short_lived_children() -> None:
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.2: pass"], check=True)  # before
    with TreeCpu() as used:
        subprocess.run([sys.executable, "-I", "-c", FAMILY], check=True)
    assert 0.55 <= used.cpu_s <= 0.95  # 0.6, and the interpreter's own start
    assert used.wall_s >= 0.3
    assert max(process.cpu_s for process in used.processes) >= 0.25
    assert used.peak_rss > 1_000_000
