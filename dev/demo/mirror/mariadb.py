"""MariaDB from Debian's packages, with a binary log of rows: a private folder, loopback TCP, no password."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from dev.stack.debian import unpacked
from dev.stack.errors import StackError
from dev.stack.places import Places
from dev.stack.ports import LOOPBACK
from dev.stack.processes import Launcher, Program, Running

PACKAGES = ("mariadb-server-core", "mariadb-client-core", "liburing2", "libaio1")
_SYSTEM = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
_START_S, _STATEMENTS_S = 120.0, 300.0


@dataclass(frozen=True)
class MariaDB:
    """A server with its data in `folder`. Whoever ends the launcher's processes ends it. `durable`: what has committed
    outlives the server's process, and costs a write each. `options`: more of the server's."""

    folder: Path
    port: int
    launcher: Launcher
    durable: bool = False
    options: tuple[str, ...] = ()

    def start(self) -> Running:
        """Begin with an empty database, without earlier data; return when it answers. Raises StackError."""
        data = self.folder / "data"
        shutil.rmtree(data, ignore_errors=True)
        (data / "mysql").mkdir(parents=True)
        self._bootstrap([*self._server, "--bootstrap"])
        return self.serve()

    def serve(self) -> Running:
        """Go on with the data that is there; return when it answers. Raises StackError."""
        # the socket's name is relative to the data: absolute ones may be too long
        net = [f"--port={self.port}", f"--bind-address={LOOPBACK}", "--socket=s", "--skip-grant-tables"]
        log = ["--log-bin=binlog", "--binlog-format=ROW", "--server-id=1", "--skip-name-resolve", "--sql-mode="]
        fast = [f"--innodb-flush-log-at-trx-commit={2 if self.durable else 0}", "--sync-binlog=0"]
        program = Program([*self._server, *net, *log, *fast, *self.options], self._env, self.folder)
        running = self.launcher.start("mariadb", program)
        running.wait_ready(self._answers, _START_S)
        return running

    def run(self, sql: str, timeout_s: float = _STATEMENTS_S) -> str:
        """Run statements in a session of their own; rows come as lines, values as they are. Raises StackError."""
        done = subprocess.run(
            self.client(), input=sql.encode(), env=os.environ | self._env, capture_output=True, timeout=timeout_s
        )
        if done.returncode:
            raise StackError(f"MariaDB refused: {done.stderr.decode(errors='replace').strip()[:500]}")
        return done.stdout.decode()

    def client(self) -> list[str]:
        """The command of a client, which needs `libraries`."""
        connect = [f"-h{LOOPBACK}", f"-P{self.port}", "-uroot", "--default-character-set=utf8mb4"]
        return [str(self._root / "bin/mariadb"), "--no-defaults", *connect, "--batch", "--raw", "--skip-column-names"]

    @property
    def libraries(self) -> Path:
        """Where its programs find theirs."""
        return next((self._root / "lib").glob("*-linux-gnu"))

    @property
    def _root(self) -> Path:
        return unpacked(Places.of_checkout().own / "debian" / "mariadb", PACKAGES) / "usr"

    @property
    def _env(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self.libraries)}

    @property
    def _server(self) -> list[str]:
        return [
            str(self._root / "sbin/mariadbd"), "--no-defaults", f"--basedir={self._root}",
            f"--datadir={self.folder / 'data'}", f"--user={getpass.getuser()}",
        ]  # fmt: skip

    def _bootstrap(self, command: list[str]) -> None:
        """What mariadb-install-db does, which wants to be installed."""
        sql = "use mysql;\n" + "".join((self._root / "share/mysql" / name).read_text() for name in _SYSTEM)
        done = subprocess.run(
            command, input=sql.encode(), env=os.environ | self._env, capture_output=True, timeout=_START_S
        )
        if done.returncode:
            raise StackError(f"MariaDB was not set up: {done.stderr.decode(errors='replace')[-500:]}")

    def _answers(self) -> bool:
        try:
            return bool(self.run("SELECT 1"))
        except StackError:
            return False
