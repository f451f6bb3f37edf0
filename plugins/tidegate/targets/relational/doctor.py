"""What `tidegate doctor` looks at of a delivery's database: that it answers, and whose the table is."""

from __future__ import annotations

from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import TidegateError
from tidegate.core.doctor.findings import Finding, ok
from tidegate.core.doctor.rules import refused
from tidegate.core.spec.pipeline import Delivery, Pipeline
from tidegate.databases.kinds import MARIADB, POSTGRESQL
from tidegate.targets.relational.kind import settings

CHECK = "deliveries"
_MEANS = "windows are published, and wait to be delivered"


def examined(pipeline: Pipeline, delivery: Delivery, c: Connection, seconds: float) -> list[Finding]:
    """Raises nothing: what does not answer is a finding. Changes nothing."""
    about = f"{pipeline.name}.{delivery.name}"
    try:
        _connect(c, POSTGRESQL if delivery.kind == POSTGRESQL else MARIADB, seconds)
    except TidegateError as e:
        return [refused(CHECK, about, str(e.args[0]), _MEANS, e.advice or "is it up?")]
    except Exception as e:  # the drivers' own, of which there are many
        said = " ".join(str(e).split())[:300]
        return [refused(CHECK, about, f"{delivery.table}: {said}", _MEANS, f"fix the connection {c.conn_id}")]
    return [ok(CHECK, f"the database of {delivery.table} answers", about)]


def _connect(c: Connection, kind: str, seconds: float) -> None:
    found = settings(c, kind)
    if kind == POSTGRESQL:
        from tidegate.databases.postgresql.session import connect

        connect(found).close()
        return
    from tidegate.databases.mariadb import session

    session.connect(found, seconds).close()
