"""The kinds of deliveries `postgresql`, `mariadb` and `mysql`; the last two are one, by two names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.core.base.connection import Connection
from tidegate.kinds import DeliveryKind, late

_HERE = "tidegate.targets.relational"


def _section() -> type[Any]:
    from tidegate.spec.deliver import DeliverySection

    return DeliverySection


def _settings(connection: Connection) -> dict[str, Any]:
    from tidegate.databases.kinds import for_workers

    return dict(for_workers(connection))


POSTGRESQL = DeliveryKind(
    name="postgresql",
    title="PostgreSQL",
    connection_types=("postgres", "postgresql"),
    port=5432,
    section=_section,
    settings=_settings,
    opened=late(f"{_HERE}.system:postgresql"),
    examined=late(f"{_HERE}.doctor:examined"),
)
MARIADB = DeliveryKind(
    name="mariadb",
    title="MariaDB",
    connection_types=("mysql", "mariadb"),
    port=3306,
    section=_section,
    settings=_settings,
    opened=late(f"{_HERE}.system:mariadb"),
    examined=late(f"{_HERE}.doctor:examined"),
)
MYSQL = replace(MARIADB, name="mysql", title="MySQL")
