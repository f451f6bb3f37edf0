"""Airflow connections of type spark: where jobs run, and settings that cannot work.

Both launchers read it here: the tasks' (the provider's hook repeats it for its own arguments) and the command line's.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import JobFailed
from tidegate.core.doctor.findings import WRONG, Finding
from tidegate.core.spec.pipeline import Pipeline
from tidegate.spark.conf import is_local

CLIENT, CLUSTER = "client", "cluster"
WAIT = "spark.yarn.submit.waitAppCompletion"
KUBERNETES_SECRETS = "spark.kubernetes.driverEnv.TIDEGATE_SECRETS_FILE"
"""Path of secrets on Kubernetes in cluster mode: a mounted Secret. `--files` would upload them in clear."""


@dataclass(frozen=True, kw_only=True)
class SparkConnection:
    """`deploy_mode` is the one in force: the connection's, else the one of the pipeline's settings, else client.

    `keytab` is the content, base64, as the provider's hook takes it."""

    conn_id: str
    master: str
    deploy_mode: str = CLIENT
    queue: str | None = None
    namespace: str | None = None
    principal: str | None = None
    keytab: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, connection: Connection, conf: Mapping[str, str]) -> SparkConnection:
        """`conf` is the pipeline's."""
        extra = connection.extra
        mode = extra.get("deploy-mode") or conf.get("spark.submit.deployMode") or CLIENT
        named = {key: extra.get(key) or None for key in ("queue", "namespace", "principal", "keytab")}
        return cls(conn_id=connection.conn_id, master=master_of(connection), deploy_mode=str(mode), **named)

    @property
    def yarn(self) -> bool:
        return self.master.startswith("yarn")

    @property
    def kubernetes(self) -> bool:
        return self.master.startswith("k8s")

    @property
    def here(self) -> bool:
        """Whether the driver runs on this machine."""
        return is_local(self.master) or self.deploy_mode != CLUSTER

    def check(self, conf: Mapping[str, str], secrets: bool = False) -> None:
        """Raises JobFailed (no retry) for a job that can never succeed. `secrets`: whether it needs any."""
        if self.here:
            return
        if self.master.startswith("spark"):
            raise refused(
                f"{self.conn_id}: a standalone cluster ({self.master}) runs no Python driver, and the deploy mode is "
                "cluster",
                f"set the deploy mode of {self.conn_id} to client; the driver then runs on the Airflow worker",
            )
        if self.yarn and conf.get(WAIT, "true").strip().lower() == "false":
            raise refused(
                f"ingest.spark.conf has {WAIT}: false: spark-submit would say that all is well before the job has "
                "begun",
                "remove it from the pipeline's YAML",
            )
        if self.kubernetes and secrets and KUBERNETES_SECRETS not in conf:
            raise refused(
                f"{self.conn_id}: Kubernetes in cluster mode would get the secrets of Kafka as an upload in clear",
                f"mount a Secret with them and name its path in ingest.spark.conf as {KUBERNETES_SECRETS} and "
                "spark.executorEnv.TIDEGATE_SECRETS_FILE, or set the deploy mode to client",
            )

    def carries_files(self) -> bool:
        """Whether a driver gets its secrets by `--files`."""
        return self.here or not self.kubernetes

    def keytab_file(self, folder: Path) -> str | None:
        """The keytab's path, written into `folder`, which is this user's alone; None without one."""
        return str(_keytab_file(folder, self.keytab)) if self.keytab else None

    def options(self, folder: Path) -> list[str]:
        """Options of spark-submit besides the master; `folder` as above."""
        told = {"--deploy-mode": self.deploy_mode if self.deploy_mode != CLIENT else None, "--queue": self.queue,
                "--principal": self.principal, "--keytab": self.keytab_file(folder)}  # fmt: skip
        words = [word for name, value in told.items() if value for word in (name, value)]
        if self.namespace and self.kubernetes:
            words += ["--conf", f"spark.kubernetes.namespace={self.namespace}"]
        return words


def master_of(connection: Connection) -> str:
    """The master's URL as Airflow's Spark hook reads it from a connection."""
    host, port = connection.host or "", f":{connection.port}" if connection.port else ""
    if connection.conn_type == "spark" and host and ("://" in host or not connection.port):
        return host + port
    return f"{connection.conn_type}://{host}{port}"


def impossible_jobs(pipelines: Iterable[Pipeline], connections: Mapping[str, Connection | None]) -> list[Finding]:
    """Findings for connections and settings with which no job can succeed, each once."""
    found = {}
    for p in pipelines:
        connection = connections.get(p.ingest.spark_conn_id)
        try:
            if connection is not None:
                SparkConnection.of(connection, p.ingest.spark_conf).check(p.ingest.spark_conf)
        except JobFailed as e:
            what = str(e).partition("\n")[0]
            found[what] = Finding("spark", WRONG, what, "no batch can be written", e.advice, p.name)
    return list(found.values())


def refused(what: str, advice: str) -> JobFailed:
    """An error that no retry cures."""
    return JobFailed(what, advice=advice, retry=False)


def private_folder(folder: Path) -> None:
    """Make a folder that only this user can enter. Raises JobFailed (no retry) for an existing one that others can."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        advice = f"remove {folder}, or set AIRFLOW__TIDEGATE__SPARK_SESSION_FOLDER to a folder of this user alone"
        raise refused(f"{folder} must be a directory that only this user can enter", advice)


def _keytab_file(folder: Path, encoded: str) -> Path:
    """Write the keytab; the same content has the same file, which a warm session goes on reading."""
    try:
        content = base64.b64decode("".join(encoded.split()), validate=True)
    except (binascii.Error, ValueError):
        # without the cause: its message may quote the keytab
        raise refused("the keytab of the Spark connection is not base64", "run `base64 <keytab>`, use that") from None
    private_folder(folder)
    path = folder / f"keytab-{hashlib.sha256(content).hexdigest()[:16]}"
    fresh = path.with_suffix(f".{os.getpid()}")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    fresh.replace(path)
    return path
