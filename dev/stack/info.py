"""Facts about a stack, for those who use it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dev.stack.clickhouse import USER as CLICKHOUSE_USER
from dev.stack.clickhouse import clickhouse_hosts
from dev.stack.environment import (
    AIRFLOW_USER,
    airflow_db_url,
    hdfs_uri,
    iceberg_sql_url,
    iceberg_uri,
    ledger_url,
    objects_endpoint,
)
from dev.stack.objects import BUCKET
from dev.stack.parts import Site
from dev.stack.ports import LOOPBACK
from dev.stack.postgres import USER as POSTGRES_USER


@dataclass(frozen=True, kw_only=True)
class StackInfo:
    """Addresses and passwords of a running stack; what belongs to a part that wasn't asked for is empty (0, "")."""

    root: str
    kafka_bootstrap: str = ""
    kafka_sasl_bootstrap: str = ""
    kafka_password: str = field(default="", repr=False)
    rocketmq_namesrv: str = ""
    iceberg_uri: str = ""
    objects_uri: str = ""
    objects_endpoint: str = ""
    objects_key: str = ""
    objects_secret: str = field(default="", repr=False)
    clickhouse_hosts: str = ""
    clickhouse_user: str = ""
    clickhouse_password: str = field(default="", repr=False)
    postgres_host: str = ""
    postgres_port: int = 0
    postgres_user: str = ""
    postgres_password: str = field(default="", repr=False)
    ledger_url: str = field(default="", repr=False)
    airflow_db_url: str = field(default="", repr=False)
    iceberg_sql_url: str = field(default="", repr=False)
    hive_host: str = ""
    hive_port: int = 0
    hive_metastore_port: int = 0
    hdfs_uri: str = ""
    yarn_url: str = ""
    airflow_url: str = ""
    airflow_user: str = ""
    airflow_password: str = field(default="", repr=False)
    env: dict[str, str] = field(default_factory=dict, repr=False)

    def to_json(self) -> dict[str, object]:
        """Plain values; holds passwords."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, object]) -> StackInfo:
        """Inverse of to_json."""
        return cls(**content)  # type: ignore[arg-type]


@dataclass(frozen=True)
class PartStatus:
    """One part: `up` means that every process lives and its port answers."""

    name: str
    up: bool
    pids: list[int]


@dataclass(frozen=True)
class StackStatus:
    """All parts of the last `up`; `info` is None when nothing runs."""

    root: Path
    parts: list[PartStatus]
    info: StackInfo | None

    @property
    def ok(self) -> bool:
        """True when there is a stack and each of its parts is up."""
        return bool(self.parts) and all(part.up for part in self.parts)

    def to_json(self) -> dict[str, object]:
        """For `tidegate stack status --json`; holds passwords, but not the environment."""
        info = self.info.to_json() if self.info else None
        if info is not None:
            del info["env"]
        return {"root": str(self.root), "ok": self.ok, "parts": [asdict(part) for part in self.parts], "info": info}


def stack_info(site: Site, parts: Collection[str]) -> StackInfo:
    """Put the facts of a ready stack together."""
    found: dict[str, object] = {"root": str(site.root), "env": dict(site.env)}
    if "kafka" in parts:
        found["kafka_bootstrap"] = f"{LOOPBACK}:{site.ports['kafka']}"
        found["kafka_sasl_bootstrap"] = f"{LOOPBACK}:{site.ports['kafka_sasl']}"
        found["kafka_password"] = site.secrets.kafka_password
    if "rocketmq" in parts:
        found["rocketmq_namesrv"] = f"{LOOPBACK}:{site.ports['rocketmq']}"
    if "iceberg" in parts:
        found["iceberg_uri"] = iceberg_uri(site)
    if "objects" in parts:
        found |= {
            "objects_uri": f"s3://{BUCKET}",
            "objects_endpoint": objects_endpoint(site),
            "objects_key": site.secrets.objects_key,
            "objects_secret": site.secrets.objects_secret,
        }
    if "clickhouse" in parts:
        found |= {
            "clickhouse_hosts": clickhouse_hosts(site),
            "clickhouse_user": CLICKHOUSE_USER,
            "clickhouse_password": site.secrets.clickhouse_password,
        }
    if "postgres" in parts:
        found |= {
            "postgres_host": LOOPBACK,
            "postgres_port": site.ports["postgres"],
            "postgres_user": POSTGRES_USER,
            "postgres_password": site.secrets.postgres_password,
            "ledger_url": ledger_url(site),
            "iceberg_sql_url": iceberg_sql_url(site),
        }
    if "hive" in parts:
        found |= {"hive_host": LOOPBACK, "hive_port": site.ports["hive"]}
        found["hive_metastore_port"] = site.ports.get("hive_metastore", 0)
    if "hdfs" in parts:
        found["hdfs_uri"] = hdfs_uri(site)
    if "yarn" in parts:
        found["yarn_url"] = f"http://{LOOPBACK}:{site.ports['yarn']}"
    if "airflow" in parts:
        found |= {
            "airflow_db_url": airflow_db_url(site),
            "airflow_url": f"http://{LOOPBACK}:{site.ports['airflow']}",
            "airflow_user": AIRFLOW_USER,
            "airflow_password": site.secrets.airflow_password,
        }
    return StackInfo.from_json(found)
