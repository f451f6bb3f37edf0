"""Airflow's metadata database: migrated once a version, then copied.

Migrating takes Airflow some 20 s. So the first stack prepares a whole PostgreSQL cluster below `.tidegate/templates`
with a migrated database and an admin user, and every new stack starts from a copy of it.
"""

from __future__ import annotations

import secrets
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dev.stack.environment import AIRFLOW_USER, environment
from dev.stack.locks import file_lock
from dev.stack.parts import Site
from dev.stack.ports import choose_ports
from dev.stack.postgres import Postgres, cluster_template, template_key
from dev.stack.processes import Launcher, Program, end_all
from dev.stack.secrets import Secrets, write_private

_MIGRATE_S = 300.0
_MARK = "tidegate.airflow"  # in the cluster's folder, so that it travels with a copy


def airflow_binary() -> str:
    """The `airflow` program of this environment."""
    return str(Path(sys.executable).with_name("airflow"))


def migrated(cluster: Path) -> bool:
    """Whether this cluster's Airflow database fits the installed Airflow."""
    try:
        return (cluster / _MARK).read_text() == template_key()
    except OSError:
        return False


def migrate(cluster: Path, launcher: Launcher, env: Mapping[str, str], home: Path) -> None:
    """Bring the Airflow database up to date and make sure that there is an admin (with a password nobody knows).

    Raises PartDied when Airflow fails.
    """
    user = [
        "users", "create", "--username", AIRFLOW_USER, "--password", secrets.token_urlsafe(32), "--role", "Admin",
        "--firstname", "Tide", "--lastname", "Gate", "--email", "admin@localhost",
    ]  # fmt: skip
    for words in (["db", "migrate"], user):
        launcher.run("airflow-db", Program([airflow_binary(), *words], env, home), _MIGRATE_S)
    write_private(cluster / _MARK, template_key())


def ensure_template(site: Site) -> None:
    """Prepare the cluster that new stacks are copied from, unless there is one for the installed versions."""
    if cluster_template(site.places.templates) is not None:
        return
    with file_lock(site.places.templates / "lock"):
        if cluster_template(site.places.templates) is not None:
            return
        began = time.monotonic()
        site.progress("airflow: preparing a database that every stack will start from, about 30 s")
        root = site.places.tmp / "template"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        cluster = _build(_template_site(site, root))
        cluster.rename(site.places.templates / f"postgres-{template_key()}")
        shutil.rmtree(root, ignore_errors=True)
        site.progress(f"airflow: database prepared, {time.monotonic() - began:.1f} s")


def _template_site(site: Site, root: Path) -> Site:
    launcher = replace(site.launcher, logs=site.root / "logs" / "template", children=[])
    ports = choose_ports(("postgres", "airflow"), {})
    made = replace(site, root=root, ports=ports, secrets=Secrets(), launcher=launcher, durable=False, env={})
    made.env.update(environment(made, ("postgres", "airflow"), made.folder("dags"), made.folder("plugins")))
    return made


def _build(site: Site) -> Path:
    started = []
    site = replace(site, launcher=replace(site.launcher, on_start=started.append))
    postgres = Postgres(site)
    try:
        postgres.start()
        migrate(postgres.data, site.launcher, site.env, site.folder("airflow"))
    finally:
        end_all([running.keeper for running in started], 20.0)
    return postgres.data
