"""RocketMQ as the control plane sees it: routes, offsets and retention. It never reads a message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import SourceError, SourceUnavailable
from tidegate.core.source.port import ForWorkers, Lane, LogState, Unmarked
from tidegate.core.spec import pipeline
from tidegate.sources.rocketmq import TRAITS, remoting

QUEUES = 1000  # lanes of one broker: queue 3 of the second one is lane 1003
_READABLE, _HOUR_MS, _KEPT = 4, 3_600_000, "fileReservedTime="


Queue = tuple[str, int]  # a broker's address, and the queue's number there


class RocketMQSource(Unmarked):
    """Implements `core.source.port.Source`. Several threads may ask at once; a request is given up after `timeout_s`.

    `settings`: `namesrv` and `brokers`, with commas."""

    traits = TRAITS

    def __init__(self, settings: Mapping[str, str], timeout_s: float = 10.0) -> None:
        self._settings, self._timeout_s, self.client = dict(settings), timeout_s, remoting.Client()

    def look(self, topic: str) -> LogState:
        queues = self.queues(topic)
        starts = self._offsets(queues, remoting.MIN_OFFSET, topic)  # first: none is above its end then
        ends = self._offsets(queues, remoting.MAX_OFFSET, topic)
        kept = self._retention_ms({address for address, _ in queues.values()})
        lanes = {lane: Lane(max(0, starts[lane]), ends[lane], ends[lane]) for lane in sorted(queues)}
        return LogState(topic=topic, topic_id=topic, partitions=lanes, retention_ms=kept, traits=TRAITS)

    def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        """By the time at which a broker stored a message, which is a record's timestamp too."""
        return self._offsets(self.queues(topic), remoting.AT_TIME, topic, timestamp=timestamp_ms, boundaryType="LOWER")

    def for_workers(self) -> ForWorkers:
        return ForWorkers(self._settings)

    def queues(self, topic: str) -> dict[int, Queue]:
        """By lane. Raises SourceError where a broker has no number, SourceUnavailable where one is away."""
        route, listed = self._route(topic), self._settings["brokers"].split(",")
        masters = {b["brokerName"]: b["brokerAddrs"].get("0") for b in route["brokerDatas"]}
        found = {q["brokerName"]: q["readQueueNums"] for q in route["queueDatas"] if q["perm"] & _READABLE}
        if new := sorted(found.keys() - {*listed}):
            advice = f"append it: brokers: [{', '.join([*listed, *new])}]; the order of the others stays"
            raise SourceError(
                f"topic {topic} is on {', '.join(new)} too; source.brokers has no such name", advice=advice
            )
        if away := [name for name in listed if not masters.get(name) or name not in found]:
            raise SourceUnavailable(f"topic {topic}: the name servers know no master of {', '.join(away)}")
        if route.get("topicQueueMappingByBroker") or max(found.values()) > QUEUES:
            raise SourceError(
                f"topic {topic} is static, or has more than {QUEUES} queues on a broker: it can't be read"
            )
        return {i * QUEUES + n: (masters[name], n) for i, name in enumerate(listed) for n in range(found[name])}

    def _route(self, topic: str) -> dict[str, Any]:
        """Of the first name server that answers."""
        silent = SourceUnavailable("the RocketMQ connection names no name server")
        for address in self._settings["namesrv"].split(";"):
            try:
                answer = self.client.ask(
                    address, remoting.ROUTE, self._timeout_s, topic=topic, acceptStandardJsonOnly="true"
                )
                return dict(json.loads(answer[1]))
            except SourceUnavailable as e:
                silent = e
            except remoting.Denied as e:
                advice = "create the topic, or fix source.topic (or the connection)"
                raise SourceError(f"no route of topic {topic}: {e.args[0]}", advice=advice) from None
        raise silent

    def _offsets(self, queues: dict[int, Queue], code: int, topic: str, **more: Any) -> dict[int, int]:
        told = {}
        for lane, (address, number) in queues.items():
            asked = {"topic": topic, "queueId": number, **more}
            told[lane] = int(self.client.ask(address, code, self._timeout_s, **asked)[0]["offset"])
        return told

    def _retention_ms(self, addresses: set[str]) -> int:
        """The shortest of these brokers; 0 if none says it: a forecast of losses errs towards too early."""
        texts = [self.client.ask(address, remoting.BROKER_CONFIG, self._timeout_s)[1].decode() for address in addresses]
        told = [line.removeprefix(_KEPT) for text in texts for line in text.splitlines() if line.startswith(_KEPT)]
        return min((int(hours) * _HOUR_MS for hours in told), default=0)


def opened(connection: Connection, source: pipeline.Source, client_id: str, timeout_s: float) -> RocketMQSource:
    """Raises SourceError."""
    names = connection.extra.get("namesrv") or (connection.host and f"{connection.host}:{connection.port or 9876}")
    if not names:
        advice = 'give it host and port, or an extra such as {"namesrv": "a:9876;b:9876"}'
        raise SourceError("the RocketMQ connection names no name server", advice=advice)
    if connection.login:
        raise SourceError("the RocketMQ connection has a login, and Tidegate signs no requests", advice="leave it out")
    return RocketMQSource({"namesrv": str(names), **dict(source.options)}, timeout_s)
