"""What an object store's answers mean, on a real one behind a proxy that loses and repeats requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from fakes.proxy import Fate, LossyProxy

from dev.stack.info import StackInfo
from dev.stack.objects import READ_ONLY
from tests.contract.storage_places import SERVERS, access_to
from tidegate.core.base.errors import OutcomeUnknown, PathExists, PathMissing, StorageError
from tidegate.storage.objects import ObjectStorage
from tidegate.storage.objects_errors import said

LARGE = b"x" * 20_000_000
PUT, POST = b"PUT /tidegate/", b"POST /tidegate"


@pytest.fixture(params=SERVERS)
def bucket(request: pytest.FixtureRequest) -> StackInfo:
    """A bucket, whatever serves it."""
    found: StackInfo = request.getfixturevalue(SERVERS[request.param])
    return found


@pytest.fixture
def root(bucket: StackInfo) -> str:
    return f"{bucket.objects_uri}/{uuid.uuid4().hex}"


@pytest.fixture
def straight(bucket: StackInfo) -> ObjectStorage:
    """To the store itself."""
    return ObjectStorage(access_to(bucket))


@pytest.fixture
def proxy(bucket: StackInfo) -> Iterator[LossyProxy]:
    port = urlsplit(bucket.objects_endpoint).port
    assert port is not None
    with LossyProxy("127.0.0.1", port, b"no request has this", Fate.HANG, once=True) as made:
        yield made


@pytest.fixture
def storage(bucket: StackInfo, proxy: LossyProxy) -> ObjectStorage:
    """Through the proxy."""
    return ObjectStorage(access_to(bucket, f"http://127.0.0.1:{proxy.port}"))


class TestPutIfAbsent:
    def test_an_answer_that_was_lost_is_found_by_a_look(self, storage, straight, proxy, root) -> None:
        proxy.lose_next(PUT, Fate.LOSE_REPLY)
        storage.write_new(f"{root}/f", b"ours")
        assert proxy.matched == 1, "the write is never sent again"
        assert straight.read(f"{root}/f") == b"ours"

    def test_a_request_that_was_lost_is_unknown(self, storage, straight, proxy, root) -> None:
        proxy.lose_next(PUT, Fate.LOSE_REQUEST)
        with pytest.raises(OutcomeUnknown):
            storage.write_new(f"{root}/f", b"ours")
        assert proxy.matched == 1
        assert not straight.exists(f"{root}/f")

    def test_a_request_that_came_twice_is_not_taken_for_another_one(self, storage, straight, proxy, root) -> None:
        """The second one is refused because of the first."""
        proxy.lose_next(PUT, Fate.REPEAT)
        storage.write_new(f"{root}/f", b"ours")
        assert straight.read(f"{root}/f") == b"ours"

    def test_an_answer_that_was_lost_is_not_taken_for_ours(self, storage, straight, proxy, root) -> None:
        """Equal content makes no difference: another one wrote."""
        straight.write_new(f"{root}/f", b"content")
        proxy.lose_next(PUT, Fate.LOSE_REPLY)
        with pytest.raises(PathExists):
            storage.write_new(f"{root}/f", b"content")

    def test_a_look_that_fails_too_leaves_it_unknown(self, bucket, storage, straight, proxy, root) -> None:
        with LossyProxy("127.0.0.1", urlsplit(bucket.objects_endpoint).port, b"/tidegate/", Fate.LOSE_REPLY) as other:
            away = ObjectStorage(access_to(bucket, f"http://127.0.0.1:{other.port}"))
            with pytest.raises(OutcomeUnknown):
                away.write_new(f"{root}/f", b"ours")
        assert straight.read(f"{root}/f") == b"ours"

    def test_a_store_that_cannot_be_reached_has_not_written(self, bucket, root) -> None:
        away = ObjectStorage(access_to(bucket, "http://127.0.0.1:9"))
        with pytest.raises(StorageError, match="no answer") as refused:
            away.write_new(f"{root}/f", b"")
        assert not isinstance(refused.value, OutcomeUnknown)
        assert refused.value.retry

    def test_an_answer_that_never_comes(self, bucket, straight, proxy, root) -> None:
        storage = ObjectStorage(access_to(bucket, f"http://127.0.0.1:{proxy.port}"), limit_s=1)
        proxy.lose_next(PUT, Fate.HANG)
        with pytest.raises(OutcomeUnknown):
            storage.write_new(f"{root}/f", b"ours")
        assert not straight.exists(f"{root}/f")

    def test_of_many_writers_one_is_told_that_it_wrote(self, straight, root) -> None:
        for turn in range(3):
            told, barrier = [], threading.Barrier(4)

            def write(n: int, turn: int = turn, told: list = told, barrier: threading.Barrier = barrier) -> None:
                barrier.wait()
                try:
                    straight.write_new(f"{root}/{turn}", b"equal content")
                    told.append(n)
                except PathExists:
                    pass

            threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(told) == 1


class TestLooks:
    @pytest.mark.parametrize("fate", [Fate.LOSE_REQUEST, Fate.LOSE_REPLY])
    def test_are_repeated(self, storage, straight, proxy, root, fate) -> None:
        straight.write_new(f"{root}/f", b"content")
        proxy.lose_next(b"GET /tidegate", fate)
        assert storage.read(f"{root}/f") == b"content"
        proxy.lose_next(b"GET /tidegate", fate)
        assert [file.path for file in storage.list_files(root)] == ["f"]
        proxy.lose_next(b"HEAD /tidegate", fate)
        assert storage.exists(f"{root}/f")

    def test_what_cannot_be_asked_is_not_absent(self, bucket, root) -> None:
        away = ObjectStorage(access_to(bucket, "http://127.0.0.1:9"))
        for ask in (away.exists, away.list_files, away.list_names, away.read, away.open_existing, away.open_new):
            with pytest.raises(StorageError) as refused:
                ask(f"{root}/f")
            assert not isinstance(refused.value, PathMissing)


class TestUploads:
    @pytest.mark.parametrize("fate", [Fate.LOSE_REQUEST, Fate.LOSE_REPLY])
    def test_a_part_that_was_lost_is_sent_again(self, storage, straight, proxy, root, fate) -> None:
        with storage.open_new(f"{root}/f") as file:
            proxy.lose_next(PUT, fate)
            file.write(LARGE)
        assert straight.read(f"{root}/f") == LARGE

    def test_credentials_that_expire_between_two_parts_leave_nothing(self, storage, straight, proxy, root) -> None:
        def write() -> None:
            with storage.open_new(f"{root}/f") as file:
                file.write(LARGE)
                proxy.expire(PUT, 1)
                file.write(LARGE + LARGE)

        with pytest.raises(StorageError, match="ExpiredToken") as refused:
            write()
        assert not refused.value.retry
        assert "renew" in refused.value.advice
        proxy.renew()
        assert not straight.exists(f"{root}/f")
        with storage.open_new(f"{root}/f") as file:
            file.write(b"again")
        assert straight.read(f"{root}/f") == b"again"

    def test_an_end_whose_answer_was_lost_is_found_by_a_look(self, storage, straight, proxy, root) -> None:
        file = storage.open_new(f"{root}/f")
        file.write(LARGE)
        proxy.lose_next(b"uploadId", Fate.LOSE_REPLY)
        file.close()
        assert straight.read(f"{root}/f") == LARGE


class TestDelete:
    def test_an_answer_that_was_lost_is_unknown_and_again_is_well(self, storage, straight, proxy, root) -> None:
        straight.write_new(f"{root}/d/f", b"")
        proxy.lose_next(POST, Fate.LOSE_REPLY)
        with pytest.raises(OutcomeUnknown):
            storage.delete(f"{root}/d")
        storage.delete(f"{root}/d")
        assert not straight.exists(f"{root}/d")

    def test_never_a_whole_bucket(self, bucket, straight) -> None:
        for path in (bucket.objects_uri, f"{bucket.objects_uri}/"):
            with pytest.raises(StorageError):
                straight.delete(path)


class TestRefusals:
    def test_a_bucket_that_is_missing_is_no_empty_directory(self, straight) -> None:
        for ask in (
            straight.list_files, straight.list_names, straight.exists, straight.read, straight.open_existing,
            straight.delete, lambda path: straight.write_new(path, b""),
        ):  # fmt: skip
            with pytest.raises(StorageError, match="NoSuchBucket") as refused:
                ask("s3://nobody-made-this/d/f")
            assert not isinstance(refused.value, PathMissing)
            assert "create the bucket" in refused.value.advice

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({"access_key_id": "unknown"}, "InvalidAccessKeyId"),
            ({"secret_access_key": "wrong"}, "SignatureDoesNotMatch"),
            ({"access_key_id": READ_ONLY}, "AccessDenied"),
        ],
    )
    def test_credentials(self, objects, change, code) -> None:
        storage = ObjectStorage(access_to(objects) | change)
        with pytest.raises(StorageError, match=code) as refused:
            storage.write_new(f"{objects.objects_uri}/{uuid.uuid4().hex}/f", b"")
        assert not refused.value.retry
        assert refused.value.advice
        assert objects.objects_secret not in str(refused.value)

    def test_after_a_fork_it_says_so_instead_of_waiting_for_ever(self, objects) -> None:
        code = """
import json, os, sys
from tidegate.storage.objects import ObjectStorage
storage = ObjectStorage(json.loads(os.environ["ACCESS"]))
storage.exists(sys.argv[1])
if os.fork() == 0:
    try:
        storage.exists(sys.argv[1])
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    os._exit(0)
os.wait()
"""
        env = os.environ | {"ACCESS": json.dumps(access_to(objects))}
        command = [sys.executable, "-c", code, f"{objects.objects_uri}/f"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        assert "forked" in done.stdout, done.stderr


def _answer(status: int, code: str) -> Exception:
    return Exception(f"... status code: {status} X: <?xml?><Error><Code>{code}</Code><Message>why</Message></Error>")


@pytest.mark.parametrize(
    ("error", "unknown", "retry", "advice"),
    [
        (_answer(503, "SlowDown"), False, True, "fewer"),
        (_answer(500, "InternalError"), True, True, ""),
        (_answer(502, ""), True, True, ""),
        (_answer(400, "ExpiredToken"), False, False, "renew"),
        (_answer(403, "RequestTimeTooSkewed"), False, False, "clock"),
        (_answer(301, "PermanentRedirect"), False, False, "region"),
        (_answer(400, "RequestTimeout"), False, True, ""),
        (_answer(403, ""), False, False, "docs/object-stores.md"),
        (_answer(400, ""), False, False, "have expired"),  # all that a HEAD says
        (Exception("Generic S3 error: ... - HTTP error: request or response body error"), True, True, ""),
        (Exception("error sending request\n\nDebug source:\nGeneric { kind: Connect }"), False, True, "endpoint"),
        (
            Exception("Error performing PUT http://169.254.169.254/latest/api/token in 1ms - HTTP error"),
            False, False, "object_store_conn_id",
        ),
    ],
)  # fmt: skip
def test_what_an_answer_means(error, unknown, retry, advice) -> None:
    found = said(error)
    assert found.unknown == unknown
    change = found.of_a_change("s3://b/k")
    assert isinstance(change, OutcomeUnknown) == unknown
    assert change.retry == retry
    assert advice in change.advice
