"""MariaDB from Debian's packages, for a recording: a private folder, loopback TCP, no password."""

from __future__ import annotations

import getpass
import os
import platform
import subprocess
import time
from pathlib import Path

from tests.debian import unpacked

PACKAGES = ("mariadb-server-core", "mariadb-client-core", "liburing2", "libaio1")
_PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64"}
_PATIENCE_S = 120.0


class MariaDB:
    """A server with a binary log of rows. `end` kills it: nothing of it is kept."""

    def __init__(self, folder: Path, port: int) -> None:
        self.port = port
        found = unpacked(folder / "debian", _PROCESSORS[platform.machine()], PACKAGES)
        self._root, self._data = found / "usr", folder / "mariadb"
        libraries = next((self._root / "lib").glob("*-linux-gnu"))
        self._env = os.environ | {"LD_LIBRARY_PATH": str(libraries)}
        self._options = [f"--basedir={self._root}", f"--datadir={self._data}", f"--user={getpass.getuser()}"]
        self._bootstrap()
        log = [f"--log-bin={self._data}/binlog", "--binlog-format=ROW", "--server-id=1", "--skip-name-resolve"]
        net = [f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder / 's'}", "--skip-grant-tables"]
        command = [str(self._root / "sbin/mariadbd"), "--no-defaults", *self._options, *log, *net, "--sql-mode="]
        with open(folder / "mariadb.log", "wb") as out:
            self.process = subprocess.Popen(command, env=self._env, stdout=out, stderr=out)
        self._await()

    def _bootstrap(self) -> None:
        """What mariadb-install-db does, which wants to be installed."""
        self._data.mkdir(parents=True)
        (self._data / "mysql").mkdir()
        tables = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
        sql = "use mysql;\n" + "".join((self._root / "share/mysql" / name).read_text() for name in tables)
        command = [str(self._root / "sbin/mariadbd"), "--no-defaults", *self._options, "--bootstrap"]
        subprocess.run(command, input=sql.encode(), env=self._env, check=True, capture_output=True, timeout=120)

    def _await(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                self.run("SELECT 1")
                return
            except subprocess.CalledProcessError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def run(self, sql: str) -> None:
        """Run statements in a session of their own. Raises CalledProcessError."""
        client = [str(self._root / "bin/mariadb"), "--no-defaults", "-h127.0.0.1", f"-P{self.port}", "-uroot", "-f"]
        subprocess.run(client[:-1], input=sql.encode(), env=self._env, check=True, capture_output=True, timeout=60)

    def end(self) -> None:
        """Kill the server."""
        self.process.kill()
        self.process.wait()
