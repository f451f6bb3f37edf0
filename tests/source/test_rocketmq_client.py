"""RocketMQ's messages and its remoting protocol, on bytes and servers of our own: what a real broker does not do."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.engine.failures import JobError
from tests.source_suite import plan_for
from tidegate.core.base.errors import SourceError, SourceUnavailable
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.source.trouble import Trouble, What
from tidegate.core.spec.pipeline import Source
from tidegate.kinds import source_kind
from tidegate.sources.rocketmq import worker
from tidegate.sources.rocketmq.control import RocketMQSource, opened
from tidegate.sources.rocketmq.messages import Damaged, message_at
from tidegate.sources.rocketmq.worker import RocketMQReader
from tidegate.spec.by_kind import own_options
from tidegate.spec.source import SOURCE, SourceSection

HEAD = 88  # bytes before the body, with addresses of IPv4
ZLIB, LZ4, ZSTD = 0x301, 0x101, 0x201


def frame(
    offset: int,
    body: bytes = b"v",
    properties: bytes = b"KEYS\x01k\x02",
    flags: int = 0,
    magic: int = -626843481,
    stored_ms: int = 7,
) -> bytes:
    """A message as a broker sends it."""
    crc = zlib.crc32(body) & 0x7FFFFFFF
    born, stored = ((b"\1" * (20 if flags & bit else 8)) for bit in (16, 32))
    topic = b"orders"
    length = struct.pack(">b" if magic == -626843481 else ">h", len(topic))
    rest = (
        struct.pack(">iiiiqqiq", magic, crc, 0, 0, offset, 99, flags, 5) + born + struct.pack(">q", stored_ms) + stored
        + struct.pack(">iqi", 0, 0, len(body)) + body + length + topic + struct.pack(">H", len(properties)) + properties
    )  # fmt: skip
    return struct.pack(">i", 4 + len(rest)) + rest


# ---------------------------------------------------------------- messages


@pytest.mark.parametrize("magic", [-626843481, -626843477])
@pytest.mark.parametrize("flags", [0, 16, 32, 48])
def test_a_message(magic: int, flags: int) -> None:
    frames = frame(3, b"", flags=flags, magic=magic) + frame(4, "größe".encode(), b"", flags, magic)
    first, at = message_at(frames, 0)
    second, end = message_at(frames, at)
    assert end == len(frames)
    assert (first.offset, first.stored_ms, first.born_ms, first.key, first.body) == (3, 7, 5, b"k", b"")
    assert (second.offset, second.key, second.body) == (4, None, "größe".encode())
    assert second.headers() == [("BORN_TIMESTAMP", b"5")]


def test_properties_are_headers_in_their_order() -> None:
    properties = "TAGS\x01rot\x02größe\x01ü日\x01more\x02empty\x01\x02no value\x02KEYS\x01a b".encode()
    message, _ = message_at(frame(0, properties=properties), 0)
    wanted = [("TAGS", b"rot"), ("größe", "ü日\x01more".encode()), ("empty", b""), ("KEYS", b"a b")]
    assert message.headers() == [*wanted, ("BORN_TIMESTAMP", b"5")]
    assert message.key == b"a b"
    odd, _ = message_at(frame(0, properties=b"\xff\x01v\x02KEYS\x01k"), 0)
    assert (odd.headers(), odd.key) == ([(None, None)], b"k")


@pytest.mark.parametrize(
    ("flags", "packed"),
    [
        (ZLIB, zlib.compress),
        (0x1, zlib.compress),  # before 5.0
        (LZ4, lambda text: pa.Codec("lz4").compress(text, asbytes=True)),
        (ZSTD, lambda text: pa.Codec("zstd").compress(text, asbytes=True)),
    ],
)
def test_bodies_that_producers_have_compressed(flags: int, packed: Callable[[bytes], bytes]) -> None:
    text = b"tide and gate " * 5000
    assert message_at(frame(0, packed(text), flags=flags), 0)[0].body == text
    assert message_at(frame(0, packed(b""), flags=flags), 0)[0].body == b""
    with pytest.raises(Damaged, match="decompressed"):
        message_at(frame(0, b"not this", flags=flags), 0)


@pytest.mark.parametrize(("flags", "why"), [(0x501, r"unknown way \(5\)"), (0x80, "several messages lie in one")])
def test_what_is_not_understood_is_said(flags: int, why: str) -> None:
    with pytest.raises(Damaged, match=why):
        message_at(frame(0, flags=flags), 0)


def test_every_damaged_byte_of_a_message_is_noticed_or_harms_no_record() -> None:
    """What no checksum covers is in no column, but for offset and times; a reader compares each offset."""
    whole = frame(3, b"some text", b"KEYS\x01k\x02")
    good = message_at(whole, 0)[0]
    unseen = 0
    for at in range(len(whole)):
        bad = bytearray(whole)
        bad[at] ^= 0x55
        try:
            found, end = message_at(bytes(bad), 0)
        except Damaged:
            continue
        assert end == len(whole)
        assert found.body == good.body
        unseen += 1
    assert unseen < HEAD
    for size in range(len(whole)):
        with pytest.raises(Damaged):
            message_at(whole[:size], 0)


# ---------------------------------------------------------------- servers


class Server:
    """Answers each request by `answer(code, fields)`: (code, extFields, body), bytes to send as they are, or None to
    close the connection."""

    def __init__(self, answer: Callable[[int, dict[str, str]], Any]) -> None:
        self._answer, self.asked, self.connections = answer, list[tuple[int, dict[str, str]]](), 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as questions, contextlib.suppress(OSError):
            while head := questions.read(8):
                length, size = struct.unpack(">ii", head)
                header = json.loads(questions.read(size))
                questions.read(length - 4 - size)
                self.asked.append((header["code"], header["extFields"]))
                told = self._answer(header["code"], header["extFields"])
                if told is None:
                    return
                if isinstance(told, bytes):
                    connection.sendall(told)
                    continue
                code, fields, body = told
                stray = answered({"code": 40, "opaque": header["opaque"], "flag": 0}, b"the server asks its clients")
                answer = {"code": code, "opaque": header["opaque"], "flag": 1, "remark": f"said {code}\nmore"}
                connection.sendall(stray + answered(answer | {"extFields": fields}, body))


def answered(header: dict[str, Any], body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack(">ii", 4 + len(text) + len(body), len(text)) + text + body


@pytest.fixture
def serving() -> Iterator[Callable[..., Server]]:
    with contextlib.ExitStack() as stack:
        yield lambda answer: stack.enter_context(contextlib.closing(Server(answer)))


def route(*brokers: tuple[str, str | None, int], **more: Any) -> bytes:
    """(name, the master's address, queues)."""
    addresses = {name: {"0": address} if address else {"1": "127.0.0.1:1"} for name, address, _ in brokers}
    found = {
        "brokerDatas": [{"brokerName": name, "brokerAddrs": there} for name, there in addresses.items()],
        "queueDatas": [{"brokerName": name, "readQueueNums": n, "perm": 6} for name, _, n in brokers],
    }
    return json.dumps(found | more).encode()


def source_at(names: Server, brokers: str = "a", timeout_s: float = 5.0) -> RocketMQSource:
    return RocketMQSource({"namesrv": f"127.0.0.1:1;{names.address}", "brokers": brokers}, timeout_s)


def a_broker(**ends: int) -> Callable[[int, dict[str, str]], Any]:
    def answer(code: int, fields: dict[str, str]) -> Any:
        if code == 26:
            return 0, {}, b"brokerName=a\nfileReservedTime=48\n"
        return 0, {"offset": str(ends["end"] + int(fields["queueId"]) if code == 30 else 0)}, b""

    return answer


def test_a_lane_is_a_place_in_the_list_and_a_queue(serving: Callable[..., Server]) -> None:
    a, b = serving(a_broker(end=10)), serving(a_broker(end=20))
    names = serving(lambda code, fields: (0, {}, route(("b", b.address, 2), ("a", a.address, 2))))
    state = source_at(names, "a,b").look("orders")
    assert {lane: at.high_watermark for lane, at in state.partitions.items()} == {0: 10, 1: 11, 1000: 20, 1001: 21}
    assert (state.retention_ms, state.deletes) == (48 * 3_600_000, True)
    with pytest.raises(SourceError, match="orders is on b too") as refused:
        source_at(names, "a").look("orders")
    assert "brokers: [a, b]" in refused.value.advice
    assert not refused.value.retry


@pytest.mark.parametrize(
    ("brokers", "told"),
    [
        ("a,b", route(("a", "127.0.0.1:1", 2))),
        ("a", route(("a", None, 2))),
        ("a,b", route(("a", "127.0.0.1:1", 2), ("b", None, 2))),
        ("a", route()),
    ],
)
def test_a_broker_that_is_away_is_waited_for(serving: Callable[..., Server], brokers: str, told: bytes) -> None:
    """Its lanes are not gone, and no other broker's queues are taken for them."""
    names = serving(lambda code, fields: (0, {}, told))
    with pytest.raises(SourceUnavailable, match="know no master of"):
        source_at(names, brokers).look("orders")


def test_topics_that_cannot_be_read(serving: Callable[..., Server]) -> None:
    for told in (
        route(("a", "127.0.0.1:1", 1001)),
        route(("a", "127.0.0.1:1", 1), topicQueueMappingByBroker={"a": {}}),
    ):
        names = serving(lambda code, fields, told=told: (0, {}, told))
        with pytest.raises(SourceError, match="can't be read") as refused:
            source_at(names).look("orders")
        assert not refused.value.retry


def test_a_connection_that_was_closed_meanwhile_is_opened_again(serving: Callable[..., Server]) -> None:
    once = iter([(0, {}, b"1"), None, (0, {}, b"2"), None, None])
    server = serving(lambda code, fields: next(once))
    client = source_at(server).client
    assert client.ask(server.address, 105, 5)[1] == b"1"
    assert client.ask(server.address, 105, 5)[1] == b"2"
    assert server.connections == 2
    with pytest.raises(SourceUnavailable, match="no answer"):
        client.ask(server.address, 105, 5)
    client.close()


@pytest.mark.parametrize(
    "told",
    [b"\0\0\0\x04\0\0\0\x09", b"\x7f\0\0\0\0\0\0\x01", b"\0\0\0\x0a\0\0\0\x02[]", b"HTTP/1.1 400 Bad Request\r\n"],
)
def test_an_answer_that_is_none_ends_the_connection(serving: Callable[..., Server], told: bytes) -> None:
    server = serving(lambda code, fields: told)
    with pytest.raises(SourceUnavailable, match=server.address):
        source_at(server).client.ask(server.address, 105, 0.3)


def test_a_server_that_says_nothing_and_one_that_is_busy(serving: Callable[..., Server]) -> None:
    silent, busy = serving(lambda code, fields: b""), serving(lambda code, fields: (2, {}, b""))
    with pytest.raises(SourceUnavailable, match=r"no answer within 0\.2 s"):
        source_at(silent, timeout_s=0.2).look("orders")
    with pytest.raises(SourceUnavailable, match=r"can't answer now: \(code 2\) said 2\n  what"):
        source_at(busy).look("orders")


# ---------------------------------------------------------------- the worker


def pulls(
    serving: Callable[..., Server], log: list[bytes], low: int = 0, most: int = 3, answers: list[Any] | None = None
) -> tuple[RocketMQReader, Server]:
    """A reader of a broker that has these messages from `low` on; `answers` come first."""
    waiting = list(answers or [])

    def answer(code: int, fields: dict[str, str]) -> Any:
        if code != 11:
            return a_broker(end=low + len(log))(code, fields) if code != 31 else (0, {"offset": str(low)}, b"")
        if waiting:
            return waiting.pop(0)
        at = int(fields["queueOffset"]) - low
        found = log[at : at + min(most, int(fields["maxMsgNums"]))] if at >= 0 else []
        return (0, {}, b"".join(found)) if found else (21 if at < 0 or at > len(log) else 19, {}, b"")

    broker = serving(answer)
    names = serving(lambda code, fields: (0, {}, route(("a", broker.address, 1))))
    return RocketMQReader(plan_for("orders"), {"namesrv": names.address, "brokers": "a"}, 0.5), broker


def offsets(reader: RocketMQReader, start: int, end: int) -> list[int]:
    return [offset for chunk in reader.read(OffsetRange("orders", 0, start, end)) for offset in chunk.offsets]


def test_a_range_ends_where_it_was_planned(serving: Callable[..., Server]) -> None:
    reader, broker = pulls(serving, [frame(n) for n in range(10)])
    for start, end in ((0, 10), (3, 7), (9, 10), (4, 4)):
        assert offsets(reader, start, end) == list(range(start, end))
    pulled = [fields for code, fields in broker.asked if code == 11]
    assert {fields["sysFlag"] for fields in pulled} == {"4"}, "nothing is committed"
    generous, _ = pulls(serving, [], answers=[(0, {}, b"".join(frame(n) for n in range(10)))])
    assert offsets(generous, 0, 4) == [0, 1, 2, 3], "also where a broker gives more than was asked for"


def test_many_small_answers_are_few_chunks(serving: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> None:
    reader, _ = pulls(serving, [frame(n) for n in range(20)])
    assert [len(c) for c in reader.read(OffsetRange("orders", 0, 0, 20))] == [20]
    monkeypatch.setattr(worker, "CHUNK_RECORDS", 7)
    assert [len(c) for c in reader.read(OffsetRange("orders", 0, 0, 20))] == [9, 9, 2]
    monkeypatch.setattr(worker, "CHUNK_BYTES", 1)
    assert [len(c) for c in reader.read(OffsetRange("orders", 0, 0, 7))] == [3, 3, 1]


def test_no_answer_and_a_moved_master_are_waited_for(serving: Callable[..., Server]) -> None:
    """20: the broker is removing files just now; where it advises to go on is not listened to."""
    odd = [(20, {"nextBeginOffset": "9"}, b""), None, (19, {}, b""), (2, {}, b"")]
    reader, _ = pulls(serving, [frame(n) for n in range(4)], answers=odd)
    reader._stall_seconds = 20.0
    assert offsets(reader, 0, 4) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("low", "log", "start", "end", "why"),
    [
        (5, [frame(5)], 3, 6, r"data loss.*\[3, 6\).*now holds \[5, 6\)"),
        (0, [frame(0)], 0, 2, r"data loss.*now holds \[0, 1\)"),
        (0, [frame(0)], 4, 6, r"data loss.*now holds \[0, 1\)"),
        (0, [frame(0), frame(2), frame(2)], 0, 3, r"damaged \(the next one is at 2\)"),
        (0, [frame(1), frame(1)], 0, 2, r"damaged \(the next one is at 1\)"),
        (0, [frame(0), frame(0)], 0, 2, r"damaged \(the next one is at 0\)"),
        (0, [frame(0), frame(1)[:-1]], 0, 2, r"records at offset 1 are damaged"),
    ],
)
def test_a_range_that_is_not_whole_is_no_range(
    serving: Callable[..., Server], low: int, log: list[bytes], start: int, end: int, why: str
) -> None:
    reader, _ = pulls(serving, log, low)
    with pytest.raises(JobError, match=why) as refused:
        offsets(reader, start, end)
    assert refused.value.failure.partition == 0
    assert refused.value.failure.retry is not why.startswith("data loss")


def test_a_broker_that_gives_nothing_is_left_after_a_while(serving: Callable[..., Server]) -> None:
    reader, _ = pulls(serving, [frame(0), frame(1)], answers=[(20, {}, b"")] * 99)
    with pytest.raises(JobError, match=r"no progress in 0\.5 s.*code 20") as refused:
        offsets(reader, 0, 2)
    assert refused.value.failure.retry
    with pytest.raises(JobError, match="has no partition 7"):
        list(reader.read(OffsetRange("orders", 7, 0, 1)))


# ---------------------------------------------------------------- the connection, the words


def test_a_connection() -> None:
    def fields(**given: Any) -> Any:
        return SimpleNamespace(**({"host": None, "port": None, "login": None, "password": None, "extra": {}} | given))

    source = Source(conn_id="rocket", topic="orders", kind="rocketmq", options=(("brokers", "a,b"),))
    for given, names in (
        ({"host": "n1"}, "n1:9876"),
        ({"host": "n1", "port": 1}, "n1:1"),
        ({"host": "n1", "extra": {"namesrv": "n2:1;n3:1"}}, "n2:1;n3:1"),
    ):
        told = opened(fields(**given), source, "client", 1.0).for_workers()
        assert (told.settings, told.secrets) == ({"namesrv": names, "brokers": "a,b"}, {})
    for given, why in (({}, "names no name server"), ({"host": "n1", "login": "u"}, "has a login")):
        with pytest.raises(SourceError, match=why) as refused:
            opened(fields(**given), source, "client", 1.0)
        assert refused.value.advice


def test_its_own_tools_are_named() -> None:
    words = source_kind("rocketmq").remedy
    assert "fileReservedTime" in words(Trouble(What.EXPIRES, "orders"))
    assert "fileReservedTime" in words(Trouble(What.KEEPS_LITTLE, "orders"))


def test_the_section_of_a_pipeline() -> None:
    section = SOURCE.section_of("rocketmq")
    told = section.model_validate({"kind": "rocketmq", "topic": "orders", "brokers": ["a", "b"]})
    assert (told.conn_id, own_options(told, SourceSection, ("isolation", "gaps"))) == (
        "rocketmq_default",
        (("brokers", "a,b"),),
    )
    for wrong in (
        {},
        {"brokers": "a"},
        {"brokers": ["a"], "isolation": "read_committed"},
        {"brokers": ["a"], "gaps": "allow"},
    ):
        with pytest.raises(ValueError, match="brokers|isolation|gaps"):
            section.model_validate({"kind": "rocketmq", "topic": "orders"} | wrong)
