"""Hive endpoints that PyHive talks to: Spark's Thrift server (demo, users) and a real HiveServer2 (contract tests)."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dev.stack.errors import StackError
from dev.stack.hdfs import site_xml
from dev.stack.jars import ensure_jars
from dev.stack.java import ADD_OPENS, find_java
from dev.stack.parts import Part, Site
from dev.stack.ports import LOOPBACK, accepts
from dev.stack.processes import Program
from dev.stack.secrets import write_private
from dev.stack.spark import driver_java_options, spark_classpath, spark_home

_START_S = 180.0
_RESOURCES = "resources/${hive.session.id}"
"""Each session's own: it makes the folder when it begins and deletes it when it ends, whoever else uses it."""
_CATALOG = "spark.sql.catalog.iceberg"
_OBJECTS = "AIRFLOW_CONN_AWS_DEFAULT"
_LOG4J = """status = warn
appender.c.type = Console
appender.c.name = c
appender.c.target = SYSTEM_ERR
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.c.ref = c
"""


class SparkThrift(Part):
    """Spark's Thrift server with an embedded Derby metastore; authentication NONE.

    Other processes write the files that it reads, so nothing about files is cached between queries.
    """

    name = "hive"
    port_names = ("hive",)

    def start(self) -> None:
        """Start and wait until a session can be opened."""
        folder = self.site.folder("hive")
        (folder / "conf").mkdir(exist_ok=True)
        (folder / "conf" / "log4j2.properties").write_text(_LOG4J)
        catalogues = "".join(f"{key} {value}\n" for key, value in self._catalogues().items())
        write_private(folder / "conf" / "spark-defaults.conf", catalogues)
        for name in ("tmp", "scratch-local"):
            (folder / name).mkdir(exist_ok=True)
        argv = [
            str(find_java().binary), *driver_java_options(self.site.places).split(" "), "-Xmx640m", *ADD_OPENS,
            f"-Dlog4j2.configurationFile={folder / 'conf' / 'log4j2.properties'}",
            f"-Dderby.stream.error.file={folder / 'derby.log'}", f"-Djava.io.tmpdir={folder / 'tmp'}",
            "-cp", self._classpath(), "org.apache.spark.deploy.SparkSubmit", "--master", "local[2]",
            "--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2", "--name", "tidegate-hive",
            *(word for key, value in self._spark(folder).items() for word in ("--conf", f"{key}={value}")),
            "spark-internal", *(word for key, value in self._hive(folder).items()
                                for word in ("--hiveconf", f"{key}={value}")),
        ]  # fmt: skip
        env = {
            "SPARK_HOME": str(spark_home()),
            "JAVA_HOME": str(find_java().home),
            "SPARK_CONF_DIR": str(folder / "conf"),
        }
        running = self.site.launcher.start("hive", Program(argv, env, folder))
        running.wait_ready(lambda: accepts(self.port) and answers(self.port), _START_S)

    def _classpath(self) -> str:
        return spark_classpath()

    def _catalogues(self) -> dict[str, str]:
        """Further settings of Spark's, which may hold passwords."""
        return {}

    def _spark(self, folder: Path) -> dict[str, object]:
        return {
            "spark.ui.enabled": "false",
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.local.dir": folder / "tmp",
            "spark.sql.warehouse.dir": folder / "warehouse",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": 2,
            "spark.sql.hive.filesourcePartitionFileCacheSize": 0,
            "spark.sql.hive.manageFilesourcePartitions": "true",
            # 0 disables the cache of table relations, whose file lists would outlive a changed location.
            "spark.sql.filesourceTableRelationCacheSize": 0,
            "spark.sql.metadataCacheTTLSeconds": 1,
            "spark.sql.thriftServer.incrementalCollect": "false",
            "spark.hadoop.javax.jdo.option.ConnectionURL": _derby(folder),
            "spark.hadoop.hive.exec.scratchdir": folder / "scratch",
        }

    def _hive(self, folder: Path) -> dict[str, object]:
        return {
            "hive.server2.thrift.port": self.port,
            "hive.server2.thrift.bind.host": LOOPBACK,
            "hive.exec.local.scratchdir": folder / "scratch-local",
            "hive.downloaded.resources.dir": folder / _RESOURCES,
            "hive.querylog.location": folder / "querylog",
            "hive.server2.logging.operation.enabled": "false",
        }


class SparkThriftIceberg(SparkThrift):
    """The same with Iceberg's own classes: `SELECT ... FROM iceberg.lake.flights`; in a stack with an object store also
    of tables there."""

    def prepare(self) -> None:
        """Fetch Iceberg's jars, and those of its S3 client where there is an object store."""
        self._further_jars()

    def _further_jars(self) -> list[Path]:
        beside = self._objects or "objects" in self.site.ports  # the environment is there once all is prepared
        names = ["iceberg-spark", *(["iceberg-aws"] if beside else [])]
        return [ensure_jars(name, self.site.places, self.site.progress) for name in names]

    @property
    def _objects(self) -> str:
        """The connection to the object store, as JSON; empty in a stack without one."""
        return self.site.env.get(_OBJECTS, "")

    def _classpath(self) -> str:
        """Behind Spark's own: the archive of classes holds for a prefix."""
        return ":".join([spark_classpath(), *(f"{jars}/*" for jars in self._further_jars())])

    def _catalogues(self) -> dict[str, str]:
        url = self.site.env.get("AIRFLOW_CONN_ICEBERG_SQL")  # missing in a stack without PostgreSQL
        if not url:
            return {}
        return _jdbc_catalogue(url, self.site.root / "lake") | (_s3_files(self._objects) if self._objects else {})


class SparkThriftObjects(SparkThrift):
    """The same with Hadoop's client of S3: Hive tables whose location is `s3://...`."""

    jar_set = "hadoop-aws"

    def _classpath(self) -> str:
        """Behind Spark's own: the archive of classes holds for a prefix."""
        return f"{spark_classpath()}:{self.jars()}/*"

    def _catalogues(self) -> dict[str, str]:
        return {f"spark.hadoop.{key}": value for key, value in _s3a_files(self.site).items()}


class HiveServer2(Part):
    """HiveServer2 4.0.1 and the metastore service that it asks, on Derby; jobs run in HiveServer2's own process."""

    name = "hive"
    port_names = ("hive", "hive_metastore")
    jar_set = "hiveserver2"

    def start(self) -> None:
        """Start and wait until a session can be opened."""
        folder = self.site.folder("hive4")
        conf = folder / "conf"
        for name in ("conf", "tmp"):
            (folder / name).mkdir(exist_ok=True)
        write_private(conf / "hive-site.xml", site_xml(self._hive(folder) | self._files()))
        for name in ("log4j2.properties", "hive-log4j2.properties"):
            (conf / name).write_text(_LOG4J)
        argv = [
            str(find_java().binary), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", *ADD_OPENS,
            f"-Dlog4j2.configurationFile={conf / 'log4j2.properties'}",
            f"-Dderby.stream.error.file={folder / 'derby.log'}", f"-Djava.io.tmpdir={folder / 'tmp'}",
            "-cp", ":".join([str(conf), *(f"{jars}/*" for jars in self._folders())]),
        ]  # fmt: skip
        java, metastore = {"JAVA_HOME": str(find_java().home)}, self.site.ports["hive_metastore"]
        service = [*argv, "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(metastore)]
        running = self.site.launcher.start("hive-metastore", Program(service, java, folder))
        running.wait_ready(lambda: accepts(metastore), _START_S)
        server = [*argv, "org.apache.hive.service.server.HiveServer2"]
        running = self.site.launcher.start("hive", Program(server, java, folder))
        running.wait_ready(lambda: accepts(self.port) and answers(self.port), _START_S)

    def _folders(self) -> list[Path]:
        return [self.jars()]

    def _files(self) -> dict[str, object]:
        """Settings of further file systems, which may hold passwords."""
        return {}

    def _hive(self, folder: Path) -> dict[str, object]:
        housekeeping = "org.apache.hadoop.hive.metastore.events.EventCleanerTask"  # the default list wants a Tez
        return {
            "fs.defaultFS": "file:///",
            "hadoop.tmp.dir": folder / "hadoop",
            "mapreduce.framework.name": "local",
            "mapreduce.cluster.local.dir": folder / "mapreduce",
            "hive.execution.engine": "mr",
            "hive.exec.submit.local.task.via.child": "false",
            "hive.exec.submitviachild": "false",
            "hive.exec.scratchdir": folder / "scratch",
            "hive.exec.local.scratchdir": folder / "scratch-local",
            "hive.downloaded.resources.dir": folder / _RESOURCES,
            "hive.querylog.location": folder / "querylog",
            "javax.jdo.option.ConnectionURL": _derby(folder),
            "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
            "hive.metastore.uris": f"thrift://{LOOPBACK}:{self.site.ports['hive_metastore']}",
            "metastore.thrift.bind.host": LOOPBACK,
            "datanucleus.schema.autoCreateAll": "true",
            "datanucleus.connectionPoolingType": "NONE",
            # Under the old name: HiveConf's default for it wins over the new one, and forbids to create the schema.
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": f"file://{folder / 'warehouse'}",
            "hive.metastore.warehouse.external.dir": f"file://{folder / 'external'}",
            "metastore.task.threads.always": housekeeping,
            "metastore.task.threads.remote": housekeeping,
            "hive.metastore.event.db.notification.api.auth": "false",
            "hive.metastore.authorization.storage.checks": "false",
            "hive.server2.thrift.port": self.port,
            "hive.server2.thrift.bind.host": LOOPBACK,
            "hive.server2.thrift.min.worker.threads": 2,
            "hive.server2.async.exec.threads": 4,
            "hive.server2.authentication": "NONE",
            "hive.server2.enable.doAs": "false",
            "hive.server2.webui.port": 0,
            "hive.server2.limit.connections.per.user": 0,
            "hive.server2.logging.operation.enabled": "false",
            "hive.server2.tez.initialize.default.sessions": "false",
            "hive.server2.materializedviews.registry.impl": "DUMMY",
            "hive.scheduled.queries.executor.enabled": "false",
            "hive.support.concurrency": "false",
            "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DummyTxnManager",
            "hive.stats.autogather": "false",
            "hive.compute.query.using.stats": "false",
            "hive.security.authorization.enabled": "false",
        }


class HiveServer2Objects(HiveServer2):
    """The same with Hadoop's client of S3, of the version of its Hadoop: tables whose location is `s3://...`."""

    def _folders(self) -> list[Path]:
        return [self.jars(), ensure_jars("hive-aws", self.site.places, self.site.progress)]

    def _files(self) -> dict[str, object]:
        return dict(_s3a_files(self.site))


def _jdbc_catalogue(url: str, warehouse: Path) -> dict[str, str]:
    """Spark's settings for the Iceberg tables of a catalogue in PostgreSQL, under the name `iceberg`.

    Without a cache: a session would go on showing each table as it first saw it."""
    at = urlsplit(url)
    options = {
        "type": "jdbc",
        "uri": f"jdbc:postgresql://{at.hostname}:{at.port}{at.path}",
        "jdbc.user": unquote(at.username or ""),
        "jdbc.password": unquote(at.password or ""),
        "jdbc.schema-version": "V1",
        "warehouse": f"file://{warehouse}",
        "cache-enabled": "false",
    }
    return {_CATALOG: "org.apache.iceberg.spark.SparkCatalog"} | _of_catalog(options)


def _s3_files(connection: str) -> dict[str, str]:
    """Spark's settings for files of that catalogue in S3, by a connection of type `aws`; others are read as ever."""
    found = json.loads(connection)
    options = {
        "io-impl": "org.apache.iceberg.io.ResolvingFileIO",
        "s3.endpoint": found["extra"]["endpoint_url"],
        "s3.path-style-access": "true",
        "s3.access-key-id": found["login"],
        "s3.secret-access-key": found["password"],
        "client.region": found["extra"]["region_name"],
    }
    return _of_catalog(options)


def _s3a_files(site: Site) -> dict[str, str]:
    """Hadoop's settings for `s3://` paths of the stack's object store. Raises StackError without one."""
    if _OBJECTS not in site.env:
        raise StackError("this endpoint reads an object store, which this stack does not have: add --with objects")
    found = json.loads(site.env[_OBJECTS])
    return {
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "fs.s3a.endpoint": found["extra"]["endpoint_url"],
        "fs.s3a.endpoint.region": found["extra"]["region_name"],
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": found["login"],
        "fs.s3a.secret.key": found["password"],
    }


def _of_catalog(options: dict[str, str]) -> dict[str, str]:
    return {f"{_CATALOG}.{key}": value for key, value in options.items()}


def answers(port: int) -> bool:
    """Whether the endpoint opens a session and runs a statement."""
    from pyhive import hive
    from thrift.transport.TTransport import TTransportException

    try:
        with hive.connect(LOOPBACK, port=port, username="tidegate", auth="NONE") as connection:
            cursor = connection.cursor()
            cursor.execute("SHOW DATABASES")
            return bool(cursor.fetchall())
    except (TTransportException, OSError, EOFError, hive.OperationalError):
        return False


def _derby(folder: Path) -> str:
    return f"jdbc:derby:;databaseName={folder / 'metastore'};create=true"
