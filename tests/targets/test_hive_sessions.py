"""Sessions that a task keeps for its next call."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tidegate.targets.hive import sessions as hive_sessions
from tidegate.targets.hive.sessions import IDLE_S, Sessions


class FakeLink:
    def __init__(self) -> None:
        self.broken = False
        self.fails = False

    def done(self) -> None:
        if self.fails:
            raise OSError("gone")


class FakeEndpoint:
    def __init__(self) -> None:
        self.opened: list[FakeLink] = []
        self.closed: list[FakeLink] = []

    @contextlib.contextmanager
    def link(self, database: str, settings: Mapping[str, str] | None) -> Iterator[FakeLink]:
        link = FakeLink()
        self.opened.append(link)
        try:
            yield link
        finally:
            self.closed.append(link)


@pytest.fixture
def endpoint() -> FakeEndpoint:
    return FakeEndpoint()


@pytest.fixture
def sessions(endpoint: FakeEndpoint) -> Any:
    return Sessions(endpoint)  # type: ignore[arg-type]


def use(sessions: Sessions, **settings: str) -> Any:
    with sessions.link(settings=settings) as link:
        return link


def test_each_call_has_its_own_unless_they_are_kept(sessions: Sessions, endpoint: FakeEndpoint) -> None:
    assert use(sessions) is not use(sessions)
    assert endpoint.closed == endpoint.opened
    with sessions.keeping():
        with sessions.keeping():
            first = use(sessions)
        assert use(sessions) is first
        assert use(sessions, a="1") is not first
        assert first not in endpoint.closed
    assert set(endpoint.closed) == set(endpoint.opened)
    assert use(sessions) is not first


def test_one_that_has_met_an_error_is_closed(sessions: Sessions, endpoint: FakeEndpoint) -> None:
    with sessions.keeping():
        first = use(sessions)
        with pytest.raises(ValueError), sessions.link():
            raise ValueError
        assert endpoint.closed == [first]
        assert use(sessions) is not first


def test_one_that_does_not_forget_its_statements_is_closed(sessions: Sessions, endpoint: FakeEndpoint) -> None:
    with sessions.keeping():
        with sessions.link() as first:
            first.fails = True  # type: ignore[attr-defined]
        assert first.broken
        assert endpoint.closed == [first]


def test_one_that_has_waited_long_is_not_used_again(
    sessions: Sessions, endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(hive_sessions.time, "monotonic", lambda: now[0])
    with sessions.keeping():
        first = use(sessions)
        now[0] += IDLE_S
        assert use(sessions) is first
        now[0] += IDLE_S + 1
        assert use(sessions) is not first
        assert endpoint.closed == [first]


def test_a_session_is_one_calls_at_a_time(sessions: Sessions, endpoint: FakeEndpoint) -> None:
    with sessions.keeping():
        with sessions.link() as outer, sessions.link() as inner:
            assert inner is not outer
        assert len(endpoint.closed) == 1
    assert len(endpoint.closed) == 2


def test_a_call_that_outlives_the_keeping_closes_its_own(sessions: Sessions, endpoint: FakeEndpoint) -> None:
    late = contextlib.ExitStack()
    with sessions.keeping():
        late.enter_context(sessions.link())
    assert endpoint.closed == []
    late.close()
    assert endpoint.closed == endpoint.opened
