"""An Airflow connection, wherever it was found."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Unset fields are None, or an empty dict."""

    conn_id: str
    conn_type: str | None = None
    host: str | None = None
    port: int | None = None
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    schema: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


def retyped(conn_id: str, found: str | None, types: Collection[str], otherwise: str) -> str:
    """How a connection becomes one of these types; `otherwise`: of one that is not `generic`, as Airflow makes those
    whose type has no provider here."""
    if found != "generic":
        return otherwise
    wanted = f'{{"conn_type": "{"|".join(sorted(types))}", "host": ..., "login": ..., "password": ..., "extra": ...}}'
    return (
        f"without the type's provider Airflow's form and --conn-type make a generic one: airflow connections delete "
        f"{conn_id}; airflow connections add {conn_id} --conn-json '{wanted}'"
    )
