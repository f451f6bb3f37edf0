"""Fixtures for every test; the random seed of a run is printed and can be given back with TIDEGATE_TEST_SEED."""

from __future__ import annotations

import gc
import os
import random
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # so that the fixtures' module is found whatever the import mode

pytest.register_assert_rewrite("tests")  # what helpers assert is told as fully as what tests do
pytest_plugins = ["stack_fixtures"]

# in the environment, so that all workers of one run have the same
SEED = int(os.environ.setdefault("TIDEGATE_TEST_SEED", str(random.SystemRandom().randrange(2**32))))
_OWN = "tidegate-tests-"
ALL_ON_HIVESERVER2 = os.environ.get("TIDEGATE_HIVESERVER2") == "all"
PLANTED, MANY = 0.25, 300
"""Of planted bugs, and of rules that are taken out: this part, drawn by the run's seed, where so many are asked for;
`make test-nightly` tries all. They judge the tests, not the code."""
JUDGES = re.compile(r"test_a_(planted|rule)_\w+_(is_found|is_killed|is_missed|breaks_a_promise)\[")
WORKERS, NEEDED_GB = 3, 16
"""One more than the cores: a worker that waits for an Airflow or a server uses none (`spread` says who runs what)."""
MEMORY = Path("/dev/shm")


def _scratch() -> Path:
    """Where temporary files lie: in memory where there is room, since a disk makes tests wait for each small file."""
    usual = Path(tempfile.gettempdir())
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return usual
    room = min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available)
    return MEMORY if room > NEEDED_GB * 1e9 else usual


def pytest_configure(config: pytest.Config) -> None:
    """What tests, and processes that they kill, leave in the temporary folder goes with the run."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores what tests send
    sys.dont_write_bytecode = False  # else each worker and each process that a test starts would compile all again
    if hasattr(config, "workerinput"):
        gc.disable()  # until all tests are collected: it would look through them again and again
        from compiled import compile_share

        compile_share(config, int(config.workerinput["workerid"].removeprefix("gw")))
        return  # a worker has its controller's environment
    scratch = _scratch()
    for left in scratch.glob(f"{_OWN}*"):
        if not psutil.pid_exists(int(left.name.removeprefix(_OWN).partition("-")[0])):  # its run was killed
            shutil.rmtree(left, ignore_errors=True)
    own = Path(tempfile.mkdtemp(prefix=f"{_OWN}{os.getpid()}-", dir=scratch))  # short: sockets are made in it
    config.add_cleanup(lambda: shutil.rmtree(own, ignore_errors=True))
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(scratch))  # pytest keeps the folders of failed tests
    os.environ |= {
        "TMPDIR": str(own),
        "SPARK_LOCAL_DIRS": str(own),
        "SPARK_SUBMIT_OPTS": f"-Djava.io.tmpdir={own}",
    }
    tempfile.tempdir = str(own)


def pytest_xdist_auto_num_workers() -> int:
    """For `-n auto`: three, or all tests in one process where memory is short."""
    free_gb = psutil.virtual_memory().available / 1e9
    return WORKERS if (os.cpu_count() or 1) > 1 and free_gb > NEEDED_GB else 0


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Whole files, those with real parts in lanes."""
    from spread import Spread

    return Spread(config, log)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What tiers of their own run whole, `make test` takes a sample of."""
    _draw_planted(items)
    _mark_hiveserver2(items)


def _draw_planted(items: list[pytest.Item]) -> None:
    named = [item for item in items if JUDGES.match(item.name)]
    if len(named) < MANY or os.environ.get("TIDEGATE_NIGHTLY") == "all":
        return
    for item in named:
        if random.Random(f"{SEED}:planted:{item.nodeid}").random() > PLANTED:
            item.add_marker(pytest.mark.skip(reason="a planted bug, not drawn: make test-nightly"))


def _mark_hiveserver2(items: list[pytest.Item]) -> None:
    """What runs on a HiveServer2; but for its sample it belongs to `make test-hive`."""
    for item in items:
        params = item.callspec.params.values() if hasattr(item, "callspec") else ()
        chosen = [value for value in params if isinstance(value, str)]  # Kafka's errors compare with numbers only
        if "hive4" in getattr(item, "fixturenames", ()) or "hive4" in chosen:
            item.add_marker("hiveserver2")
            if not ALL_ON_HIVESERVER2 and item.get_closest_marker("sample") is None:
                item.add_marker(pytest.mark.skip(reason="on HiveServer2: make test-hive"))


def pytest_collection_finish() -> None:
    """What is there now stays for the run: the collector of garbage need not look through it again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    gc.unfreeze()


def pytest_report_header() -> str:
    """Shown at the top of every run."""
    return f"seed: TIDEGATE_TEST_SEED={SEED}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say the seed below what failed too: `-q` hides the header."""
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.write_line(f"seed: TIDEGATE_TEST_SEED={SEED}")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers that depend on the run's seed and on the test's name only, not on the order of tests."""
    return random.Random(f"{SEED}:{request.node.nodeid}")
