"""Clients of HDFS: one for each nameservice and user in a process, and never one across a fork."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from tidegate.core.base.errors import StorageError

if TYPE_CHECKING:
    from hdfs_native import Client

_USER = "HADOOP_USER_NAME"
_ATTEMPTS = "dfs.client.failover.max.attempts"
_WITHOUT_A_DATANODE = "dfs.client.block.write.replace-datanode-on-failure.best-effort"
Key = tuple[str, str | None, str | None]


class Clients:
    """Made when first used, after any fork: a child that touches or drops its parent's client hangs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[Key, Client] = {}
        os.register_at_fork(after_in_child=self._forget)

    def get(self, authority: str, user: str | None) -> Client:
        """`authority` as in a URI: `host:port`, or a nameservice of HADOOP_CONF_DIR."""
        key = (authority, user, os.environ.get("HADOOP_CONF_DIR"))
        with self._lock:
            if key not in self._clients:
                self._clients[key] = _connect(authority)
            return self._clients[key]

    def drop(self, client: Client) -> None:
        """Use it no more: a call of it hangs, and its state afterwards is unknown."""
        with self._lock:
            for key in [key for key, one in self._clients.items() if one is client]:
                del self._clients[key]
        _keep_for_ever(client)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        for client in self._clients.values():
            _keep_for_ever(client)
        self._clients = {}


def _connect(authority: str) -> Client:
    from hdfs_native import Client

    address = authority if ":" in authority else _only_namenode(authority) or authority
    # a single NameNode that is away answers at once; of a pair each is asked, and again after a failover's pause
    attempts = "0" if ":" in address else "3"
    return Client(f"hdfs://{address}", {_ATTEMPTS: attempts, _WITHOUT_A_DATANODE: "true"})


def _only_namenode(nameservice: str) -> str | None:
    """`host:port` of a nameservice that is no pair; the library finds pairs only."""
    file = _configuration_folder() / "hdfs-site.xml"
    try:
        found = {
            p.findtext("name", "").strip(): p.findtext("value", "").strip() for p in ElementTree.parse(file).iter()
        }
    except (OSError, ElementTree.ParseError):
        return None  # the library says what is wrong with it
    if f"dfs.ha.namenodes.{nameservice}" in found:
        return None
    address = found.get(f"dfs.namenode.rpc-address.{nameservice}")
    return f"{address}:8020" if address and ":" not in address else address


def _configuration_folder() -> Path:
    """The folder as the library looks for it."""
    named = os.environ.get("HADOOP_CONF_DIR")
    return Path(named) if named else Path(os.environ.get("HADOOP_HOME", "/")) / "etc" / "hadoop"


def _keep_for_ever(client: Client) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))


class Users:
    """Who asks: the library reads HADOOP_USER_NAME whenever it connects, also in the middle of a client's life.

    Calls of one user run side by side; those of another wait until they have come back.
    """

    def __init__(self) -> None:
        self._free = threading.Condition()
        self._running = 0
        self._own = os.environ.get(_USER)
        self._now = self._own
        os.register_at_fork(after_in_child=self._forget)

    @contextmanager
    def acting(self, user: str | None, patience_s: float) -> Iterator[None]:
        """Raises StorageError when another user's calls do not end in time; nothing was sent then."""
        wanted = user or self._own
        with self._free:
            end = time.monotonic() + patience_s
            while self._running and self._now != wanted:
                if not self._free.wait(max(0.0, end - time.monotonic())) and time.monotonic() >= end:
                    raise StorageError(f"HDFS as {wanted}: calls as {self._now} in this process do not end")
            self._become(wanted)
            self._running += 1
        try:
            yield
        finally:
            with self._free:
                self._running -= 1
                self._free.notify_all()

    def _become(self, wanted: str | None) -> None:
        if wanted == self._now:
            return
        if wanted is None:
            os.environ.pop(_USER, None)
        else:
            os.environ[_USER] = wanted
        self._now = wanted

    def _forget(self) -> None:
        self._free = threading.Condition()
        self._running = 0


CLIENTS = Clients()
USERS = Users()
