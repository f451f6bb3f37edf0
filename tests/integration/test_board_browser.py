"""The board in a real browser, on Airflow's own web server: what an operator does on it, by mouse and by keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests import board_app  # isort: skip  (before airflow: it sets its home)

import pytest

from tests import board_ledger, board_site
from tests.board.test_board_actions import dags, forget
from tests.cli.test_cli_commands import add_yaml
from tests.world import T0, World, record
from tidegate.ledger.store import make_engine
from tidegate.spec import load_file

pytestmark = pytest.mark.skipif(
    board_site.chromium() is None,
    reason="there is no Chromium: apt-get install chromium, or name one by the environment variable CHROMIUM",
)
AT = "2013-01-05T01:00Z"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`readings` with four published hours, and a dozen pipelines with every trouble there is."""
    folder = tmp_path_factory.mktemp("site")
    add_yaml(folder, "readings")
    world = World(folder, load_file(folder / "pipelines/readings.yaml"))
    world.produce(*(record(f"r{n}", n / 4, "ab"[n % 2]) for n in range(24)), b"not json")
    world.ingest("readings.ingest/r1")
    for hour in range(4):
        world.archive(hour)
    world.close()
    engine = make_engine(f"sqlite:///{world.database}")
    board_ledger.fill(engine, 12, board_ledger.Sizes(windows=30, partitions=2, files=1), T0 + 100 * 3_600_000)
    engine.dispose()
    board_app.application()
    env = {
        "AIRFLOW_CONN_TIDEGATE_LEDGER": f"sqlite:///{world.database}",
        "AIRFLOW__TIDEGATE__PIPELINES_FOLDER": str(folder / "pipelines"),
        "AIRFLOW_CONN_KAFKA": '{"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}',
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", env["AIRFLOW__TIDEGATE__PIPELINES_FOLDER"])
        dags(folder)
    with board_site.webserver(folder, env) as url:
        yield url
    forget()


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    with board_site.browser() as found:
        yield found


def test_an_operator_looks_around_and_has_a_window_replayed(site: str, chrome: Any) -> None:
    page, wrong = board_site.visitor(chrome, site, "op", board_app.PASSWORD)
    assert page.locator("main, .tg").first.is_visible()
    page.get_by_role("link", name="readings", exact=True).first.click()
    page.wait_for_url("**/tidegate/readings*")
    page.goto("/tidegate/readings?at=2013-01-05")

    cell = page.locator("a.tg-cell[href*='/window/2013-01-05T01']").first  # the calendar
    assert "published" in (cell.get_attribute("aria-label") or cell.get_attribute("title") or "").lower()
    cell.focus()
    page.keyboard.press("Enter")  # by keyboard alone
    page.wait_for_url("**/window/2013-01-05T01*")
    assert "Certificate" in page.locator(".tg").inner_text()
    page.go_back()

    page.fill("input[name=partition]", "0")
    page.fill("input[name=offset]", "4")
    page.press("input[name=offset]", "Enter")
    page.wait_for_url("**/where?*")
    assert "published in generation 1 of 2013-01-05T01:00Z" in page.locator(".tg").inner_text()

    page.goto(f"/tidegate/readings/window/{AT}")
    page.get_by_role("link", name=re.compile("^Replay")).first.click()
    page.wait_for_url("**/act/replay?*")
    button = page.get_by_role("button", name=re.compile("^Replay"))
    button.click()
    assert "/act/replay" in page.url, "a reason is needed"
    page.get_by_label("Reason").fill("columns were <b>wrong</b>")
    button.dblclick()
    page.wait_for_url("**/done/*")
    told = page.locator(".tg").inner_text()
    assert "columns were <b>wrong</b>" in told
    assert "board, op" in told
    assert f"readings.replay board__replay__{AT}__" in told
    assert "queued" in told
    assert wrong == []


def test_every_link_and_button_is_reached_by_tab(site: str, chrome: Any) -> None:
    page, wrong = board_site.visitor(chrome, site, "op", board_app.PASSWORD)
    page.goto(f"/tidegate/readings/act/replay?window={AT}")
    inside = page.locator(".tg a[href], .tg button, .tg textarea, .tg input:not([type=hidden])").count()
    page.locator(".tg").evaluate("e => { e.tabIndex = -1; e.focus(); }")
    reached = set()
    for _ in range(inside):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.closest('.tg') && document.activeElement.outerHTML"))
        ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert ring != "none", page.evaluate("document.activeElement.outerHTML")
    assert len(reached - {None}) == inside
    assert wrong == []


def test_a_viewer_sees_no_button_and_is_refused(site: str, chrome: Any) -> None:
    page, wrong = board_site.visitor(chrome, site, "viewer", board_app.PASSWORD)
    page.goto(f"/tidegate/readings/window/{AT}")
    assert "Certificate" in page.locator(".tg").inner_text()
    assert page.locator("a[href*='/act/']").count() == 0
    page.goto(f"/tidegate/readings/act/replay?window={AT}")
    assert page.url.endswith("/tidegate/")
    assert "Your role may not do this" in page.inner_text("body")
    assert wrong == []


def test_pages_of_every_trouble_have_no_console_error(site: str, chrome: Any) -> None:
    page, wrong = board_site.visitor(chrome, site, "viewer", board_app.PASSWORD, viewport={"width": 390, "height": 800})
    seen = page.locator(".tg a[href*='/tidegate/']").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    pipelines = sorted({h for h in seen if re.fullmatch(r"/tidegate/[a-z_0-9]+", h)})
    assert len(pipelines) >= 12
    for href in pipelines[:8]:
        page.goto(href)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{href} is wider than a telephone"
    assert wrong == []
