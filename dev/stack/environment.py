"""The environment in which Airflow, `tidegate` and a user's shell see one stack: addresses, settings, connections."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from dev.stack.clickhouse import USER as CLICKHOUSE_USER
from dev.stack.clickhouse import clickhouse_hosts
from dev.stack.java import find_java
from dev.stack.objects import BUCKET
from dev.stack.parts import Site
from dev.stack.ports import LOOPBACK
from dev.stack.postgres import ICEBERG
from dev.stack.postgres import USER as POSTGRES_USER
from dev.stack.secrets import write_private
from dev.stack.spark import archive_path
from dev.stack.yarn import conf_folder

AIRFLOW_USER = "admin"


def ledger_url(site: Site) -> str:
    """Both SQLAlchemy and Airflow read this form."""
    return _postgres_url(site, "tidegate")


def airflow_db_url(site: Site) -> str:
    """Airflow's metadata database."""
    return _postgres_url(site, "airflow").replace("postgresql://", "postgresql+psycopg2://")


def iceberg_sql_url(site: Site) -> str:
    """A catalogue of Iceberg tables in PostgreSQL."""
    return _postgres_url(site, ICEBERG)


def hdfs_uri(site: Site) -> str:
    """The NameNode, as URIs begin."""
    return f"hdfs://{LOOPBACK}:{site.ports['hdfs']}"


def iceberg_uri(site: Site) -> str:
    """The REST catalogue."""
    return f"http://{LOOPBACK}:{site.ports['iceberg']}"


def objects_endpoint(site: Site) -> str:
    """The S3 gateway."""
    return f"http://{LOOPBACK}:{site.ports['objects']}"


def environment(site: Site, parts: Collection[str], dags_folder: Path, plugins_folder: Path) -> dict[str, str]:
    """Everything that a process needs to use the parts named; on top of the caller's own environment."""
    binaries = Path(sys.executable).parent
    env = {
        "JAVA_HOME": str(find_java().home),
        "PATH": os.pathsep.join(filter(None, (str(binaries), os.environ.get("PATH", os.defpath)))),
        "PYSPARK_PYTHON": sys.executable,  # else Spark's workers are whatever python3 comes first on PATH
        "SPARK_LOCAL_IP": LOOPBACK,
        "TIDEGATE_STACK_ROOT": str(site.root),
        "TIDEGATE_LAKE": str(site.root / "lake"),  # where the tables of a trial lie; pipelines may name it
        "AIRFLOW_HOME": str(site.root / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags_folder),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(plugins_folder),
        **pipelines_in(dags_folder / "pipelines"),
        "AIRFLOW__TIDEGATE__SPARK_BINARY": str(binaries / "spark-submit"),
        "AIRFLOW__TIDEGATE__SPARK_CLASS_ARCHIVE": str(archive_path(site.places)),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
    }
    if "rocketmq" in parts:
        names = {"conn_type": "rocketmq", "host": LOOPBACK, "port": site.ports["rocketmq"]}
        env["AIRFLOW_CONN_ROCKETMQ_DEFAULT"] = json.dumps(names)
    if "iceberg" in parts:
        env["AIRFLOW_CONN_ICEBERG_DEFAULT"] = json.dumps({"conn_type": "iceberg", "host": iceberg_uri(site)})
    if "objects" in parts:
        env["TIDEGATE_LAKE_S3"] = f"s3://{BUCKET}"
        env["AIRFLOW_CONN_AWS_DEFAULT"] = json.dumps({
            "conn_type": "aws", "login": site.secrets.objects_key, "password": site.secrets.objects_secret,
            "extra": {"endpoint_url": objects_endpoint(site), "region_name": "us-east-1"},
        })  # fmt: skip
    if "clickhouse" in parts:
        env["AIRFLOW_CONN_CLICKHOUSE_DEFAULT"] = json.dumps({
            "conn_type": "clickhouse", "host": clickhouse_hosts(site), "login": CLICKHOUSE_USER,
            "password": site.secrets.clickhouse_password,
        })  # fmt: skip
    if "kafka" in parts:
        extra = {"bootstrap.servers": f"{LOOPBACK}:{site.ports['kafka']}"}
        env["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps({"conn_type": "kafka", "extra": extra})
    if "hdfs" in parts:
        env["TIDEGATE_LAKE_FS"] = hdfs_uri(site)  # a location is ${TIDEGATE_LAKE_FS:-file://}${TIDEGATE_LAKE}/...
    if "yarn" in parts:
        env["HADOOP_CONF_DIR"] = str(conf_folder(site.root))
        env["AIRFLOW_CONN_SPARK_YARN"] = json.dumps({"conn_type": "spark", "host": "yarn"})
    if "hive" in parts:
        env["AIRFLOW_CONN_HIVESERVER2_DEFAULT"] = json.dumps({
            "conn_type": "hiveserver2", "host": LOOPBACK, "port": site.ports["hive"], "login": "tidegate",
            "schema": "default", "extra": {"auth_mechanism": "NONE"},
        })  # fmt: skip
    if "postgres" in parts:
        env["AIRFLOW_CONN_TIDEGATE_LEDGER"] = ledger_url(site)
        env["AIRFLOW_CONN_ICEBERG_SQL"] = iceberg_sql_url(site)
        env["AIRFLOW__TIDEGATE__LEDGER_CONN_ID"] = "tidegate_ledger"
    if "airflow" in parts:
        env |= _airflow_settings(site)
    return env


def pipelines_in(folder: Path) -> dict[str, str]:
    """Where Airflow and `tidegate` find the pipelines' YAML files."""
    return {"AIRFLOW__TIDEGATE__PIPELINES_FOLDER": str(folder.absolute())}


def _airflow_settings(site: Site) -> dict[str, str]:
    settings: dict[str, dict[str, object]] = {
        "core": {
            "executor": "LocalExecutor",
            "load_examples": False,
            "fernet_key": site.secrets.airflow_fernet_key,
            "parallelism": 8,
            "max_active_tasks_per_dag": 8,
            "default_timezone": "utc",
            "dags_are_paused_at_creation": True,
            "hostname_callable": "socket.gethostname",
        },
        "database": {
            "sql_alchemy_conn": airflow_db_url(site),
            "sql_alchemy_pool_size": 3,
            "load_default_connections": False,
        },
        "scheduler": {
            "min_file_process_interval": 10,  # s; how soon a new pipeline's YAML is seen
            "dag_dir_list_interval": 300,  # s; a listing forgets import errors; new YAMLs need none
            "parsing_processes": 1,
            "scheduler_heartbeat_sec": 2,
            "scheduler_idle_sleep_time": 0.5,
            "job_heartbeat_sec": 2,
            "print_stats_interval": 0,
            "standalone_dag_processor": False,
        },
        "triggerer": {"job_heartbeat_sec": 2},
        "webserver": {
            "web_server_host": LOOPBACK,
            "web_server_port": site.ports["airflow"],
            "base_url": f"http://{LOOPBACK}:{site.ports['airflow']}",
            "secret_key": site.secrets.airflow_secret_key,
            "workers": 2,
            "expose_config": "non-sensitive-only",
            "show_trigger_form_if_no_params": True,
        },
        "api": {"auth_backends": "airflow.api.auth.backend.basic_auth,airflow.api.auth.backend.session"},
        "usage_data_collection": {"enabled": False},
        "logging": {"base_log_folder": str(site.root / "airflow" / "logs")},
        "metrics": {"timer_unit_consistency": True},  # Airflow warns on every start without it
    }
    env = {
        f"AIRFLOW__{section.upper()}__{key.upper()}": str(value)
        for section, keys in settings.items()
        for key, value in keys.items()
    }
    return env | {"SCARF_ANALYTICS": "false", "DO_NOT_TRACK": "1"}


def _postgres_url(site: Site, database: str) -> str:
    password = site.secrets.postgres_password
    return f"postgresql://{POSTGRES_USER}:{password}@{LOOPBACK}:{site.ports['postgres']}/{database}"


def write_env_file(path: Path, env: Mapping[str, str]) -> None:
    """KEY=VALUE lines, 0600. Raises ValueError for a value with a line break: the format has no way to say it."""
    for key, value in env.items():
        if "\n" in value:
            raise ValueError(f"{key} has a line break")
    write_private(path, "".join(f"{key}={env[key]}\n" for key in sorted(env)))
