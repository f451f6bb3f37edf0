"""The databases, started when a test asks for one."""

from tests.databases.fixtures import jdbc, mariadb, mysql, postgresql  # noqa: F401
