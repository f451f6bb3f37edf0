"""Airflow's web application with the board in it, once for a test process: for a Flask client, no server.

Import this before anything of Airflow's."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import airflow_home

os.environ["AIRFLOW__WEBSERVER__SECRET_KEY"] = "of a test"
os.environ["AIRFLOW__CORE__LAZY_LOAD_PLUGINS"] = "True"

PASSWORD = "secret of a test"
ROLES = ("Viewer", "User", "Op", "Admin", "Public")


@functools.cache
def application() -> Any:
    """Without CSRF tokens: a test of them turns them on. A user for each role, with its name in small letters."""
    airflow_home.make_database()
    from airflow.www.app import create_app

    app = create_app(config={"WTF_CSRF_ENABLED": False, "RATELIMIT_ENABLED": False, "TESTING": True}, testing=True)
    manager = app.appbuilder.sm
    with app.app_context():
        for role in ROLES:
            name = role.lower()
            if manager.find_user(name) is None:
                manager.add_user(name, name, "Tester", f"{name}@example.org", manager.find_role(role), PASSWORD)
    return app


def client(role: str | None = "Viewer") -> Any:
    """A browser of somebody with this role, or of nobody."""
    made = application().test_client()
    if role is not None:
        answer = made.post("/login/", data={"username": role.lower(), "password": PASSWORD})
        assert answer.status_code == 302, answer.data
    return made


def use(monkeypatch: Any, database: Path | str, folder: Path) -> None:
    """Let the board look at this ledger (an SQLite file) and this pipelines folder."""
    from tidegate.board import views
    from tidegate.board.reach import Reach

    monkeypatch.setenv("AIRFLOW_CONN_TIDEGATE_LEDGER", f"sqlite:///{database}")
    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(folder))
    made = Reach()
    made._specs._wait_s = made.topics._wait_s = 60.0  # a page shows what is known by then: on a busy machine nothing
    monkeypatch.setattr(views, "reach", made)
