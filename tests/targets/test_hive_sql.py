"""HiveQL as text, and what is read out of a server's answers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyhive.exc import OperationalError
from TCLIService.ttypes import TStatusCode

from tidegate.core.base.errors import CatalogueError, CatalogueMismatch
from tidegate.targets.hive import sql as sql
from tidegate.targets.hive.catalogue import PyHiveCatalogue
from tidegate.targets.hive.link import is_definite, server_words
from tidegate.targets.hive.ports import TableDef

TABLE = TableDef(
    name="lake.flights",
    columns=(("id", "BIGINT"), ("_topic", "string"), ("legs", "array<struct<order:int>>")),
    partitions=(("date", "string"), ("_batch", "string")),
    location="file:///lake/flights/",
    comment="it's",
    properties=(("tidegate.pipeline", "flights"), ("external.table.purge", "true")),
)


def test_statements_whole() -> None:
    values = (("date", "2013-01-05"), ("app", "a'b"))
    assert sql.create_database("lake.flights") == "CREATE DATABASE IF NOT EXISTS `lake`"
    assert sql.create_table(TABLE) == (
        "CREATE EXTERNAL TABLE IF NOT EXISTS `lake`.`flights` "
        "(`id` bigint, `_topic` string, `legs` array<struct<`order`:int>>) COMMENT 'it\\u0027s' "
        "PARTITIONED BY (`date` string, `_batch` string) STORED AS parquet LOCATION 'file:///lake/flights/' "
        "TBLPROPERTIES ('external.table.purge'='false', 'discover.partitions'='false', 'tidegate.pipeline'='flights')"
    )
    assert sql.add_partitions("lake.flights", [(values, "file:///x"), ((("app", None),), "file:///y")]) == (
        "ALTER TABLE `lake`.`flights` ADD IF NOT EXISTS "
        "PARTITION (`date`='2013-01-05', `app`='a\\u0027b') LOCATION 'file:///x' "
        "PARTITION (`app`='__HIVE_DEFAULT_PARTITION__') LOCATION 'file:///y'"
    )
    assert sql.set_location("lake.flights", values[:1], "file:///x") == (
        "ALTER TABLE `lake`.`flights` PARTITION (`date`='2013-01-05') SET LOCATION 'file:///x'"
    )
    assert sql.drop_partitions("lake.flights", [values[:1], values[1:]]) == (
        "ALTER TABLE `lake`.`flights` DROP IF EXISTS PARTITION (`date`='2013-01-05'), PARTITION (`app`='a\\u0027b')"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("UA", "'UA'"),
        ("a b/c=%2F", "'a b/c=%2F'"),
        ("\\", "'\\u005c'"),
        ("${x};", "'\\u0024{x}\\u003b'"),
        ("\n\x7f", "'\\u000a\\u007f'"),
        ("ü😀", "'\\u00fc\\ud83d\\ude00'"),
    ],
)
def test_literals_are_plain_ascii(value: str, text: str) -> None:
    assert sql.literal(value) == text


@pytest.mark.parametrize("name", ["", "a b", "a`b", "a;b", "1a", "ü", "a\n", "a" * 129, "a.b"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(CatalogueError) as refused:
        sql.identifier(name)
    assert not refused.value.retry


@pytest.mark.parametrize(
    ("location", "uri"),
    [
        ("file:/x/y", "file:///x/y"),
        ("file:///x/y/", "file:///x/y"),
        ("hdfs://nn:8020/x", "hdfs://nn:8020/x"),
        ("file:/a b:c ", "file:///a b:c "),
    ],
)
def test_one_spelling_of_a_location(location: str, uri: str) -> None:
    assert sql.location_uri(location) == uri


def test_the_first_location_is_the_partitions() -> None:
    rows = [
        ("id", "bigint", None), ("date", "string", None),
        ("# Partition Information", "", ""), ("# col_name", "data_type", "comment"), ("date", "string", None),
        ("", "", ""), ("# Detailed Partition Information", "", ""), ("Location", "file:/of/partition ", ""),
        ("", "", ""), ("# Storage Information", "", ""), ("Location", "file:/of/table/and/longer", ""),
    ]  # fmt: skip
    found = sql.read_description(rows)
    assert (found.columns, found.partitions) == ({"id": "bigint"}, {"date": "string"})
    assert found.location == "file:///of/partition"


def test_only_missing_columns_come_with_their_statement() -> None:
    found = sql.Description(
        columns={"id": "bigint", "legs": "array<struct<order:int>>"}, partitions=dict(TABLE.partitions)
    )
    found.location, found.kind, found.serde = "file:///lake/flights", "EXTERNAL_TABLE", "a.ParquetHiveSerDe"
    with pytest.raises(CatalogueMismatch, match="column _topic string is missing") as refused:
        sql.check_same(TABLE, found)
    assert "ALTER TABLE `lake`.`flights` ADD COLUMNS (`_topic` string)" in refused.value.advice


def test_a_type_that_is_not_known_here_is_told() -> None:
    found = sql.Description(columns={"id": "varchar(10)"}, partitions=dict(TABLE.partitions))
    with pytest.raises(CatalogueMismatch, match=r"column id is varchar\(10\), not bigint"):
        sql.check_same(TABLE, found)
    with pytest.raises(CatalogueMismatch):
        sql.evolution(TABLE, found)


def server_error(message: str, *infos: str, code: int = TStatusCode.ERROR_STATUS) -> OperationalError:
    return OperationalError(
        SimpleNamespace(status=SimpleNamespace(statusCode=code, errorMessage=message, infoMessages=list(infos)))
    )


@pytest.mark.parametrize(
    ("error", "definite"),
    [
        (server_error("FAILED: SemanticException [Error 10006]: Partition not found"), True),
        (server_error("FAILED: HiveAccessControlException Permission denied", "java.net.Socket:read:1"), True),
        (server_error("Invalid SessionHandle", code=TStatusCode.INVALID_HANDLE_STATUS), True),
        (server_error("MetaException(message:Got exception: org.apache.thrift.transport.TTransportException)"), False),
        (server_error("FAILED: Execution Error", "*java.net.SocketTimeoutException:Read timed out:1:2"), False),
        (server_error("Query was cancelled"), False),
        (server_error("still going", code=TStatusCode.STILL_EXECUTING_STATUS), False),
        (OperationalError("no status at all"), False),
    ],
)
def test_a_server_that_lost_its_metastores_answer_knows_nothing(error: OperationalError, definite: bool) -> None:
    assert is_definite(error) is definite


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            "Error while compiling statement: FAILED: SemanticException [Error 10001]: Table not found x\n  at a.b",
            "SemanticException [Error 10001]: Table not found x",
        ),
        (
            "Error running query: [PARSE] org.apache.spark.ParseException: \n[PARSE] Syntax error at 'x'.\n== SQL ==",
            "[PARSE] Syntax error at 'x'.",
        ),
        ("", "no reason given"),
    ],
)
def test_one_line_of_a_servers_words(message: str, words: str) -> None:
    assert server_words(server_error(message)) == words


def test_airflows_connection() -> None:
    extra = {"auth_mechanism": "kerberos", "kerberos_service_name": "h", "run_set_variable_statements": False}
    there = PyHiveCatalogue.from_connection_fields("hive", None, None, None, "lake", extra)
    assert (there._endpoint.address, there._endpoint.username, there._database) == ("hive:10000", "airflow", "lake")
    assert (there._endpoint.auth, there._endpoint.kerberos_service_name) == ("KERBEROS", "h")
    plain = PyHiveCatalogue.from_connection_fields("h", 1, "u", "secret", None, {"authMechanism": "PLAIN"})
    assert (plain._endpoint.auth, plain._endpoint.password, plain._database) == ("LDAP", "secret", "default")
    assert "secret" not in repr(plain._endpoint)
    for fields in ((None,), ("h", 1, None, None, None, {"auth_mechanism": "MAGIC"})):
        with pytest.raises(CatalogueError):
            PyHiveCatalogue.from_connection_fields(*fields)
