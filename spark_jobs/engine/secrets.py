"""Credentials reach a job in a file, never in a plan, an argument or a setting: librdkafka keys as a JSON object."""

from __future__ import annotations

import json
import os
import sys

from spark_jobs.engine.failures import refuse

VARIABLE, FILE = "TIDEGATE_SECRETS_FILE", "tidegate-secrets.json"
REGISTRY = "tidegate.registry."
"""Begins the keys of the same file that are about the schema registry, and none of librdkafka's."""


def client_secrets() -> dict[str, str]:
    """Settings for Kafka's client."""
    return {key: value for key, value in _secrets().items() if not key.startswith(REGISTRY)}


def registry_settings() -> dict[str, str]:
    """`url`, and `user` and `password` if there are any; empty if the pipeline has no registry."""
    return {key.removeprefix(REGISTRY): value for key, value in _secrets().items() if key.startswith(REGISTRY)}


def _secrets() -> dict[str, str]:
    """From the file that TIDEGATE_SECRETS_FILE names, else one that Spark carried along (`--files`), else {}."""
    path = os.environ.get(VARIABLE) or _carried_by_spark()
    if path is None:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError) as e:
        # the message must not quote what is in the file
        raise refuse(f"the secrets file cannot be used ({type(e).__name__})", advice=f"check {VARIABLE}") from None
    if not isinstance(found, dict):
        raise refuse("the secrets file must hold one JSON object of librdkafka settings", advice=f"check {VARIABLE}")
    return found


def _carried_by_spark() -> str | None:
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkFiles

    path = SparkFiles.get(FILE)
    return path if os.path.exists(path) else None
