"""HDFS when it fails: lost requests and replies, a NameNode that hangs or is away, quotas, safe mode, users, pairs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes.proxy import Fate, LossyProxy

from dev.stack import keeper
from dev.stack.hdfs import java_command, site_xml
from dev.stack.info import StackInfo
from dev.stack.places import Places
from dev.stack.processes import Identity
from dev.stack.state import State
from tidegate.core.base.errors import OutcomeUnknown, PathExists, PathMissing, StorageError
from tidegate.storage import HdfsStorage
from tidegate.storage.hdfs import split
from tidegate.storage.hdfs_clients import CLIENTS

SHORT_S, PATIENCE_S = 0.5, 120.0
"""Limits: for what never answers, and for what does, on a busy machine."""
DEAD = 1
"""A port at which nobody listens."""


@pytest.fixture
def root(hdfs: StackInfo) -> Iterator[str]:
    """URI of an empty directory."""
    uri = f"{hdfs.hdfs_uri}/faults/{uuid.uuid4().hex}"
    HdfsStorage().make_dirs(uri)
    yield uri
    HdfsStorage().delete(uri)


def address(uri: str) -> tuple[str, int]:
    host, _, port = split(uri)[0].partition(":")
    return host, int(port)


# ---------------------------------------------------------------- what is lost on the way


def _make(storage: HdfsStorage, root: str) -> None:
    storage.make_dirs(f"{root}/made")


def _rename(storage: HdfsStorage, root: str) -> None:
    storage.rename_no_replace(f"{root}/source", f"{root}/destination")


def _delete(storage: HdfsStorage, root: str) -> None:
    storage.delete(f"{root}/source")


def _create(storage: HdfsStorage, root: str) -> None:
    storage.open_new(f"{root}/new").close()


CHANGES = {
    "mkdirs": (_make, lambda there: "made" in there),
    "rename2": (_rename, lambda there: "destination" in there),
    "delete": (_delete, lambda there: "source" not in there),
    "create": (_create, lambda there: "new" in there),
}


FATES = (Fate.LOSE_REQUEST, Fate.LOSE_REPLY, Fate.HANG)
"""A NameNode is not asked by HTTP, the only requests that the proxy can repeat."""


@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.name.lower())
@pytest.mark.parametrize("call", CHANGES)
def test_a_lost_change_is_unknown_until_one_looks(root, call, fate):
    change, executed = CHANGES[call]
    direct = HdfsStorage()
    direct.make_dirs(f"{root}/source")
    with LossyProxy(*address(root), call.encode(), fate, once=True) as proxy:
        lossy = root.replace(split(root)[0], f"127.0.0.1:{proxy.port}")
        storage = HdfsStorage(limit_s=SHORT_S if fate is Fate.HANG else PATIENCE_S)
        assert HdfsStorage().exists(lossy), "connected, which may take longer than that"
        with pytest.raises(OutcomeUnknown, match="may or may not"):
            change(storage, lossy)
        assert proxy.matched == 1
        assert executed(direct.list_names(root)) is (fate is Fate.LOSE_REPLY)
        storage._watchdog._limits = PATIENCE_S
        assert storage.list_names(lossy) == direct.list_names(root), "the next call finds a connection that works"
        with _definite_if(fate is Fate.LOSE_REPLY):
            change(HdfsStorage(), lossy)
        assert executed(direct.list_names(root))


@contextmanager
def _definite_if(already: bool) -> Iterator[None]:
    try:
        yield
    except (PathExists, PathMissing):
        assert already


# ---------------------------------------------------------------- a NameNode that is away, or frozen


def test_nobody_listens(hdfs):
    for call in (HdfsStorage().make_dirs, HdfsStorage().exists, HdfsStorage().read):
        with pytest.raises(StorageError, match="refused") as refused:
            call(f"hdfs://127.0.0.1:{DEAD}/x")
        assert not isinstance(refused.value, OutcomeUnknown)
        assert refused.value.retry


def test_a_frozen_namenode_is_left_alone_in_time(hdfs, root):
    storage = HdfsStorage(limit_s=SHORT_S)
    HdfsStorage().make_dirs(f"{root}/before")
    with frozen(hdfs):
        with pytest.raises(OutcomeUnknown, match=r"no answer within 0\.5 s"):
            storage.make_dirs(f"{root}/during")
        with pytest.raises(StorageError, match="no answer") as unanswered:
            storage.exists(f"{root}/before")
        assert not isinstance(unanswered.value, OutcomeUnknown)
        assert unanswered.value.retry
    again = HdfsStorage()
    again.make_dirs(f"{root}/during")
    assert again.list_names(root) == ["before", "during"]


@contextmanager
def frozen(hdfs: StackInfo) -> Iterator[None]:
    processes = State.load(Path(hdfs.root)).processes
    pids = keeper.descendants(Identity.parse(processes["hdfs-namenode"]).pid)
    assert pids
    namenode = [Identity.of(pid) for pid in pids]
    try:
        for each in namenode:
            each.signal(signal.SIGSTOP)
        yield
    finally:
        for each in namenode:
            each.signal(signal.SIGCONT)


def test_a_call_that_hangs_does_not_hold_the_process(root):
    code = (
        "from tidegate.storage import HdfsStorage; from tidegate.core.base.errors import OutcomeUnknown\n"
        "try: HdfsStorage(limit_s=0.5).make_dirs('LOCATION')\n"
        "except OutcomeUnknown: print('left')"
    )
    with LossyProxy(*address(root), b"mkdirs", Fate.HANG) as proxy:
        lossy = root.replace(split(root)[0], f"127.0.0.1:{proxy.port}")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", code.replace("LOCATION", f"{lossy}/x")],
            capture_output=True, text=True, timeout=240, env=environment,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "left\n"), done.stderr


def test_a_forked_child_has_clients_of_its_own(root):
    HdfsStorage().make_dirs(f"{root}/parent")
    context = multiprocessing.get_context("fork")
    child = context.Process(target=HdfsStorage().make_dirs, args=(f"{root}/child",))
    child.start()
    child.join(PATIENCE_S)
    if child.exitcode is None:
        child.kill()
    assert child.exitcode == 0
    assert HdfsStorage().list_names(root) == ["child", "parent"]


# ---------------------------------------------------------------- what HDFS refuses


def test_quotas_say_what_to_do_and_leave_nothing(hdfs, root):
    storage = HdfsStorage()
    for name in ("names", "space"):
        storage.make_dirs(f"{root}/{name}")
    admin(hdfs, "-setQuota", "2", split(f"{root}/names")[1])
    admin(hdfs, "-setSpaceQuota", "1m", split(f"{root}/space")[1])
    storage.write_new(f"{root}/names/first", b"1")
    with pytest.raises(StorageError, match=r"NSQuotaExceeded(.|\n)*-setQuota") as refused:
        storage.write_new(f"{root}/names/second", b"2")
    assert refused.value.retry
    assert not isinstance(refused.value, OutcomeUnknown)
    with pytest.raises(StorageError, match=r"DSQuotaExceeded(.|\n)*-setSpaceQuota"):
        storage.write_new(f"{root}/space/f", b"x" * 100)
    assert storage.list_files(root) == [*storage.list_files(root)][:1]
    assert [f.path for f in storage.list_files(root)] == ["names/first"]


def test_safe_mode_is_over_one_day(hdfs, root):
    storage = HdfsStorage()
    storage.write_new(f"{root}/f", b"content")
    admin(hdfs, "-safemode", "enter")
    try:
        changes: list[Callable[[], object]] = [
            lambda: storage.make_dirs(f"{root}/d"),
            lambda: storage.write_new(f"{root}/g", b""),
            lambda: storage.rename_no_replace(f"{root}/f", f"{root}/g"),
            lambda: storage.delete(f"{root}/f"),
        ]
        for change in changes:
            with pytest.raises(StorageError, match=r"SafeMode(.|\n)*safe mode") as refused:
                change()
            assert refused.value.retry
            assert not isinstance(refused.value, OutcomeUnknown)
        assert storage.read(f"{root}/f") == b"content"
    finally:
        admin(hdfs, "-safemode", "leave")
    assert storage.list_names(root) == ["f"]


def admin(hdfs: StackInfo, *words: str) -> None:
    folder = Path(hdfs.root) / "hdfs"
    command = java_command(folder, Places.of_checkout().jars / "hdfs", "-Xmx64m")
    done = subprocess.run(
        [*command, "org.apache.hadoop.hdfs.tools.DFSAdmin", *words], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr


def test_two_users_in_one_process(root):
    own, eve = HdfsStorage(), HdfsStorage(user="eve")
    with pytest.raises(StorageError, match=r"user=eve(.|\n)*sink\.user") as refused:
        eve.make_dirs(f"{root}/hers")
    assert not isinstance(refused.value, OutcomeUnknown)
    authority, path = split(root)
    CLIENTS.get(authority, None).set_permission(path, 0o777)
    eve.write_new(f"{root}/hers/f", b"e")
    own.write_new(f"{root}/ours/f", b"o")
    eve.make_dirs(f"{root}/hers/too")
    owners = {s.path.removeprefix(f"{path}/"): s.owner for s in CLIENTS.get(authority, None).list_status(path, True)}
    assert {name: owner == "eve" for name, owner in owners.items()} == {
        "hers": True, "hers/f": True, "hers/too": True, "ours": False, "ours/f": False,
    }  # fmt: skip


# ---------------------------------------------------------------- nameservices


def test_a_pair_and_another_nameservice_in_one_configuration(root, tmp_path, monkeypatch):
    """The first NameNode of the pair is away. Both nameservices are the same HDFS here."""
    authority, path = split(root)
    provider = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
    settings: dict[str, object] = {
        "dfs.nameservices": "pair,single",
        "dfs.ha.namenodes.pair": "one,two",
        "dfs.namenode.rpc-address.pair.one": f"127.0.0.1:{DEAD}",
        "dfs.namenode.rpc-address.pair.two": authority,
        "dfs.client.failover.proxy.provider.pair": provider,
        "dfs.namenode.rpc-address.single": authority,
    }
    (tmp_path / "hdfs-site.xml").write_text(site_xml(settings))
    (tmp_path / "core-site.xml").write_text(site_xml({"fs.defaultFS": "hdfs://pair"}))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    storage = HdfsStorage()
    storage.write_new(f"hdfs://pair{path}/a/f", b"content")
    assert storage.read(f"hdfs://single{path}/a/f") == b"content"
    storage.rename_no_replace(f"hdfs://single{path}/a", f"hdfs://single{path}/b")
    assert storage.list_names(f"hdfs://pair{path}") == ["b"]
    with pytest.raises(StorageError, match="another nameservice"):
        storage.rename_no_replace(f"hdfs://single{path}/b", f"hdfs://pair{path}/c")
    with pytest.raises(StorageError, match="no address of a NameNode") as unknown:
        storage.exists("hdfs://nowhere/x")
    assert not unknown.value.retry
