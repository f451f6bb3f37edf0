"""Airflow 2.11: scheduler, triggerer and web server, each a process; LocalExecutor on PostgreSQL."""

from __future__ import annotations

from dev.stack.airflow_db import airflow_binary, ensure_template, migrate, migrated
from dev.stack.environment import AIRFLOW_USER, ledger_url
from dev.stack.errors import StackError
from dev.stack.parts import Part
from dev.stack.ports import LOOPBACK, told
from dev.stack.postgres import Postgres
from dev.stack.processes import Program
from dev.stack.spark import ensure_archive

POOLS = {  # created when missing; an operator's change of the slots stays
    "tidegate_ingest": (4, "Batches being written at the same time"),
    "tidegate_archive": (4, "Windows being published at the same time"),
}
_START_S = 180.0
_STALE_PIDS = ("airflow-webserver.pid", "airflow-webserver-monitor.pid", "airflow-scheduler.pid")


class Airflow(Part):
    """The three services; ready when `/health` says that all of them and the database are well."""

    name = "airflow"
    port_names = ("airflow",)
    after = ("postgres",)

    def prepare(self) -> None:
        """Make the database that new stacks are copied from, and Spark's class archive for its tasks, once."""
        ensure_template(self.site)
        ensure_archive(self.site.places, self.site.progress)

    def start(self) -> None:
        """Migrate the database if it is new, set the admin's password and the pools, start the services."""
        self._home = self.site.folder("airflow")
        self._prepare_home()
        postgres = Postgres(self.site)
        if not migrated(postgres.data):
            self.site.progress("airflow: migrating its database, about 20 s")
            migrate(postgres.data, self.site.launcher, self.site.env, self._home)
        self._migrate_ledger()
        self._forget_dead_services(postgres)
        self._set_password(postgres)
        self._add_pools(postgres)
        services = {
            "airflow-scheduler": ("scheduler", "--skip-serve-logs"),
            "airflow-triggerer": ("triggerer", "--skip-serve-logs"),
            "airflow-webserver": ("webserver", "--port", str(self.port), "--hostname", LOOPBACK),
        }
        launcher = self.site.launcher
        running = [launcher.start(name, self._program(*words)) for name, words in services.items()]
        for one in running:
            one.wait_ready(lambda name=one.name: self._healthy(name), _START_S)

    def _prepare_home(self) -> None:
        for name in _STALE_PIDS:
            (self._home / name).unlink(missing_ok=True)
        # Else Airflow writes a 2,000-line airflow.cfg, whose values would outlive a changed default here.
        (self._home / "airflow.cfg").write_text("# Settings come from the environment: see `env` beside this folder.\n")

    def _program(self, *words: str) -> Program:
        return Program([airflow_binary(), *words], self.site.env, self._home, grace_s=15.0)

    def _migrate_ledger(self) -> None:
        from alembic.util import CommandError

        from tidegate.ledger.migrate import migrate as migrate_ledger

        try:
            migrate_ledger(ledger_url(self.site))
        except CommandError as error:
            advice = "end the stack and remove its data: tidegate stack wipe"
            raise StackError(f"this stack's ledger was made by other code: {error}", advice=advice) from error

    def _forget_dead_services(self, postgres: Postgres) -> None:
        """Killed services stay `running` in the database; their last heartbeat would pass for the new ones' health."""
        postgres.run(
            "airflow",
            "UPDATE job SET state = 'failed', end_date = now()"
            " WHERE state = 'running' AND job_type IN ('SchedulerJob', 'TriggererJob')",
        )

    def _set_password(self, postgres: Postgres) -> None:
        from werkzeug.security import generate_password_hash

        password = generate_password_hash(self.site.secrets.airflow_password)
        postgres.run("airflow", "UPDATE ab_user SET password = %s WHERE username = %s", (password, AIRFLOW_USER))

    def _add_pools(self, postgres: Postgres) -> None:
        for name, (slots, description) in POOLS.items():
            postgres.run(
                "airflow",
                "INSERT INTO slot_pool (pool, slots, description, include_deferred) VALUES (%s, %s, %s, false)"
                " ON CONFLICT (pool) DO NOTHING",
                (name, slots, description),
            )

    def _healthy(self, service: str) -> bool:
        component = "metadatabase" if service == "airflow-webserver" else service.removeprefix("airflow-")
        return told(self.port, "health").get(component, {}).get("status") == "healthy"
