"""Broker and PostgreSQL of the soak, each a stack of its own, so that one can die while the other goes on."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg2
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from dev.stack import keeper
from dev.stack.errors import StackError
from dev.stack.processes import Identity
from dev.stack.stack import Stack
from dev.stack.state import State
from dev.stack.topics import create_topic
from tidegate.ledger.migrate import migrate

KAFKA, POSTGRES = "kafka", "postgres"
PARTS = (KAFKA, POSTGRES)
TASKS = "soak-task"
"""application_name of the tasks' connections, so that their backends can be told from ours."""
_END_S = 30.0


class Servers:
    """`up` starts what isn't running; the data stay between runs, and through kills. One supervisor restarts parts."""

    def __init__(self, root: Path, say: Callable[[str], None]) -> None:
        self._root, self._say = root, say
        self._stacks = {p: Stack(root / p, (p,), durable=True) for p in PARTS}
        self.ledger_url = self.bootstrap = ""
        self.restarts = dict.fromkeys(PARTS, 0)
        self._ended = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)

    def up(self, topic: str, partitions: int) -> None:
        """Start both, with the topic and the ledger's schema; then keep them running."""
        for part, stack in self._stacks.items():
            info = stack.up()
            if part == KAFKA:
                self.bootstrap = info.kafka_bootstrap
            else:
                self.ledger_url = f"{info.ledger_url}?application_name={TASKS}"
                migrate(info.ledger_url)
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        if topic not in admin.list_topics(timeout=20).topics:
            wanted = NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})
            create_topic({"bootstrap.servers": self.bootstrap, "log_level": 0}, wanted)
        self._supervisor.start()

    def down(self) -> None:
        self._ended.set()
        if self._supervisor.is_alive():
            self._supervisor.join()
        for stack in self._stacks.values():
            stack.down()

    def connect(self) -> psycopg2.extensions.connection:
        """To the ledger's database, autocommit. Raises psycopg2.Error."""
        found = psycopg2.connect(self.ledger_url, connect_timeout=3, application_name="soak")
        found.autocommit = True
        return found

    def main_process(self, part: str) -> Identity | None:
        """The broker's JVM or the postmaster; None while it is down."""
        alive = State.load(self._root / part).alive()
        for identity in alive.values():
            for pid in keeper.descendants(identity.pid)[:1]:
                try:
                    return Identity.of(pid)
                except StackError:
                    return None
        return None

    def tree(self, part: str) -> list[Identity]:
        """All processes of a part but its keeper: main process first."""
        main = self.main_process(part)
        found = [] if main is None else [main]
        for pid in keeper.descendants(main.pid) if main else ():
            try:
                found.append(Identity.of(pid))
            except StackError:
                continue
        return found

    def backends(self) -> list[Identity]:
        """PostgreSQL's processes that serve tasks."""
        try:
            with self.connect() as connection, connection.cursor() as cursor:
                cursor.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s", (TASKS,))
                pids = [row[0] for row in cursor.fetchall()]
            connection.close()
            return [Identity.of(pid) for pid in pids if psutil.pid_exists(pid)]
        except (psycopg2.Error, StackError):
            return []

    def kill(self, part: str) -> None:
        """SIGKILL to the main process; its keeper ends what is left, the supervisor starts it again."""
        main = self.main_process(part)
        if main is not None:
            main.signal(signal.SIGKILL)
            while main.alive:
                time.sleep(0.005)

    def wait_up(self, part: str, timeout_s: float = 240) -> None:
        """Until the part answers. Raises StackError."""
        deadline = time.monotonic() + timeout_s
        while not self._answers(part):
            if time.monotonic() > deadline:
                raise StackError(f"{part} did not come back within {timeout_s:.0f} s")
            time.sleep(0.1)

    def _answers(self, part: str) -> bool:
        if not self._stacks[part].status().ok:
            return False
        try:
            if part == POSTGRES:
                self.connect().close()
            else:
                AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0}).list_topics(timeout=5)
        except (psycopg2.Error, KafkaException):
            return False
        return True

    def _supervise(self) -> None:
        while not self._ended.wait(0.25):
            for part in PARTS:
                if State.load(self._root / part).alive():
                    continue
                try:
                    self._stacks[part].up()
                    self.restarts[part] += 1
                except StackError as e:
                    self._say(f"{part} did not start: {e}")
