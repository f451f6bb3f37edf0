"""What `tidegate doctor` looks at of a pipeline's Hive: whether it answers, and whether tables can be made."""

from __future__ import annotations

from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import CatalogueError, TidegateError
from tidegate.core.doctor.findings import Finding, ok
from tidegate.core.doctor.rules import refused
from tidegate.core.spec.pipeline import Pipeline
from tidegate.targets.hive.catalogue import PyHiveCatalogue
from tidegate.targets.hive.sql import identifier, literal, split_table


def examined(pipeline: Pipeline, c: Connection, seconds: float) -> list[Finding]:
    """Raises nothing: what does not answer is a finding."""
    database, name = split_table(pipeline.sink.table)[0], pipeline.name
    try:
        hive = PyHiveCatalogue.from_connection_fields(
            c.host, c.port, c.login, c.password, c.schema, c.extra,
            connect_timeout_s=seconds / 2, request_timeout_s=seconds,
        )  # fmt: skip
        there = database.lower() in {str(row[0]).lower() for row in hive.execute("SHOW DATABASES")}
    except TidegateError as e:
        return [refused("hive", name, str(e.args[0]), "no window can be published", e.advice or "is it up?")]
    if not there:
        return [ok("hive", f"answers; database {database} will be made by the first batch", name)]
    place = literal(f"{pipeline.sink.workdir}/doctor")
    explained = f"EXPLAIN CREATE EXTERNAL TABLE {identifier(database)}.tidegate_doctor (x INT) LOCATION {place}"
    try:
        hive.execute(explained)  # compiled and checked, not executed
    except CatalogueError as e:
        what, mend = (
            f"tables cannot be made in {database}: {e.args[0]}",
            f"grant CREATE on {database}, and its location",
        )
        return [refused("hive", name, what, "tables and partitions cannot be made", mend)]
    return [ok("hive", f"answers; tables can be made in {database}", name)]
