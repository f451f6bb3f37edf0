"""HDFS: one NameNode and one DataNode, without security; `hdfs://127.0.0.1:<port>/...` needs no configuration."""

from __future__ import annotations

import getpass
from pathlib import Path
from xml.sax.saxutils import escape

from dev.stack.java import ADD_OPENS, find_java
from dev.stack.parts import Part
from dev.stack.ports import LOOPBACK, accepts, told
from dev.stack.processes import Program

_START_S = 90.0
_WEB_FOLDERS = ("hdfs", "datanode", "static", "secondary", "journal")
LOG4J = """log4j.rootLogger=WARN, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""


class Hdfs(Part):
    """The user who runs the stack is HDFS's superuser. Blocks have one copy."""

    name = "hdfs"
    port_names = ("hdfs", "hdfs_http", "hdfs_datanode", "hdfs_datanode_ipc", "hdfs_datanode_http")
    jar_set = "hdfs"

    def start(self) -> None:
        """Format the first time, start both daemons, wait until files can be written."""
        folder = self.site.folder("hdfs")
        self._configure(folder)
        if not (folder / "name" / "current" / "VERSION").exists():
            formatting = java_command(folder, self.jars(), "-Xmx128m")
            words = ["org.apache.hadoop.hdfs.server.namenode.NameNode", "-format", "-force", "-nonInteractive"]
            self.site.launcher.run("hdfs-format", Program([*formatting, *words], cwd=folder), _START_S)
        command = java_command(folder, self.jars(), "-Xmx256m")
        daemons = [
            self.site.launcher.start(f"hdfs-{name.lower()}", Program([*command, f"{_SERVER}.{kind}"], cwd=folder))
            for name, kind in (("NameNode", "namenode.NameNode"), ("DataNode", "datanode.DataNode"))
        ]
        for daemon in daemons:
            daemon.wait_ready(self._ready, _START_S)

    def _ready(self) -> bool:
        query = "jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        beans = told(self.site.ports["hdfs_http"], query).get("beans")
        operational = bool(beans) and beans[0]["FSState"] == "Operational" and beans[0]["NumLiveDataNodes"] > 0
        return operational and accepts(self.port)

    def _configure(self, folder: Path) -> None:
        conf = folder / "conf"
        for name in _WEB_FOLDERS:  # the daemons look for pages that the jars do not bring
            (conf / "webapps" / name).mkdir(parents=True, exist_ok=True)
        (conf / "log4j.properties").write_text(LOG4J)
        core = {
            "fs.defaultFS": f"hdfs://{LOOPBACK}:{self.port}",
            "hadoop.tmp.dir": folder / "tmp",
            "hadoop.security.authorization": "false",
            "ipc.client.connect.max.retries": 3,
        }
        (conf / "core-site.xml").write_text(site_xml(core))
        (conf / "hdfs-site.xml").write_text(site_xml(self._hdfs(folder)))

    def _hdfs(self, folder: Path) -> dict[str, object]:
        ports = {name: f"{LOOPBACK}:{self.site.ports[name]}" for name in self.port_names}
        return {
            "dfs.namenode.name.dir": f"file://{folder / 'name'}",
            "dfs.datanode.data.dir": f"file://{folder / 'data'}",
            "dfs.namenode.rpc-address": ports["hdfs"],
            "dfs.namenode.http-address": ports["hdfs_http"],
            "dfs.datanode.address": ports["hdfs_datanode"],
            "dfs.datanode.ipc.address": ports["hdfs_datanode_ipc"],
            "dfs.datanode.http.address": ports["hdfs_datanode_http"],
            "dfs.replication": 1,
            "dfs.permissions.enabled": "true",
            "dfs.permissions.superusergroup": getpass.getuser(),
            "dfs.namenode.safemode.extension": 0,
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.heartbeat.interval": 1,
            "dfs.namenode.heartbeat.recheck-interval": 5000,
            "dfs.namenode.fs-limits.min-block-size": 1024,
            "dfs.datanode.du.reserved": 0,
            "dfs.datanode.synconclose": str(self.site.durable).lower(),
            "dfs.namenode.handler.count": 4,
            "dfs.datanode.handler.count": 3,
        }


_SERVER = "org.apache.hadoop.hdfs.server"


def java_command(folder: Path, jars: Path, *options: str) -> list[str]:
    """Java with Hadoop's classpath and the configuration of the daemons whose folder this is; a class comes next."""
    fast = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true")
    settings = (f"-Dlog4j.configuration=file:{folder / 'conf' / 'log4j.properties'}",)
    return [
        str(find_java().binary), *fast, *options, *ADD_OPENS, *settings, f"-Dhadoop.log.dir={folder}",
        "-cp", f"{folder / 'conf'}:{jars}/*",
    ]  # fmt: skip


def site_xml(properties: dict[str, object]) -> str:
    """A Hadoop configuration file."""
    rows = "".join(
        f"<property><name>{escape(key)}</name><value>{escape(str(value))}</value></property>\n"
        for key, value in properties.items()
    )
    return f"<configuration>\n{rows}</configuration>\n"
