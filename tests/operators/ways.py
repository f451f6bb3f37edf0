"""The three ways to clear: REST, `airflow tasks clear`, and the requests that the buttons of the UI send."""

from __future__ import annotations

import html
import re
import threading
from dataclasses import dataclass, field
from typing import Any

import requests

from tests.e2e.airflow_api import AirflowApi

REST, CLI, UI = WAYS = ("rest", "cli", "ui")
TASK, DOWNSTREAM, RUN = SCOPES = ("task", "downstream", "run")
"""What is cleared: one task, it and what follows it, the whole run."""
_TOKEN = re.compile(r'name="csrf_token"[^>]*value="([^"]+)"')


@dataclass
class Browser:
    """A logged-in session of the web server; logins are limited by it, so there is one for all."""

    api: AirflowApi
    _session: requests.Session | None = None
    _token: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def post(self, path: str, form: dict[str, Any]) -> requests.Response:
        """As the grid does: form fields, the session's cookie, the CSRF token in a header."""
        with self._lock:
            session = self._session or self._login()
            url = self.api.info.airflow_url
            headers = {"X-CSRFToken": self._token, "Accept": "application/json", "Referer": url}
            answer = session.post(url + path, data=form, headers=headers, timeout=180)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"
        assert "/login" not in answer.url, answer.url
        return answer

    def _login(self) -> requests.Session:
        info, session = self.api.info, requests.Session()
        page = session.get(f"{info.airflow_url}/login/", timeout=180)
        form = {"username": info.airflow_user, "password": info.airflow_password, "csrf_token": _token(page.text)}
        home = session.post(f"{info.airflow_url}/login/", data=form, timeout=180)
        assert "/login" not in home.url, home.text[:500]
        self._session, self._token = session, _token(home.text)
        return session


def _token(page: str) -> str:
    found = _TOKEN.search(page)
    assert found, page[:500]
    return html.unescape(found[1])


def clear(browser: Browser, way: str, scope: str, dag_id: str, run_id: str, task_id: str) -> None:
    """Clear by `way`, as much as `scope` says."""
    {REST: _by_rest, CLI: _by_cli, UI: _by_ui}[way](browser, scope, dag_id, run_id, task_id)


def _by_rest(browser: Browser, scope: str, dag_id: str, run_id: str, task_id: str) -> None:
    body: dict[str, Any] = {"dry_run": False, "only_failed": False, "dag_run_id": run_id, "reset_dag_runs": True}
    if scope != RUN:
        body |= {"task_ids": [task_id], "include_downstream": scope == DOWNSTREAM}
    cleared = browser.api.call("POST", f"/dags/{dag_id}/clearTaskInstances", body)["task_instances"]
    assert cleared


def _by_cli(browser: Browser, scope: str, dag_id: str, run_id: str, task_id: str) -> None:
    date = _logical_date(browser.api, dag_id, run_id)
    words = ["tasks", "clear", "-y", "-s", date, "-e", date]
    if scope != RUN:
        words += ["-t", f"^{task_id}$", *(["-d"] if scope == DOWNSTREAM else [])]
    browser.api.command(*words, dag_id)


def _by_ui(browser: Browser, scope: str, dag_id: str, run_id: str, task_id: str) -> None:
    if scope == RUN:
        form = {"dag_id": dag_id, "dag_run_id": run_id, "confirmed": "true", "only_failed": "false"}
        browser.post("/dagrun_clear", form)
        return
    flags = dict.fromkeys(("past", "future", "upstream", "recursive", "only_failed"), "false")
    browser.post(
        "/clear",
        flags
        | {
            "dag_id": dag_id,
            "dag_run_id": run_id,
            "task_id": task_id,
            "execution_date": _logical_date(browser.api, dag_id, run_id),
            "downstream": str(scope == DOWNSTREAM).lower(),
            "confirmed": "true",
        },
    )


def _logical_date(api: AirflowApi, dag_id: str, run_id: str) -> str:
    return api.runs(dag_id)[run_id]["logical_date"]
