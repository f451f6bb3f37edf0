"""The pictures of docs/board.md (`make pictures`), on a ledger that is written for them, by the tests' browser."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # as pytest does
from tests import board_app  # isort: skip  (before airflow: it sets its home)

import pytest
from werkzeug.serving import make_server

from tests import board_ledger, board_site
from tests.board.test_board_actions import dags
from tests.cli.test_cli_commands import add_yaml
from tests.world import World, record
from tidegate.board import reach as reaching
from tidegate.core.source.port import Lane, LogState
from tidegate.core.spec.pipeline import Pipeline
from tidegate.ledger.migrate import migrate
from tidegate.ledger.store import make_engine
from tidegate.spec import load_file

FOLDER = Path(__file__).resolve().parents[1] / "docs/images"
MOST_BYTES = 150_000
SIZES = board_ledger.Sizes(windows=168, partitions=4)
AT = "2013-01-05T01:00Z"


class Broker:
    """What a page asks of Kafka: a topic that is a little ahead of the newest batch."""

    def look(self, topic: str) -> LogState:
        end = SIZES.windows * SIZES.batches * 1000
        ahead = {p: Lane(0, end + 700 + 90 * p, end + 700 + 90 * p) for p in range(SIZES.partitions)}
        return LogState(topic=topic, topic_id="t1", partitions=ahead)


@contextmanager
def served() -> Iterator[str]:
    app = board_app.application()
    app.config["WTF_CSRF_ENABLED"] = True
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()


def many(folder: Path, patch: pytest.MonkeyPatch) -> list[Pipeline]:
    """Pipelines with every trouble there is, their newest window two hours ago."""
    database = folder / "many.db"
    migrate(f"sqlite:///{database}")
    engine = make_engine(f"sqlite:///{database}")
    found = board_ledger.fill(engine, 17, SIZES, time.time_ns() // 1_000_000)
    engine.dispose()
    (folder / "none").mkdir()
    board_app.use(patch, database, folder / "none")
    return found


def one(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """A pipeline whose files are there, so that a record can be found and a window replayed."""
    add_yaml(folder, "readings")
    world = World(folder, load_file(folder / "pipelines/readings.yaml"))
    world.produce(*(record(f"r{n}", n / 40, "ab"[n % 2]) for n in range(240)))
    world.ingest("readings.ingest/r1")
    for hour in range(4):
        world.archive(hour)
    world.close()
    board_app.use(patch, world.database, folder / "pipelines")
    dags(folder)


def main() -> int:
    """Exit code 1 for a picture that is too large."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch, board_site.browser() as chrome:
        patch.setattr(reaching, "_kafka", lambda pipeline: Broker())
        folder = Path(name)
        pipelines = many(folder, patch)
        trouble = dict(zip(board_ledger.TROUBLES, pipelines, strict=False))
        with served() as url:
            page, _ = board_site.visitor(chrome, url, "op", board_app.PASSWORD, viewport={"width": 1180, "height": 860})
            _shoot(page, "overview", "/tidegate/", 640)
            _shoot(page, "pipeline", f"/tidegate/{trouble['late'].name}", 1000)
            _shoot(page, "release", f"/tidegate/{trouble['refused'].name}/act/release?batch={SIZES.windows + 1}", 620)
            page.goto(f"/tidegate/{trouble['late'].name}")
            href = page.locator(".tg-tile a[href*='/window/']").first.get_attribute("href")
            _shoot(page, "window", href, 640)
            one(folder, patch)
            _shoot(page, "record", "/tidegate/readings/where?partition=0&offset=50", 560)
            _shoot(page, "replay", f"/tidegate/readings/act/replay?window={AT}", 760)
    large = [p.name for p in FOLDER.glob("board-*.png") if p.stat().st_size > MOST_BYTES]
    print(*(f"{p.name}: {p.stat().st_size:,} bytes" for p in sorted(FOLDER.glob("board-*.png"))), sep="\n")
    return 1 if large else 0


def _shoot(page: Any, name: str, href: str, height: int = 860) -> None:
    page.set_viewport_size({"width": 1180, "height": height})
    page.goto(href)
    page.wait_for_load_state("networkidle")
    page.evaluate("document.querySelectorAll('.alert').forEach(e => e.remove())")  # this Airflow has no scheduler
    page.screenshot(path=FOLDER / f"board-{name}.png")


if __name__ == "__main__":
    sys.exit(main())
