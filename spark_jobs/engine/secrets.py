"""Credentials reach a job in a file, never in a plan, an argument or a setting: librdkafka keys as a JSON object."""

from __future__ import annotations

import json
import os
import sys
from urllib.parse import unquote, urlsplit

from spark_jobs.engine.failures import refuse

VARIABLE, FILE = "TIDEGATE_SECRETS_FILE", "tidegate-secrets.json"
REGISTRY = "tidegate.registry."
"""Begins the keys of the same file that are about the schema registry, and none of librdkafka's."""
STORAGE = "tidegate.storage."
"""The same, of an object store: keys of `tidegate.storage.access`."""
COPY = "tidegate.copy."
"""The same, of the database that a mirror's source table is read from: keys of `tidegate.databases`."""


def client_secrets() -> dict[str, str]:
    """Settings for Kafka's client."""
    return {key: value for key, value in _secrets().items() if not key.startswith((REGISTRY, STORAGE, COPY))}


def registry_settings() -> dict[str, str]:
    """`url`, and `user` and `password` if there are any; empty if the pipeline has no registry."""
    return _below(REGISTRY)


def storage_access() -> dict[str, str]:
    """How an object store is reached; empty where the environment or a role of the host says it."""
    return _below(STORAGE)


def copy_settings(server: str = "") -> dict[str, str]:
    """How the source's database is reached, of several servers this one's; empty if the pipeline copies none."""
    return _below(f"{COPY}{server}/" if server else COPY)


def _below(prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in _secrets().items() if key.startswith(prefix)}


def read(path: str) -> dict[str, str]:
    """Contents of a secrets file. Raises JobError, which quotes none of it."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError) as e:
        # the message must not quote what is in the file
        raise refuse(f"the secrets file cannot be used ({type(e).__name__})", advice=f"check {VARIABLE}") from None
    if not isinstance(found, dict):
        raise refuse("the secrets file must hold one JSON object of librdkafka settings", advice=f"check {VARIABLE}")
    return found


def use(given: dict[str, str] | None) -> None:
    """From now on this process has these, whatever it was started with; None: what it was started with."""
    global _given
    _given = given


_given: dict[str, str] | None = None


def _secrets() -> dict[str, str]:
    """Those of `use`, else from the file that TIDEGATE_SECRETS_FILE names, else one that Spark carried along
    (`--files`), else {}."""
    if _given is not None:
        return _given
    path = os.environ.get(VARIABLE) or _carried_by_spark()
    return {} if path is None else read(path)


def _carried_by_spark() -> str | None:
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext, SparkFiles

    context = SparkContext._active_spark_context
    if context is None and not SparkFiles._is_running_on_worker:
        return None
    places = [SparkFiles.get(FILE)]
    if context is not None:  # the driver: what YARN distributes is no file of the context's
        conf = context.getConf()
        if conf.get("spark.submit.deployMode") == "cluster":
            places.append(os.path.abspath(FILE))  # in its container, as an executor's
        else:
            named = (conf.get("spark.yarn.dist.files") or "").split(",")
            places += [unquote(urlsplit(one).path) for one in named if one.rpartition("/")[2] == FILE]
    return next((path for path in places if os.path.exists(path)), None)
