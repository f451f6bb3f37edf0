"""What HDFS's answers mean, and who asks; without a server."""

from __future__ import annotations

import os
import re
import threading

import pytest

from tidegate.core.base.errors import OutcomeUnknown, PathExists, PathMissing, StorageError
from tidegate.storage import HdfsStorage, for_uri
from tidegate.storage.hdfs import split
from tidegate.storage.hdfs_clients import Users
from tidegate.storage.hdfs_errors import of_a_change, translated

PIPELINE = """version: 1
name: p
owner: tests
source:
  topic: p
columns:
  - {name: at, type: bigint}
event_time: {from: $.at, format: epoch_ms}
windows: {size: 1h, timezone: UTC, start: 2013-01-01T00:00:00Z, watermark_delay: 6h}
partition_by: [date, hour]
sink:
  table: lake.p
  location: hdfs://ns/lake/p
  user: eve
"""
STACK = "\\n\\tat org.apache.hadoop.hdfs.server.namenode.FSDirectory.resolvePath(FSDirectory.java:747)"


def said(kind: str, words: str) -> RuntimeError:
    return RuntimeError(f'RPCError("{kind}", "{words}{STACK}")')


DENIED = said(
    "org.apache.hadoop.security.AccessControlException",
    'Permission denied: user=eve, access=WRITE, inode=\\"/x\\":root:root:drwxr-xr-x',
)
NO_PARENT = said("org.apache.hadoop.fs.ParentNotDirectoryException", "/x/f (is not a directory)")
THROUGH_A_FILE = said("org.apache.hadoop.security.AccessControlException", "/x/f (is not a directory)")
SAFE = said("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Cannot create directory /x.")
QUOTA = said("org.apache.hadoop.hdfs.protocol.NSQuotaExceededException", "The NameSpace quota of directory /x is full")
LONG = said("org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException", "name limit of aa")
LOST = OSError("RPC listener disconnected")


@pytest.mark.parametrize(
    ("uri", "parts"),
    [
        ("hdfs://nn:8020/a/b", ("nn:8020", "/a/b")),
        ("hdfs://ns//a/%2F/", ("ns", "/a/%2F")),
        ("hdfs://ns/", ("ns", "/")),
    ],
)
def test_uris(uri, parts):
    assert split(uri) == parts


@pytest.mark.parametrize("uri", ["hdfs:///a", "hdfs:/a", "/a", "hdfs://nn", "hdfs://nn/a/../b", "hdfs://eve@nn/a"])
def test_what_is_not_an_hdfs_uri_is_refused(uri):
    with pytest.raises(StorageError, match="not an HDFS URI") as refused:
        HdfsStorage().exists(uri)
    assert not refused.value.retry


def test_a_storage_is_chosen_without_a_connection():
    assert isinstance(for_uri("hdfs://no-such-host:1/a"), HdfsStorage)


@pytest.mark.parametrize(
    ("error", "kind", "words", "retry"),
    [
        (DENIED, StorageError, 'user=eve, access=WRITE, inode="/x".*sink.user', True),
        (NO_PARENT, PathMissing, "is not a directory", True),
        (THROUGH_A_FILE, PathMissing, "is not a directory", True),
        (SAFE, StorageError, "SafeModeException.*safe mode", True),
        (QUOTA, StorageError, "NSQuotaExceededException.*setQuota", True),
        (LONG, StorageError, "PathComponentTooLongException", False),
        (FileNotFoundError("/x/a"), PathMissing, "is not there", True),
        (FileExistsError("/x/a"), PathExists, "already there", True),
        (OSError("Connection refused (os error 111)"), StorageError, "refused", True),
        (OSError("failed to lookup address information: Name not known"), StorageError, "lookup", True),
        (RuntimeError('InvalidArgument("No NameNode hosts found")'), StorageError, "HADOOP_CONF_DIR", False),
    ],
)
def test_definite_answers(error, kind, words, retry):
    for found in (translated(error, "/x/a"), of_a_change(error, "/x/a")):
        assert type(found) is kind
        assert found.retry is retry
        assert "FSDirectory.java" not in str(found)
        assert re.search(words, str(found).replace("\n", " "))


@pytest.mark.parametrize("error", [LOST, OSError("broken pipe"), RuntimeError("OperationFailed"), TimeoutError()])
def test_any_other_failure_of_a_change_is_unknown(error):
    assert type(of_a_change(error, "/x")) is OutcomeUnknown
    assert type(translated(error, "/x")) is StorageError


class TestWhoAsks:
    def test_the_environment_says_it_while_calls_run(self, monkeypatch):
        monkeypatch.setenv("HADOOP_USER_NAME", "own")
        users = Users()
        with users.acting("eve", 1), users.acting("eve", 1):
            assert os.environ["HADOOP_USER_NAME"] == "eve"
        with users.acting(None, 1):
            assert os.environ["HADOOP_USER_NAME"] == "own"

    def test_calls_of_another_user_wait(self, monkeypatch):
        monkeypatch.setenv("HADOOP_USER_NAME", "own")
        users, seen, inside = Users(), [], threading.Event()

        def as_bob() -> None:
            inside.set()
            with users.acting("bob", 30):
                seen.append(os.environ["HADOOP_USER_NAME"])

        with users.acting("eve", 1):
            other = threading.Thread(target=as_bob)
            other.start()
            assert inside.wait(30)
            assert seen == []
            assert os.environ["HADOOP_USER_NAME"] == "eve"
        other.join()
        assert seen == ["bob"]

    def test_not_for_ever(self, monkeypatch):
        monkeypatch.setenv("HADOOP_USER_NAME", "own")
        users = Users()
        with users.acting("eve", 1), pytest.raises(StorageError, match="as bob: calls as eve"), users.acting("bob", 0):
            pass


def test_jobs_are_told_who_asks(tmp_path):
    from tidegate.spark.launcher import application_arguments
    from tidegate.spec import load_file

    path = tmp_path / "p.yaml"
    path.write_text(PIPELINE)
    sink = load_file(path, {}).sink
    assert (sink.user, sink.location) == ("eve", "hdfs://ns/lake/p")
    assert application_arguments("hdfs://ns/plan.json", sink.user) == ["hdfs://ns/plan.json", "eve"]
    assert application_arguments("hdfs://ns/plan.json", None) == ["hdfs://ns/plan.json"]


@pytest.mark.parametrize(("line", "said"), [("user: eve m", "name of a user"), ("location: hdfs:///p", "nameservice")])
def test_specs_that_hdfs_would_refuse(tmp_path, line, said):
    from tidegate.core.base.errors import SpecError
    from tidegate.spec import load_file

    key = line.partition(":")[0]
    kept = [each for each in PIPELINE.splitlines() if not each.strip().startswith(key)]
    path = tmp_path / "p.yaml"
    path.write_text("\n".join([*kept, f"  {line}"]) + "\n")
    with pytest.raises(SpecError, match=said):
        load_file(path, {})
