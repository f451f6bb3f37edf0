"""A table with a column of each type, in both databases, and rows with what is odd in them."""

from __future__ import annotations

MARIADB_TABLE = """CREATE TABLE shop.kinds (
  id BIGINT PRIMARY KEY, ti TINYINT, tb TINYINT(1), bo BOOLEAN, si SMALLINT, mi MEDIUMINT, i INT, iu INT UNSIGNED,
  bu BIGINT UNSIGNED, b BIGINT, d DECIMAL(12,2), d0 DECIMAL(10,0), big DECIMAL(45,5), f FLOAT, fs FLOAT(7,3), 
  r DOUBLE,
  rs DOUBLE(10,3), c CHAR(8), vc VARCHAR(40), l1 VARCHAR(40) CHARACTER SET latin1, t TEXT,
  e ENUM('Small','LARGE'), s SET('a','b','c'), j JSON, bn BINARY(4), vb VARBINARY(10), bl BLOB, b1 BIT(1),
  b9 BIT(9), y YEAR, da DATE, dt DATETIME, dt3 DATETIME(3), dt6 DATETIME(6), ts TIMESTAMP NULL, ts6 TIMESTAMP(6) NULL,
  dan DATE NOT NULL, dtn DATETIME(6) NOT NULL, tsn TIMESTAMP NOT NULL DEFAULT '0000-00-00 00:00:00',
  dad DATE NOT NULL DEFAULT '2020-01-02', dn INT DEFAULT 7, tm TIME)"""
_MARIADB_ROWS = (
    # plain
    "1, 1, 1, 2, 3, 4, 5, 6, 7, 12.50, 7, 1.5, 1.1, 1.5, 2.2, 2.5, 'ab', 'Ada', 'é', 'text', 'Small', 'a,c', "
    "'{\"a\": 1}', x'01020304', x'00ff', x'c3a9', 1, 257, 2026, '2026-01-02', "
    "'2026-01-02 03:04:05', '2026-01-02 03:04:05.678', '2026-01-02 03:04:05.678901', '2026-01-02 03:04:05', "
    "'2026-01-02 03:04:05.678901', '2026-01-02', '2026-01-02 03:04:05', '2026-01-02 03:04:05', '2026-01-02', 1, "
    "'01:02:03'",
    # nulls
    "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "
    "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "
    "'2026-01-02', '2026-01-02 03:04:05', '2026-01-02 03:04:05', '2026-01-02', NULL, NULL",
    # greatest
    "127, 1, 1, 32767, 8388607, 2147483647, 4294967295, 9223372036854775807, 9223372036854775807, 9999999999.99, "
    "9999999999, 9999999999999999999999999999999999999999.99999, 3.40282346e38, 9999.999, 1.7976931348623157e308, "
    "9999999.999, '12345678', REPEAT('😀', 40), 'ÿ', REPEAT('t', 3000), 'LARGE', 'a,b,c', '[]', "
    "x'ffffffff', x'ffffffffffffffffffff', REPEAT(x'00ff', 500), 1, 511, 2155, "
    "'9999-12-31', '9999-12-31 23:59:59', '9999-12-31 23:59:59.999', '9999-12-31 23:59:59.999999', "
    "'2038-01-19 03:14:07', '2038-01-19 03:14:07.999999', '9999-12-31', '9999-12-31 23:59:59.999999', "
    "'2038-01-19 03:14:07', '9999-12-31', 2147483647, '838:59:59'",
    # smallest
    "-128, 0, 0, -32768, -8388608, -2147483648, 0, 0, -9223372036854775808, -9999999999.99, -9999999999, -0.00001, "
    "1.17549435e-38, -9999.999, 2.2250738585072014e-308, -9999999.999, '', '', '', '', 'Small', '', '{}', "
    "x'', x'', x'', 0, 0, 1901, '1000-01-01', '1000-01-01 00:00:00', "
    "'1000-01-01 00:00:00.001', '1000-01-01 00:00:00.000001', '1970-01-01 00:00:01', '1970-01-01 00:00:01.000001', "
    "'0100-01-01', '0100-01-01 00:00:00.000001', '1970-01-01 00:00:01', '1582-10-10', -2147483648, '-838:59:59'",
    # odd texts and numbers
    "0, 1, 0, 0, 0, 0, 0, 18446744073709551615, 0, -0.01, 0, 123456789012345678901234567890.12345, 16777217, "
    "0.1, 0.1, "
    "0.001, ' a  ', ' \"x\", \\n\\r\\\\ ''', '\"', 'line\\nline\\r\\n,\"', 'LARGE', 'c', '{\"k\":\"\\\\n\"}', "
    "x'01000000', x'0a2c22', x'22', 0, 1, 2000, '1582-10-10', "
    "'1969-12-31 23:59:59', '1969-12-31 23:59:59.999', '1969-12-31 23:59:59.999999', '2026-06-30 23:30:00', "
    "'2026-06-30 23:30:00.5', '1969-12-31', "
    "'1969-12-31 23:59:59.5', '2026-06-30 23:30:00', '1969-12-31', 0, '00:00:00'",
)
MARIADB_ZERO_DATES = (
    "INSERT INTO shop.kinds (id, da, dt, dt6, ts, ts6, dan, dtn, tsn, dad) VALUES (%d, '0000-00-00', "
    "'0000-00-00', '0000-00-00', "
    "'0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00')",
    "INSERT INTO shop.kinds (id, da, dt, dt6, dan, dtn, tsn, dad) VALUES (%d, '2026-00-10', '2026-01-00 03:04:05', "
    "'0000-05-05', '2026-00-00', '2026-05-00', '2026-01-02', '2020-00-00')",
)


def mariadb_rows(first: int) -> list[str]:
    """Statements that insert rows `first`, `first` + 1, ...; without zero dates."""
    return [f"INSERT INTO shop.kinds VALUES ({first + n}, {row})" for n, row in enumerate(_MARIADB_ROWS)]


def mariadb_zero_dates(first: int) -> list[str]:
    """The same with zero dates, whole ones and parts."""
    return [statement % (first + n) for n, statement in enumerate(MARIADB_ZERO_DATES)]


POSTGRESQL_TABLE = (
    "CREATE TYPE shop.mood AS ENUM ('Sad', 'happy')",
    "CREATE DOMAIN shop.short AS varchar(10)",
    "CREATE DOMAIN shop.shorter AS shop.short",
    "CREATE DOMAIN shop.price AS numeric(8,3)",
    """CREATE TABLE shop.kinds (
  id bigint PRIMARY KEY, si smallint, i int, b bigint, n numeric(12,2), n0 numeric(10,0), nn numeric, f real,
  r double precision, bo boolean, c char(8), vc varchar(40), t text, e shop.mood, j json, jb jsonb, u uuid, by bytea,
  b1 bit(1), da date, ts timestamp, ts3 timestamp(3), ts0 timestamp(0), tz timestamptz, tz3 timestamptz(3),
  tz0 timestamptz(0),
  dom shop.shorter, pr shop.price, dn int DEFAULT 7, nt inet)""",
)
_POSTGRESQL_ROWS = (
    "1, 2, 3, 12.50, 7, 1.500, 1.1, 2.2, true, 'ab', 'Ada', 'text', 'Sad', '{\"a\":  1}', '{\"b\":1,\"a\":  2}', "
    "'123e4567-e89b-12d3-a456-426614174000', '\\x00ff', '1', '2026-01-02', '2026-01-02 03:04:05.678901', "
    "'2026-01-02 03:04:05.678', '2026-01-02 03:04:05', '2026-01-02 03:04:05.678901+02', "
    "'2026-01-02 03:04:05.678+02', '2026-01-02 03:04:05+02', "
    "'short', 1.5, 1, '10.0.0.1'",
    "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "
    "NULL, NULL, "
    "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    "32767, 2147483647, 9223372036854775807, 9999999999.99, 9999999999, 123456789012345678901234567890.1234567, "
    "3.4028235e38, 1.7976931348623157e308, true, '12345678', repeat('😀', 40), repeat('t', 3000), 'happy', '[]', "
    "'[]', "
    "'ffffffff-ffff-ffff-ffff-ffffffffffff', decode(repeat('00ff', 500), 'hex'), '1', '9999-12-31', "
    "'9999-12-31 23:59:59.999999', '9999-12-31 23:59:59.999', '9999-12-31 23:59:59', '9999-12-31 23:59:59.999999Z', "
    "'9999-12-31 23:59:59.999Z', '9999-12-31 23:59:59Z', '0123456789', 99999.999, 2147483647, '::1'",
    "-32768, -2147483648, -9223372036854775808, -9999999999.99, -9999999999, -0.000, 1.17549435e-38, "
    "2.2250738585072014e-308, false, '', '', '', 'Sad', '{}', '{}', '00000000-0000-0000-0000-000000000000', '', '0', "
    "'0001-01-01', '0001-01-01 00:00:00.000001', '0001-01-01 00:00:00.001', '0001-01-01 00:00:00', "
    "'0001-01-01 00:00:00.000001Z', '0001-01-01 00:00:00.001Z', '0001-01-01 00:00:00Z', '', -1, -2147483648, "
    "'10.0.0.0/8'",
    "0, 0, 0, -0.01, 0, 100, 16777217, 0.1, false, ' a  ', E' \"x\", \\n\\r\\\\ ''', E'line\\nline\\r\\n,\"\\\\.', "
    "'happy', '{\"k\":\"\\\\n\"}', '{\"k\":\"\\\\n\"}', '00000000-0000-0000-0000-0000000000ff', '\\x0a2c22', '0', "
    "'1582-10-10', '1969-12-31 23:59:59.999999', '1969-12-31 23:59:59.999', '1969-12-31 23:59:59', "
    "'2026-06-30 23:30:00+00', '2026-06-30 23:30:00+00', '2026-06-30 23:30:00+00', E'\\\\.', 0.001, 0, 'fe80::/64'",
)


def postgresql_rows(first: int) -> list[str]:
    """Statements that insert rows `first`, `first` + 1, ..."""
    return [f"INSERT INTO shop.kinds VALUES ({first + n}, {row})" for n, row in enumerate(_POSTGRESQL_ROWS)]
