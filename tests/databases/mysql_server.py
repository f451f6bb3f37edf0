"""MySQL from Debian's sid, with a binary log of rows and GTIDs: a private folder, loopback TCP.

No release of Debian has MySQL. What sid's is built against is newer than this machine's libraries, so it runs on those
that came with it, by their own loader."""

from __future__ import annotations

import getpass
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pymysql

from dev.demo.mirror.connect import Settings
from dev.stack.debian import SID, unpacked
from dev.stack.errors import StackError
from dev.stack.places import Places
from dev.stack.ports import LOOPBACK
from dev.stack.processes import Launcher, Program, Running

PACKAGES = ("mysql-server-core",)
JARS = "connect-mysql"
PASSWORD = "s3cret"
_START_S = 120.0
_USERS = (
    "CREATE USER 'shop'@'127.0.0.1' IDENTIFIED WITH caching_sha2_password BY '{password}'",
    "CREATE USER 'safe'@'127.0.0.1' IDENTIFIED WITH caching_sha2_password BY '{password}' REQUIRE SSL",
)
_RIGHTS = "GRANT {rights} ON *.* TO '{user}'@'127.0.0.1'"
READS = "SELECT, REPLICATION CLIENT"
"""What docs/mirrors.md says that a copy needs."""


@dataclass(frozen=True)
class MySQL:
    """A server with its data in `folder`. Whoever ends the launcher's processes ends it. Its users: root, without a
    password, `shop`, who reads, and `safe`, who does so by TLS alone."""

    folder: Path
    port: int
    launcher: Launcher

    def start(self) -> Running:
        """Begin with an empty database; return when it answers. Raises StackError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([*self._server, "--initialize-insecure"], capture_output=True, timeout=_START_S)
        if done.returncode:
            raise StackError(f"MySQL was not set up: {done.stderr.decode(errors='replace')[-500:]}")
        running = self.serve()
        with self.session() as found, found.cursor() as cursor:
            for statement in _USERS:
                cursor.execute(statement.format(password=PASSWORD))
            for user in ("shop", "safe"):
                cursor.execute(_RIGHTS.format(rights=READS, user=user))
            cursor.execute("CREATE DATABASE shop CHARACTER SET utf8mb4")
        return running

    def serve(self) -> Running:
        """Go on with the data that is there; return when it answers. Raises StackError."""
        # the socket's name is relative to the data: absolute ones may be too long
        net = [f"--port={self.port}", f"--bind-address={LOOPBACK}", "--socket=s", "--mysqlx=OFF"]
        log = ["--log-bin=binlog", "--server-id=1", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"]
        small = ["--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0", "--innodb-buffer-pool-size=64M"]
        # of a server that was killed; its number may be another process's by now, or it is not reaped yet
        (self.folder / "data" / "s.lock").unlink(missing_ok=True)
        running = self.launcher.start("mysql", Program([*self._server, *net, *log, *small], cwd=self.folder))
        running.wait_ready(self._answers, _START_S)
        return running

    def session(self) -> pymysql.connections.Connection[pymysql.cursors.Cursor]:
        """Of root."""
        return pymysql.connect(host=LOOPBACK, port=self.port, user="root", autocommit=True)

    @property
    def certificate(self) -> Path:
        """Of the authority that signed the server's."""
        return self.folder / "data" / "ca.pem"

    @property
    def _server(self) -> list[str]:
        root = unpacked(Places.of_checkout().own / "debian" / "mysql", PACKAGES, sources=SID) / "usr"
        (libraries,) = (root / "lib").glob("*-linux-gnu")
        (loader,) = libraries.glob("ld-linux-*")
        return [
            str(loader), "--library-path", str(libraries), str(root / "sbin/mysqld"), "--no-defaults",
            f"--basedir={root}", f"--datadir={self.folder / 'data'}", f"--user={getpass.getuser()}",
            "--secure-file-priv=NULL",
        ]  # fmt: skip

    def _answers(self) -> bool:
        try:
            self.session().close()
        except pymysql.err.Error:
            return False
        return True


def connector(made: Mapping[str, str]) -> Settings:
    """MariaDB's settings, for MySQL's connector, which the jars `connect-mysql` have."""
    kept = {name: value for name, value in made.items() if name != "database.ssl.mode"}
    return kept | {"connector.class": "io.debezium.connector.mysql.MySqlConnector"}
