"""Airflow's connections, from its environment, secrets backends and database."""

from __future__ import annotations

from tidegate.adapters.connections import ConnectionMissing
from tidegate.core.base.connection import Connection


def airflow_connection(conn_id: str) -> Connection:
    """Look a connection up in Airflow (`adapters.connections.Lookup`). Raises ConnectionMissing."""
    from airflow.exceptions import AirflowNotFoundException
    from airflow.hooks.base import BaseHook

    try:
        found = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        advice = "add it under Admin > Connections, or name another one in the pipeline's YAML"
        raise ConnectionMissing(f"Airflow has no connection {conn_id!r}", advice=advice) from None
    return Connection(
        conn_id=conn_id,
        conn_type=found.conn_type or None,
        host=found.host or None,
        port=found.port,
        login=found.login or None,
        password=found.password or None,
        schema=found.schema or None,
        extra=found.extra_dejson,
    )
