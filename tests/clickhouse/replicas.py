"""One shard of two replicas: Debian's ClickHouse 18.16, twice, and the ZooKeeper that comes with Spark."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from dev.stack import keeper
from dev.stack.clickhouse import NODES
from dev.stack.java import find_java
from dev.stack.ports import LOOPBACK, accepts, choose_ports
from dev.stack.processes import Identity, Launcher, Program, Running, end_all
from dev.stack.stack import Stack
from dev.stack.state import State
from tests.clickhouse.places import Place, real

_ZOOKEEPER = (
    "tickTime=500\ndataDir={folder}/data\nclientPort={port}\nclientPortAddress={host}\nadmin.enableServer=false\n"
)
_CONFIG = """<?xml version="1.0"?>
<yandex>
  <zookeeper><node><host>{host}</host><port>{port}</port></node><session_timeout_ms>4000</session_timeout_ms></zookeeper>
  <tcp_port>{tcp}</tcp_port>
</yandex>
"""
_START_S = 60.0


@contextmanager
def zookeeper(folder: Path) -> Iterator[int]:
    """A ZooKeeper; its port."""
    (folder / "data").mkdir(parents=True)
    port = choose_ports(["zookeeper"], {})["zookeeper"]
    config = folder / "zoo.cfg"
    config.write_text(_ZOOKEEPER.format(folder=folder, port=port, host=LOOPBACK))
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    jars = f"{Path(spark.origin).parent}/jars/*"
    command = [str(find_java().binary), "-Xmx128m", "-cp", jars]
    started: list[Running] = []
    me = Identity(os.getpid(), keeper.start_ticks(os.getpid()) or 0)
    launcher = Launcher(run_id=str(os.getpid()), logs=folder, owner=me, on_start=started.append)
    program = Program([*command, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)], cwd=folder)
    try:
        launcher.start("zookeeper", program).wait_ready(lambda: accepts(port), _START_S)
        yield port
    finally:
        launcher.close()
        end_all([running.keeper for running in started], 5.0)


class Replicas:
    """Where to deliver to: one shard, which two servers have."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.up()

    def up(self) -> None:
        self.found = real(self.stack.up(), 2)

    def place(self, addresses: str = "") -> Place:
        """With a table of its own."""
        return Place([addresses or "|".join(self.found.addresses)], self.found.user, self.found.password)

    def end(self, name: str) -> None:
        """One of the servers, without a word to it."""
        end_all([State.load(self.stack.root).identities()[name]], 0.0)

    @contextmanager
    def hung(self, name: str) -> Iterator[None]:
        """One of the servers takes connections, and says nothing."""
        tree = keeper.descendants(State.load(self.stack.root).identities()[name].pid)
        for pid in tree:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in tree:
                os.kill(pid, signal.SIGCONT)


@contextmanager
def replicas(root: Path, folder: Path) -> Iterator[Replicas]:
    """Both servers, and what they agree by."""
    with zookeeper(folder) as port:
        for name in NODES:
            (root / name / "config.d").mkdir(parents=True, exist_ok=True)
            tcp = choose_ports([name], {})[name]  # a replica tells the others of it, though nobody asks there
            config = root / name / "config.d" / "replicas.xml"
            config.write_text(_CONFIG.format(host=LOOPBACK, port=port, tcp=tcp))
        stack = Stack(root, parts=("clickhouse",))
        try:
            yield Replicas(stack)
        finally:
            stack.down()
