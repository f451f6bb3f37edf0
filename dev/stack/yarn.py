"""YARN: one ResourceManager and one NodeManager beside the stack's HDFS, without security, on loopback alone."""

from __future__ import annotations

from pathlib import Path

from dev.stack.hdfs import LOG4J, java_command, site_xml
from dev.stack.java import ADD_OPENS, find_java
from dev.stack.parts import Part
from dev.stack.ports import LOOPBACK, told
from dev.stack.processes import LOCALE, RUN_MARK, Program

_START_S = 90.0
_MEMORY_MB, _CORES = 6144, 8
"""What containers may have in all: a limit, nothing is taken before an application asks."""
_SERVER = "org.apache.hadoop.yarn.server"


def conf_folder(root: Path) -> Path:
    """HADOOP_CONF_DIR for those who submit to the YARN of a stack."""
    return root / "yarn" / "conf"


class Yarn(Part):
    """Containers run as the user who runs the stack. An application's logs stay in `yarn/userlogs` for three hours."""

    name = "yarn"
    port_names = (
        "yarn", "yarn_rm", "yarn_rm_scheduler", "yarn_rm_tracker", "yarn_rm_admin",
        "yarn_nm", "yarn_nm_localizer", "yarn_nm_http",
    )  # fmt: skip
    after = ("hdfs",)
    jar_set = "yarn"

    def start(self) -> None:
        """Start both daemons, wait until the NodeManager is known."""
        folder = self.site.folder("yarn")
        self._configure(folder)
        command = java_command(folder, self.jars(), "-Xmx384m", f"-Dyarn.log.dir={folder}")
        env = LOCALE | {"JAVA_HOME": str(find_java().home), "HADOOP_CONF_DIR": str(conf_folder(self.site.root)),
                        "SPARK_LOCAL_IP": LOOPBACK}  # fmt: skip
        daemons = [
            self.site.launcher.start(
                f"yarn-{kind.rpartition('.')[2].lower()}", Program([*command, f"{_SERVER}.{kind}"], env, folder)
            )
            for kind in ("resourcemanager.ResourceManager", "nodemanager.NodeManager")
        ]
        for daemon in daemons:
            daemon.wait_ready(self._ready, _START_S)

    def _ready(self) -> bool:
        return told(self.port, "ws/v1/cluster/metrics").get("clusterMetrics", {}).get("activeNodes", 0) > 0

    def _configure(self, folder: Path) -> None:
        conf = conf_folder(self.site.root)
        conf.mkdir(parents=True, exist_ok=True)
        (conf / "log4j.properties").write_text(LOG4J)
        core = {
            "fs.defaultFS": f"hdfs://{LOOPBACK}:{self.site.ports['hdfs']}",
            "hadoop.tmp.dir": folder / "tmp",
        }
        queues = {
            "yarn.scheduler.capacity.root.queues": "default",
            "yarn.scheduler.capacity.root.default.capacity": 100,
            "yarn.scheduler.capacity.maximum-am-resource-percent": 0.8,
        }
        for name, properties in (
            ("core-site", core),
            ("hdfs-site", {"dfs.replication": 1}),
            ("capacity-scheduler", queues),
            ("yarn-site", self._addresses() | self._node(folder)),
        ):
            (conf / f"{name}.xml").write_text(site_xml(properties))

    def _addresses(self) -> dict[str, object]:
        """Every port that either daemon opens."""
        names = {
            "resourcemanager.webapp.address": "yarn",
            "resourcemanager.address": "yarn_rm",
            "resourcemanager.scheduler.address": "yarn_rm_scheduler",
            "resourcemanager.resource-tracker.address": "yarn_rm_tracker",
            "resourcemanager.admin.address": "yarn_rm_admin",
            "nodemanager.address": "yarn_nm",
            "nodemanager.localizer.address": "yarn_nm_localizer",
            "nodemanager.webapp.address": "yarn_nm_http",
        }
        hosts = (
            "resourcemanager.hostname",
            "resourcemanager.bind-host",
            "nodemanager.hostname",
            "nodemanager.bind-host",
        )
        return {f"yarn.{key}": LOOPBACK for key in hosts} | {
            f"yarn.{key}": f"{LOOPBACK}:{self.site.ports[name]}" for key, name in names.items()
        }

    def _node(self, folder: Path) -> dict[str, object]:
        return {
            "yarn.nodemanager.resource.memory-mb": _MEMORY_MB,
            "yarn.nodemanager.resource.cpu-vcores": _CORES,
            "yarn.scheduler.minimum-allocation-mb": 256,
            "yarn.scheduler.maximum-allocation-mb": _MEMORY_MB,
            "yarn.nodemanager.vmem-check-enabled": "false",  # Java reserves far more than it uses
            "yarn.nodemanager.local-dirs": folder / "local",
            "yarn.nodemanager.log-dirs": folder / "userlogs",
            # the default gives a disk up that is nine tenths full
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": 99,
            "yarn.nodemanager.container-localizer.java.opts": " ".join(("-Xmx256m", *ADD_OPENS)),
            # what a container gets of the NodeManager's environment: no PYTHONPATH of whoever started the stack
            "yarn.nodemanager.env-whitelist": ",".join(
                ("JAVA_HOME", "HADOOP_CONF_DIR", "SPARK_LOCAL_IP", *LOCALE, RUN_MARK)
            ),
            "yarn.application.classpath": "",  # Spark brings Hadoop's classes
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": 250,
        }
