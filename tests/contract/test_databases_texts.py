"""Texts as events have them, whatever their first character, character set or label; or refused by name."""

from __future__ import annotations

import pytest

from tests.contract.test_databases_checksums import KeyRange, described, of_the_worker, rows_of
from tests.databases.fixtures import KINDS
from tests.databases.reading import read, refused
from tests.databases.servers import Server
from tidegate.databases import kinds
from tidegate.databases.mariadb import charsets

MARIADBS = [kind for kind in KINDS if kind != "postgresql"]
ID = ("id", "bigint")


@pytest.fixture(params=MARIADBS)
def maria(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    found.run("DROP TABLE IF EXISTS shop.t")
    return found


@pytest.mark.parametrize("text", ["\ufeffa", "\ufeff\ufeff", "\ufeff"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_byte_order_mark_is_a_character_of_its_text(request: pytest.FixtureRequest, kind: str, text: str) -> None:
    """Also where it is the first one of all that is read."""
    server: Server = request.getfixturevalue(kind)
    server.run("DROP TABLE IF EXISTS shop.t", "CREATE TABLE shop.t (k VARCHAR(20) PRIMARY KEY, n INT)")
    with server.session().cursor() as cursor:
        cursor.execute("INSERT INTO shop.t VALUES (%s, 1)", (text,))
    found = read(server, described(server, "shop.t"), [("k", "string"), ("n", "int")])[0]
    assert [row["k"] for row in found] == [text]


def test_a_text_that_is_none_in_utf_8_is_refused_by_its_key(mariadb: Server) -> None:
    mariadb.run(
        "DROP TABLE IF EXISTS shop.t",
        "CREATE TABLE shop.t (id BIGINT PRIMARY KEY, a VARCHAR(20), v VARCHAR(20))",
        "INSERT INTO shop.t VALUES (1, 'é', 'é'), (7, 'é', _utf8mb4 x'eda080'), (8, 'é', 'é')",
    )
    table = described(mariadb, "shop.t")
    said = refused(lambda: read(mariadb, table, [ID, ("a", "string"), ("v", "string")]))
    assert "the row with the key id 7: the value of v (varchar(20)) does not fit string" in said


@pytest.mark.parametrize(
    ("charset", "raw", "in_events"),
    [
        ("latin1", "80 41 81 8d 8f 90 9d e9 9d", "€A\ufffd\ufffd\ufffd\ufffd\ufffdé\ufffd"),
        ("gbk", "c4e3 a892 41", "你\u2641A"),
        ("cp1250", "8a", "Š"),
        ("koi8r", "c1", "а"),
    ],
)
def test_characters_are_those_of_events(maria: Server, charset: str, raw: str, in_events: str) -> None:
    """Read, and in the checksum."""
    maria.run(
        f"CREATE TABLE shop.t (id BIGINT PRIMARY KEY, v VARCHAR(20) CHARACTER SET {charset})",
        f"INSERT INTO shop.t VALUES (1, CONVERT(x'{raw.replace(' ', '')}' USING {charset})), (2, NULL), (3, '')",
    )
    table, wanted = described(maria, "shop.t"), [ID, ("v", "string")]
    rows = rows_of(maria, table, wanted, KeyRange(), "bytes")
    assert rows.column("v").to_pylist() == [in_events, None, ""]
    database = kinds.opened(maria.connection, 30.0)
    found = database.checksums(table, wanted, base64=False)
    assert found.of(KeyRange()) == of_the_worker(rows, found.forms)
    database.close()


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("VARCHAR(20) CHARACTER SET greek", "'α'", "column v of the source is varchar(20) character set greek"),
        ("TEXT CHARACTER SET cp932", "'あ'", "column v of the source is text character set cp932"),
        ("ENUM('a', 'd,e')", "'d,e'", "is enum with the label 'd,e', which has another text in events"),
        ("ENUM('it''s', 'back\\\\slash')", "1", "is enum with the label 'back"),
        ("SET('a', 'line\\nline')", "'a'", "is set with the label 'line"),
    ],
)
def test_texts_that_events_have_otherwise_are_refused(maria: Server, column: str, value: str, says: str) -> None:
    """But where no events are: a table without a log is read as its database has it."""
    maria.run(f"CREATE TABLE shop.t (id BIGINT PRIMARY KEY, v {column})", f"INSERT INTO shop.t VALUES (1, {value})")
    table, wanted = described(maria, "shop.t"), [ID, ("v", "string")]
    said = refused(lambda: read(maria, table, wanted))
    assert says in said
    assert "there is no rule by which it becomes string" in said
    ((there,),) = maria.run("SELECT CONVERT(v USING utf8mb4) FROM shop.t")
    without = kinds.opened(maria.connection, 30.0, logged=False)
    with kinds.reader(kinds.for_workers(maria.connection)).read(
        without.describe("shop.t"), wanted, KeyRange(), None
    ) as rows:
        assert [row["v"] for batch in rows.batches() for row in batch.to_pylist()] == [there]
    without.close()


@pytest.mark.parametrize(
    ("text", "charset", "in_events", "told"),
    [
        ("VARCHAR(40)", "utf8mb4", True, "varchar(40)"),
        ("varchar(40)", "latin1", True, "varchar(40) character set latin1"),
        ("varchar(40)", "latin1", False, "varchar(40)"),
        ("int(11)", None, True, "int(11)"),
        ("enum('A','it''s')", "latin1", True, "enum"),
        ("set('a\\\\b')", "utf8mb4", False, "set"),
    ],
)
def test_a_type_says_what_rules_have_to_know(text: str, charset: str | None, in_events: bool, told: str) -> None:
    assert charsets.told(text, charset, in_events) == told
