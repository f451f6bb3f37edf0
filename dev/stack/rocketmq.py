"""A RocketMQ name server and one broker, broker-a; topics are created explicitly."""

from __future__ import annotations

from pathlib import Path

from dev.stack.errors import StackError
from dev.stack.java import find_java
from dev.stack.parts import Part
from dev.stack.ports import LOOPBACK
from dev.stack.processes import LOCALE, Program
from dev.stack.rocketmq_tools import RocketMQ

LOG_FILE = 1_048_576
"""Of the commit log, which expires file by file: small, so that expiry can be watched. A message has at most three
quarters of it."""
_START_S = 120.0
_LOGBACK = """<configuration>
  <appender name="out" class="org.apache.rocketmq.logging.ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %p %c - %m%n</pattern></encoder>
  </appender>
  <root level="ERROR"><appender-ref ref="out"/></root>
</configuration>
"""


class RocketMq(Part):
    """Messages are kept for three days, and deleted at four in the morning unless told otherwise.

    The broker's port for replicas is the one that isn't bound to loopback: it has no setting for that."""

    name = "rocketmq"
    port_names = ("rocketmq", "rocketmq_broker", "rocketmq_replica")
    jar_set = "rocketmq"

    def start(self) -> None:
        """Start both, wait until the name server knows the broker."""
        folder = self.site.folder("rocketmq")
        (folder / "rmq.logback.xml").write_text(_LOGBACK)
        names = {"listenPort": self.port, "bindAddress": LOOPBACK}
        self._daemon(folder, "names", "namesrv.NamesrvStartup", names, "-Xmx64m")
        broker = self._daemon(folder, "broker", "broker.BrokerStartup", self._broker(folder), "-Xmx256m")
        broker.wait_ready(self._ready, _START_S)

    def _daemon(self, folder: Path, name: str, main: str, settings: dict[str, object], heap: str):
        config = folder / f"{name}.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [
            str(find_java().binary), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", heap,
            "-XX:MaxDirectMemorySize=128m",
            f"-Duser.home={folder}", f"-Drocketmq.home.dir={folder}", "-cp", f"{folder}:{self.jars()}/*",
            f"org.apache.rocketmq.{main}", "-c", str(config),
        ]  # fmt: skip
        return self.site.launcher.start(f"rocketmq-{name}", Program(command, LOCALE, folder))

    def _broker(self, folder: Path) -> dict[str, object]:
        return {
            "brokerClusterName": "tidegate",
            "brokerName": "broker-a",
            "brokerId": 0,
            "brokerIP1": LOOPBACK,
            "bindAddress": LOOPBACK,
            "listenPort": self.site.ports["rocketmq_broker"],
            "haListenPort": self.site.ports["rocketmq_replica"],
            "namesrvAddr": f"{LOOPBACK}:{self.port}",
            "storePathRootDir": folder / "store",
            "storePathCommitLog": folder / "store" / "commitlog",
            "mappedFileSizeCommitLog": LOG_FILE,
            "mappedFileSizeConsumeQueue": 20_000,
            "maxMessageSize": LOG_FILE * 3 // 4,
            "flushDiskType": "SYNC_FLUSH" if self.site.durable else "ASYNC_FLUSH",
            "autoCreateTopicEnable": "false",
            "fileReservedTime": 72,
            "deleteWhen": "04",
            "diskMaxUsedSpaceRatio": 95,
            "cleanResourceInterval": 200,
            "deleteCommitLogFilesInterval": 1,
            "registerBrokerTimeoutMills": 6000,
            "timerFlushIntervalMs": 600_000,  # of delayed messages, which nobody sends: 37 MB each time
        }

    def _ready(self) -> bool:
        tools = RocketMQ(f"{LOOPBACK}:{self.port}", patience_s=5)
        try:
            return "broker-a" in tools.brokers()
        except (StackError, KeyError, ValueError):
            return False
        finally:
            tools.close()
