"""A real schema registry on the loopback: Apicurio's, with its schemas in memory, as Confluent's API shows them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dev.stack.java import find_java
from dev.stack.places import Places
from dev.stack.ports import choose_ports

VERSION = "3.0.9"
_URL = (
    "https://repo1.maven.org/maven2/io/apicurio/apicurio-registry-app/"
    f"{VERSION}/apicurio-registry-app-{VERSION}-all.tar.gz"
)
_SHA256 = "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"
_STARTS_S, _DOWNLOAD_S = 180.0, 600.0
_API = "apis/ccompat/v7"


@dataclass(frozen=True)
class Apicurio:
    """`url`: of the API that readers are given."""

    url: str

    def register(self, subject: str, text: str, kind: str = "AVRO", references: Sequence[dict[str, Any]] = ()) -> int:
        """The id that a producer's serializer is given. A reference names `name`, `subject` and `version`."""
        body = {"schema": text, "schemaType": kind, "references": list(references)}
        return int(self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", body)["id"])

    def delete(self, subject: str) -> None:
        """As an operator does: the subject is gone; ids stay, as messages with them do."""
        self._ask("DELETE", f"/subjects/{quote(subject, safe='')}", None)

    def _ask(self, method: str, path: str, body: Any) -> Any:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        request = urllib.request.Request(self.url + path, content, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")


@contextmanager
def running(folder: Path) -> Iterator[Apicurio]:
    """One that answers until the end of the block. `folder`: of its log."""
    home, port = _installed(), choose_ports(["registry"], {})["registry"]
    env = {**os.environ, "QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": str(port)}
    command = [
        str(find_java().binary), "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-jar", f"apicurio-registry-app-{VERSION}-runner.jar",
    ]  # fmt: skip
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=home, env=env, stdout=log, stderr=subprocess.STDOUT)
        try:
            found = Apicurio(f"http://127.0.0.1:{port}/{_API}")
            _wait_for(found, process, folder)
            yield found
        finally:
            process.terminate()
            process.wait(60)


def _wait_for(registry: Apicurio, process: subprocess.Popen[bytes], folder: Path) -> None:
    until = time.monotonic() + _STARTS_S
    while True:
        try:
            urllib.request.urlopen(f"{registry.url}/subjects", timeout=5).close()
            return
        except (OSError, urllib.error.URLError):
            if process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"the registry does not start: {folder / 'registry.log'}") from None
            time.sleep(0.2)


def _installed() -> Path:
    """Its folder in the checkout, downloaded once."""
    places = Places.of_checkout()
    home = places.own / "apicurio" / VERSION
    if not home.is_dir():
        draft = home.with_name(f"{VERSION}.{os.getpid()}")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        with urllib.request.urlopen(_URL, timeout=_DOWNLOAD_S) as answer:
            (draft / "all.tar.gz").write_bytes(answer.read())
        found = hashlib.sha256((draft / "all.tar.gz").read_bytes()).hexdigest()
        assert found == _SHA256, f"{_URL} has sha256 {found}, not {_SHA256}"
        with tarfile.open(draft / "all.tar.gz") as archive:
            archive.extractall(draft, filter="data")
        (draft / "all.tar.gz").unlink()
        draft.rename(home)
    return home
