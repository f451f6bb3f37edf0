"""What is clicked on the board, to its end: a person with the role Op acts in a browser, the scheduler carries it out,
and the board shows what came of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from tests import board_site
from tests.operators.harness import Lane, Rig
from tidegate.core.base.instants import iso

pytestmark = [
    pytest.mark.skipif(os.environ.get("TIDEGATE_OPERATORS") != "all", reason="make test-operators"),
    pytest.mark.skipif(
        board_site.chromium() is None,
        reason="there is no Chromium: apt-get install chromium, or name one by the environment variable CHROMIUM",
    ),
]
FIRST = 8
PAGE_S = 240
"""On a busy machine, for a page of Airflow's own."""
PERSON, PASSWORD = "nina", "of a test only"
WHY, BACK, KNOWN = "JFK's <b>column</b> came", "the column was wrong", "the producer knows"


class Strict(Lane):
    """No batch with a dirty record lands."""

    def yaml(self) -> str:
        return super().yaml().replace("max_count: null", "max_count: 0")


@pytest.fixture
def op(rig: Rig) -> Iterator[Any]:
    """A browser in which a person with the role Op has logged in; its console has had nothing to complain of."""
    person = {"username": PERSON, "password": PASSWORD, "first_name": "N", "last_name": "N", "email": "n@example.org"}
    rig.api.call("POST", "/users", person | {"roles": [{"name": "Op"}]})
    with board_site.browser() as chrome:
        page, wrong = board_site.visitor(chrome, rig.info.airflow_url, PERSON, PASSWORD)
        page.set_default_timeout(PAGE_S * 1000)
        yield page
        assert wrong == []


def test_what_is_clicked_on_the_board_is_carried_out_by_the_scheduler(rig: Rig, op: Any) -> None:
    lane, strict = rig.add(
        Lane("board_acts", rig.topic("board_acts", 2, FIRST), first=FIRST, retries=2),
        Strict("board_strict", rig.topic("board_strict", 0), first=FIRST, retries=2),
    )
    spoil(rig, strict)
    rig.api.pause(strict.ingest, False)
    rig.trigger(strict.ingest, "spoilt")
    lane.land(2)
    lane.publish(FIRST)
    columns = "- {name: site, type: string}"
    path = rig.dags / "pipelines" / f"{lane.name}.yaml"
    path.write_text(path.read_text().replace(columns, f"{columns}\n  - {{name: at, type: bigint}}"))
    rig.api.pause(lane.replay, False)

    replayed = replay(rig, op, lane)
    rig.wait_run(strict.ingest, "spoilt", "failed")
    release(rig, op, strict)
    rig.wait_run(lane.replay, replayed, "success")
    look(op, lane, "replayed", "2", replayed, WHY, "replay asked")
    to_the_log_and_back(op, lane, replayed)

    back = roll_back(rig, op, lane)
    rig.wait_run(lane.replay, back, "success")
    look(op, lane, "rolled-back", "3", back, BACK, "rollback asked")
    rig.check_settled(lane)
    rig.wait_run(strict.ingest, "spoilt", "success")
    op.goto(f"/tidegate/{strict.name}/batch/1")
    assert "LANDED" in words(op)
    assert re.search(f"released.*{KNOWN}.*board, {PERSON}", words(op), re.S)
    rig.check_settled(strict)


def spoil(rig: Rig, lane: Lane) -> None:
    """A batch of its topic with one record that is none."""
    producer = Producer({"bootstrap.servers": rig.info.kafka_bootstrap})
    at = int(lane.hour(FIRST).timestamp() * 1000)
    for value in (json.dumps({"id": "x", "site": "a", "at": at}), "<script>alert(1)</script>"):
        producer.produce(lane.topic, partition=0, value=value)
    assert producer.flush(30) == 0


def words(page: Any) -> str:
    return str(page.locator(".tg").inner_text())


def address(lane: Lane) -> str:
    return f"/tidegate/{lane.name}/window/{iso(lane.window(FIRST).start_ms)}"


def confirm(page: Any, button: str, why: str) -> str:
    """Give the reason, press the button; the id of the run that the result page names."""
    page.get_by_label("Reason").fill(why)
    page.get_by_role("button", name=re.compile(f"^{button}")).click()
    page.wait_for_url("**/done/*")
    assert why in words(page)
    assert f"board, {PERSON}" in words(page)
    return str(page.locator("dd a[href*='dag_run_id']").inner_text()).split()[1]


def replay(rig: Rig, page: Any, lane: Lane) -> str:
    """From the list of pipelines to the button, by mouse."""
    page.goto("/tidegate/")
    page.get_by_role("link", name=lane.name, exact=True).click()
    page.wait_for_url(f"**/tidegate/{lane.name}*")
    page.locator(f"a.tg-cell-published[href='{address(lane)}']").click()
    page.wait_for_url("**/window/**")
    page.get_by_role("link", name="Replay…").click()
    page.wait_for_url("**/act/replay?*")
    return confirm(page, "Replay", WHY)


def roll_back(rig: Rig, page: Any, lane: Lane) -> str:
    page.goto(address(lane))
    page.get_by_role("link", name="Roll back…").click()
    page.wait_for_url("**/act/rollback?*")
    page.get_by_role("radio", name=re.compile("^Generation 1 ")).check()
    return confirm(page, "Roll back", BACK)


def release(rig: Rig, page: Any, lane: Lane) -> None:
    """A refused batch, from the page of its pipeline."""
    page.goto(f"/tidegate/{lane.name}")
    page.locator(".tg-tile").get_by_role("link", name="1", exact=True).first.click()
    page.wait_for_url("**/batch/1")
    assert "over dirty.max_count 0" in words(page), f"{words(page)}\n{rig.story(lane.ingest, 'spoilt')}"
    page.get_by_role("link", name=re.compile("^Let it land")).click()
    page.wait_for_url("**/act/release?*")
    assert "1 of 2 records are dirty" in words(page)
    assert confirm(page, "Release", KNOWN) == "spoilt"


def look(page: Any, lane: Lane, state: str, generation: str, run: str, why: str, asked: str) -> None:
    """Calendar, window, its runs, its events."""
    page.goto(f"/tidegate/{lane.name}")
    assert page.locator(f"a.tg-cell-{state}[href='{address(lane)}']").count() == 1
    page.goto(address(lane))
    current = page.locator(".tg-row-current").inner_text()
    assert current.split()[:2] == [generation, "CURRENT"]
    told = page.get_by_role("region", name="Events").inner_text()
    assert re.search(f"{asked}.*{re.escape(why)}.*board, {PERSON}", told)
    assert page.get_by_role("region", name="Runs").get_by_role("link", name=run).count() == 1


def to_the_log_and_back(page: Any, lane: Lane, run: str) -> None:
    """From the window to the log of the task that rebuilt it, and by that task's button to the window again."""
    row = page.get_by_role("region", name="Runs").locator("tr", has_text=run)
    row.get_by_role("link", name="replay", exact=True).click()
    page.wait_for_url("**/dags/**")
    page.get_by_text("asked to replay").first.wait_for()
    page.get_by_role("tab", name="Details").click()
    page.locator("a[href*='/tidegate/-/run?']").first.click()
    page.wait_for_url(f"**{address(lane)}")
