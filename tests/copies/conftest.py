"""The two databases, started when a test asks for one."""

from tests.databases.fixtures import mariadb, mysql, postgresql  # noqa: F401
