"""Clients of object stores: one pair for each bucket and its access in a process, and none across a fork."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tidegate.core.base.errors import StorageError

if TYPE_CHECKING:
    from obstore.store import S3Store

CONNECTS_S, ANSWERS_S = 5, 60
"""A connection, and a request with its answer, are given up after so long."""
LOOKS_AGAIN = 3
_RETRIES_END_S = 60
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


@dataclass(frozen=True)
class Clients:
    """`once` never repeats a request: a put-if-absent that is repeated meets its own first try and says "taken".
    `again` repeats what may be repeated: looks, and the parts of an upload."""

    once: S3Store
    again: S3Store


class _Known:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[tuple[str, tuple[tuple[str, str], ...]], Clients] = {}
        self._process: int | None = None
        os.register_at_fork(after_in_child=self._forget)

    def get(self, bucket: str, access: Mapping[str, str]) -> Clients:
        """Raises StorageError without the library, and in a process that was forked after its use."""
        key = (bucket, tuple(sorted(access.items())))
        with self._lock:
            if self._process not in (None, os.getpid()):
                raise StorageError(
                    "an object store cannot be used here: this process was forked from one that used it", retry=False
                )
            if key not in self._clients:
                self._clients[key] = Clients(_made(bucket, access, 0), _made(bucket, access, LOOKS_AGAIN))
                self._process = os.getpid()
            return self._clients[key]

    def _forget(self) -> None:
        """The library's threads are not in the child: a call there would wait for ever."""
        self._lock = threading.Lock()


CLIENTS = _Known()


def _made(bucket: str, access: Mapping[str, str], retries: int) -> S3Store:
    try:
        from obstore.store import S3Store
    except ImportError as e:
        raise StorageError(
            f"s3://{bucket}: the package obstore is missing on this host ({e})",
            advice="install the extra `worker` of tidegate where tasks run; executors have it by the workers' archive",
            retry=False,
        ) from e
    config: dict[str, Any] = {"conditional_put": "etag", "virtual_hosted_style_request": False}
    endpoint = access.get("endpoint_url") or next((os.environ[n] for n in _ENDPOINTS if os.environ.get(n)), "")
    if endpoint:
        config["endpoint"] = endpoint.rstrip("/")
    if access.get("region"):
        config["region"] = access["region"]
    provider = None
    if access.get("access_key_id"):  # not by `config`: the environment's session token would be added
        found = {"access_key_id": access["access_key_id"], "secret_access_key": access.get("secret_access_key", "")}
        given: Any = found | {"token": access.get("session_token") or None, "expires_at": None}
        provider = lambda: given  # noqa: E731
    return S3Store(
        bucket,
        config=config,  # type: ignore[arg-type]
        client_options={
            "allow_http": endpoint.startswith("http://"),
            "connect_timeout": timedelta(seconds=CONNECTS_S),
            "timeout": timedelta(seconds=ANSWERS_S),
        },
        retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=_RETRIES_END_S)},
        credential_provider=provider,
    )
