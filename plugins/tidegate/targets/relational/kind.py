"""The kinds of deliveries `postgresql`, `mariadb` and `mysql`; the last two are one, by two names."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tidegate.core.base.connection import Connection, retyped
from tidegate.core.base.errors import DeliveryRefused
from tidegate.core.spec.pipeline import Delivery, Pipeline
from tidegate.kinds import DeliveryKind, found_at, late

_HERE = "tidegate.targets.relational"


def settings(connection: Connection, kind: str) -> dict[str, str]:
    """Raises DeliveryRefused for a connection of another kind of database."""
    from tidegate.databases.kinds import CONNECTION_TYPES, for_workers

    if CONNECTION_TYPES.get(connection.conn_type or "") != kind:
        types = [name for name, of in CONNECTION_TYPES.items() if of == kind]
        raise DeliveryRefused(
            f"connection {connection.conn_id} is of type {connection.conn_type}, the delivery's database is another",
            advice=retyped(connection.conn_id, connection.conn_type, types, f"name one of type {', '.join(types)}"),
            retry=False,
        )
    return for_workers(connection)


_SYSTEM = frozenset(("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"))
"""Names that each table of PostgreSQL has already."""


def _problems(
    pipeline: Pipeline, delivery: Delivery, longest: int, taken: frozenset[str] = frozenset()
) -> list[tuple[str, str]]:
    """PostgreSQL cuts longer names, silently: two could be one, and the next run finds none of them."""
    from tidegate.core.deliver.columns import delivered_columns

    of = f"a name there has {longest} characters at most"
    found = [("table", f"{part}: {of}") for part in delivery.table.split(".") if len(part) > longest]
    for name, _ in delivered_columns(pipeline):
        if len(name) > longest:
            found.append(("kind", f"column {name}: {of}"))
        if name.lower() in taken:
            found.append(("kind", f"each table there has a column {name} of its own; give the pipeline's another name"))
    return found


POSTGRESQL = DeliveryKind(
    name="postgresql",
    title="PostgreSQL",
    connection_types=("postgres", "postgresql"),
    port=5432,
    section=found_at("tidegate.spec.deliver:DeliverySection"),
    settings=partial(settings, kind="postgresql"),
    opened=late(f"{_HERE}.system:postgresql"),
    examined=late(f"{_HERE}.doctor:examined"),
    problems=partial(_problems, longest=63, taken=_SYSTEM),
)
MARIADB = DeliveryKind(
    name="mariadb",
    title="MariaDB",
    connection_types=("mysql", "mariadb"),
    port=3306,
    section=found_at("tidegate.spec.deliver:DeliverySection"),
    settings=partial(settings, kind="mariadb"),
    opened=late(f"{_HERE}.system:mariadb"),
    examined=late(f"{_HERE}.doctor:examined"),
    problems=partial(_problems, longest=64),
)
MYSQL = replace(MARIADB, name="mysql", title="MySQL")
