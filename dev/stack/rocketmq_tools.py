"""What a trial and the tests ask a RocketMQ cluster beside reading: topics, messages, expiry.

A client of its own and not the source's: what it sends and what is read back check each other."""

from __future__ import annotations

import itertools
import json
import re
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any

from dev.stack.errors import StackError

SEND, TOPIC, CONFIG, DELETE_EXPIRED, BROKERS, DELETE_AT_BROKER, DELETE_AT_NAMES = 310, 17, 25, 329, 106, 215, 216
ROUTE = 105
_OK = (0, 10, 11, 12)  # what is taken, also where flushing or a slave is late
_numbers = itertools.count(1)


class RocketMQ:
    """One name server and the brokers that it knows. Each call returns when they have done it; raises StackError."""

    def __init__(self, namesrv: str, patience_s: float = 60.0) -> None:
        self.namesrv, self._patience_s = namesrv, patience_s
        self._connections: dict[str, socket.socket] = {}

    def brokers(self) -> dict[str, str]:
        """Addresses of the masters, by name."""
        told = self.ask(self.namesrv, BROKERS)[1]
        found = json.loads(re.sub(rb"([{,])(\d+):", rb'\1"\2":', told))  # its JSON has numbers for names
        return {name: b["brokerAddrs"]["0"] for name, b in found["brokerAddrTable"].items() if "0" in b["brokerAddrs"]}

    def create(self, topic: str, queues: int = 1, broker: str = "broker-a") -> None:
        """Also with other queues; returns when the name server tells it."""
        address = self.brokers()[broker]
        fields = {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues, "perm": 6,
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
        }  # fmt: skip
        self.ask(address, TOPIC, fields)
        self._until(lambda: self.queues(topic).get(broker) == queues, f"topic {topic} has {queues} queues")

    def delete(self, topic: str) -> None:
        for address in self.brokers().values():
            self.ask(address, DELETE_AT_BROKER, {"topic": topic})
        self.ask(self.namesrv, DELETE_AT_NAMES, {"topic": topic})
        self._until(lambda: not self.queues(topic), f"topic {topic} is gone")

    def send(
        self,
        topic: str,
        body: bytes,
        queue: int = 0,
        *,
        broker: str = "broker-a",
        key: str | None = "k",
        properties: Mapping[str, str] | None = None,
        born_ms: int | None = None,
        flags: int = 0,
    ) -> int:
        """The message's offset. `flags`: sysFlag, of a body that is compressed already, for example."""
        told = {**({} if key is None else {"KEYS": key}), **(properties or {})}
        fields = {
            "a": "tidegate-trial", "b": topic, "c": "TBW102", "d": 4, "e": queue, "f": flags,
            "g": time.time_ns() // 1_000_000 if born_ms is None else born_ms, "h": 0,
            "i": "\x02".join(f"{name}\x01{value}" for name, value in told.items()), "j": 0, "k": "false", "m": "false",
        }  # fmt: skip
        header, _ = self.ask(self._address(broker), SEND, fields, body)
        return int(header["extFields"]["queueOffset"])

    def configure(self, broker: str = "broker-a", **settings: object) -> None:
        body = "".join(f"{name}={value}\n" for name, value in settings.items()).encode()
        self.ask(self._address(broker), CONFIG, body=body)

    def delete_expired(self, broker: str = "broker-a") -> None:
        """At the broker's next round, at whatever hour of the day."""
        self.ask(self._address(broker), DELETE_EXPIRED)

    def ask(
        self, address: str, code: int, fields: Mapping[str, Any] | None = None, body: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        """Header and body of the answer. A connection that was closed meanwhile is opened again."""
        asked = {
            "code": code, "language": "PYTHON", "version": 401, "opaque": next(_numbers), "flag": 0,
            "extFields": {name: str(value) for name, value in (fields or {}).items()},
            "serializeTypeCurrentRPC": "JSON",
        }  # fmt: skip
        header = json.dumps(asked).encode()
        frame = struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body
        try:
            answer, told = self._exchange(address, frame)
        except OSError:
            self._connections.pop(address, None)
            try:
                answer, told = self._exchange(address, frame)
            except OSError as e:
                raise StackError(f"RocketMQ at {address} has no answer: {e}") from e
        if answer["code"] not in _OK:
            raise StackError(f"RocketMQ at {address} refused ({answer['code']}): {answer.get('remark')}")
        return answer, told

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _exchange(self, address: str, frame: bytes) -> tuple[dict[str, Any], bytes]:
        connection = self._connections.get(address)
        if connection is None:
            host, _, port = address.rpartition(":")
            connection = self._connections[address] = socket.create_connection((host, int(port)), self._patience_s)
        connection.sendall(frame)
        with connection.makefile("rb") as answers:
            size, length = struct.unpack(">ii", answers.read(8) or b"\0" * 8)
            if not size:
                raise ConnectionError("closed")
            return json.loads(answers.read(length & 0xFFFFFF)), answers.read(size - 4 - (length & 0xFFFFFF))

    def _address(self, broker: str) -> str:
        found = self.brokers()
        if broker not in found:
            raise StackError(f"there is no broker {broker}; there are: {', '.join(found)}")
        return found[broker]

    def queues(self, topic: str) -> dict[str, int]:
        """How many of them each broker has; empty for a topic that is missing."""
        try:
            route = json.loads(self.ask(self.namesrv, ROUTE, {"topic": topic, "acceptStandardJsonOnly": "true"})[1])
        except StackError:
            return {}
        return {q["brokerName"]: q["readQueueNums"] for q in route["queueDatas"]}

    def _until(self, so: Any, what: str) -> None:
        deadline = time.monotonic() + self._patience_s
        while not so():
            if time.monotonic() > deadline:
                raise StackError(f"RocketMQ at {self.namesrv} did not come to it within {self._patience_s:g} s: {what}")
            time.sleep(0.02)
