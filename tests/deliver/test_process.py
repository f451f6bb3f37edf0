"""The whole way: a world's hours, by the process that reads files, into a real PostgreSQL, MariaDB and MySQL."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.databases.fixtures import KINDS, mariadb, mysql, postgresql  # noqa: F401
from tests.databases.servers import Server
from tests.deliver.lab import SHOP, RealLab
from tests.fakes.proxy import Fate, LossyProxy
from tests.world import T0
from tidegate.core.base.errors import DeliveryRefused, DeliveryUnsure, LostComparison
from tidegate.core.spec.pipeline import Column
from tidegate.databases.kinds import for_workers
from tidegate.workflow.deliver import content, deliver, ready


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


class Real(RealLab):
    """`port`: of a proxy before the server."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.real, self.port, self.table = server, server.connection.port, f"shop.r_{uuid.uuid4().hex[:8]}"
        super().__init__(folder, replace(SHOP, kind=server.product, table=self.table), self._reached)

    def _reached(self) -> Mapping[str, Any]:
        through = self.port != self.real.connection.port and self.real.kind != "postgresql"
        plain = {"ssl_mode": "DISABLED"} if through else {}  # a proxy reads along
        return for_workers(replace(self.real.connection, port=self.port)) | plain

    def ids(self) -> list[str]:
        return sorted(str(row[0]) for row in self.real.run(f"SELECT id FROM {self.table}"))


@pytest.fixture
def real(tmp_path: Path, server: Server) -> Iterator[Real]:
    made = Real(tmp_path, server)
    yield made
    made.close()


def test_hours_arrive(real: Real) -> None:
    real.hours(2)
    assert real.deliver() == ["delivered", "delivered"]
    assert real.ids() == ["0-0", "0-1", "1-0", "1-1"]
    first = "id = '0-0' AND _window = '2013-01-05 00:00:00'"
    (row,) = real.real.run(f"SELECT site, value, _partition, _offset FROM {real.table} WHERE {first}")
    assert row == ("b", 1, 0, 0)
    tokens = real.real.run(
        f"SELECT generation, epoch, delivery FROM shop.tidegate_deliveries WHERE table_name = '{real.table[5:]}'"
    )
    assert tokens == [(1, 1, "shop"), (1, 1, "shop")]
    assert real.verify(0, 1) == ["unchanged", "unchanged"]
    real.real.run(f"DELETE FROM {real.table} WHERE id = '1-1'")
    assert real.differences() == [[], ["site=a: 1 row here, 0 there"]]
    real.world.change_spec(columns=(*real.pipeline.columns, Column(name="x", type="string", path="$.id")))
    real.world.replay(0)
    assert real.verify(0, 1) == ["delivered", "delivered"]
    assert real.ids() == ["0-0", "0-1", "1-0", "1-1"]
    assert real.states() == ["STANDING 2.2", "STANDING 1.2"]


def test_a_commit_whose_answer_is_lost(real: Real) -> None:
    real.hours(1)
    at = real.real.connection
    with LossyProxy(at.host or "", at.port or 0, b"COMMIT", Fate.LOSE_REPLY, once=True) as proxy:
        real.port = proxy.port
        assert real.deliver() == ["delivered"]
        assert proxy.matched
    assert (real.ids(), real.states()) == (["0-0", "0-1"], ["STANDING 1.1"])


def test_a_process_that_is_killed_leaves_nothing(real: Real) -> None:
    """In the middle of its transaction: what it was at is taken back, and the next try sends the hour."""
    real.hours(1)
    assert (real.deliver_and_be_killed(), real.ids()) == ("failed", [])
    assert real.deliver() == ["delivered"]
    assert (real.ids(), real.states()) == (["0-0", "0-1"], ["STANDING 1.2"])


def test_who_is_overtaken_shows_nothing(real: Real) -> None:
    real.hours(1)
    with real.context() as ctx:
        sender = ctx.sender(real.pipeline.deliver[0])
        ready.prepare(ctx, real.pipeline.deliver[0], sender)
        (one,) = ctx.ledger.deliveries.due("readings", "shop", None, 9)
        tried = ctx.ledger.deliveries.take("readings", "shop", one, "d", "aa")
        files = content.of(ctx, one).generation
        with pytest.raises(LostComparison):
            sender.send(tried.attempt(2), files, lambda: False)
        with pytest.raises(RuntimeError):
            sender.send(tried.attempt(2), files, lambda: (_ for _ in ()).throw(RuntimeError("the ledger is gone")))
        assert sender.standing(T0).content.rows == 0
        assert sender.send(tried.attempt(2), files, lambda: True).content.rows == 2


def test_a_server_that_is_down(real: Real) -> None:
    real.hours(1)
    real.port = 1
    with pytest.raises(DeliveryRefused, match="did not answer") as caught:
        real.deliver()
    assert caught.value.retry


def test_a_password_that_is_rotated_in_the_middle_refuses_no_hour(tmp_path: Path, postgresql: Server) -> None:  # noqa: F811
    """Of the three hours one meets the end of its connection, the others the login that is refused. Once the connection
    has the new password, the next run sends them all."""
    real, role = Real(tmp_path, postgresql), f"r{uuid.uuid4().hex[:8]}"
    postgresql.run(f"CREATE ROLE {role} LOGIN PASSWORD 'old' SUPERUSER")
    try:
        real.real = replace(postgresql, connection=replace(postgresql.connection, login=role, password="old"))
        real.hours(3)
        with real.context() as ctx:
            one = real.pipeline.deliver[0]
            sender = ctx.sender(one)
            ready.prepare(ctx, one, sender)
            postgresql.run(f"ALTER ROLE {role} PASSWORD 'new'")
            postgresql.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'")
            found = list(deliver.deliver(ctx, one, sender))
        assert [sent.what for sent in found] == ["failed"] * 3
        assert "password authentication failed" in found[-1].why
        real.real = replace(real.real, connection=replace(real.real.connection, password="new"))
        assert real.deliver() == ["delivered"] * 3
    finally:
        real.close()
        postgresql.run(f"REASSIGN OWNED BY {role} TO CURRENT_USER", f"DROP ROLE {role}")


def test_a_process_without_its_libraries_is_told(real: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    sender = real.process()
    sender._child._python = "/bin/false"
    with pytest.raises(DeliveryUnsure, match="exit code 1"):
        sender.prepare()
