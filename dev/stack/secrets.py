"""The passwords and keys of one stack: made once, kept 0600 in its root, the same after a restart."""

from __future__ import annotations

import base64
import json
import os
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path


def _password() -> str:
    return secrets.token_urlsafe(18)


def _login() -> str:
    return secrets.token_hex(10).upper()


def _fernet_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


@dataclass(frozen=True)
class Secrets:
    """Random unless read from a file."""

    postgres_password: str = field(default_factory=_password, repr=False)
    kafka_password: str = field(default_factory=_password, repr=False)
    airflow_password: str = field(default_factory=_password, repr=False)
    airflow_fernet_key: str = field(default_factory=_fernet_key, repr=False)
    airflow_secret_key: str = field(default_factory=_password, repr=False)
    objects_key: str = field(default_factory=_login, repr=False)
    objects_secret: str = field(default_factory=_password, repr=False)
    clickhouse_password: str = field(default_factory=_password, repr=False)

    @classmethod
    def of_root(cls, root: Path) -> Secrets:
        """Those of the stack at `root`, made now if it has none."""
        path = root / "secrets.json"
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            found = {}
        made = cls(**found)
        if asdict(made) == found:
            return made
        root.mkdir(parents=True, exist_ok=True)
        write_private(path, json.dumps(asdict(made), indent=1))
        return made


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically; only its owner may read it."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "w") as file:
        file.write(text)
    fresh.replace(path)
