"""The board as people meet it: Airflow's own web server, a process, with a ledger full of data. For a browser."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dev.stack.ports import choose_ports

CHROMIUM = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
START_S = 240.0
AIRFLOWS_OWN = "setting 'autocomplete'"
"""Airflow's script looks for a login form on every page, and stumbles where there is none."""


def chromium() -> str | None:
    """The browser of this machine; packages: `chromium` on Debian, `playwright install chromium` elsewhere."""
    named = os.environ.get("CHROMIUM")
    return next((path for path in (named, *CHROMIUM) if path and Path(path).exists()), None)


@contextmanager
def webserver(folder: Path, env: Mapping[str, str]) -> Iterator[str]:
    """`airflow webserver` on a free port; its address. Ended with all its workers."""
    (port,) = choose_ports(["web"], {}).values()  # none that another's connection may get before it is used
    url = f"http://127.0.0.1:{port}"
    more = {"AIRFLOW__WEBSERVER__BASE_URL": url, "AIRFLOW__WEBSERVER__WARN_DEPLOYMENT_EXPOSURE": "False"}
    command = [
        str(Path(sys.executable).with_name("airflow")), "webserver", "--port", str(port), "--hostname", "127.0.0.1",
        "--workers", "1", "--pid", str(folder / "webserver.pid"), "--access-logfile", os.devnull,
    ]  # fmt: skip
    log = folder / "webserver.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env={**os.environ, **env, **more}, stdout=out, stderr=out, cwd=folder)
    try:
        _wait(process, f"{url}/health", log)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"the web server did not start: {log.read_text(errors='replace')[-2000:]}")


@contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        started = play.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"], timeout=START_S * 1000
        )
        try:
            yield started
        finally:
            started.close()


def _note(wrong: list[str], address: str, text: str) -> None:
    if "/tidegate/" in address and AIRFLOWS_OWN not in text:
        wrong.append(f"{address}: {text}")


def visitor(browser: Any, url: str, name: str, password: str, **options: Any) -> tuple[Any, list[str]]:
    """A page of somebody who has logged in by the form, and what the console complains of from then on, on the
    board's own pages."""
    page = browser.new_context(base_url=url, **options).new_page()
    page.set_default_timeout(START_S * 1000)
    page.goto("/login/?next=/tidegate/")
    page.fill("input[name=username]", name)
    page.fill("input[name=password]", password)
    page.press("input[name=password]", "Enter")
    page.wait_for_url("**/tidegate/**")
    wrong: list[str] = []
    page.on("console", lambda m: _note(wrong, page.url, m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: _note(wrong, page.url, str(e)))
    return page, wrong
