"""The two databases, started when a test asks for one."""

from tests.databases.fixtures import mariadb, postgresql  # noqa: F401
