"""A child process that answers JSON lines with JSON lines: what it imports must not be imported here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import IO, Any

from tidegate.adapters.worker_code import import_path, land_application
from tidegate.core.base.errors import StorageError

LAST_WORDS = 5


class Child:
    """`script` of `spark_jobs`, started at the first request or by `start`, ended by `close`; it can begin again.

    Raises StorageError when it cannot start, or dies. `advice`: what to do then. `user`: who asks HDFS. `work`: what it
    does, in words."""

    def __init__(
        self,
        script: str,
        advice: str,
        python: str = sys.executable,
        user: str | None = None,
        work: str = "reading files",
    ) -> None:
        self._script, self._advice, self._python, self._work = script, advice, python, work
        self._env = {"HADOOP_USER_NAME": user} if user else {}
        self._child: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None

    def start(self) -> None:
        """It imports its libraries while others work."""
        if self._child is not None:
            return
        script = str(land_application().with_name(self._script))
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by close)
        self._child = subprocess.Popen(
            [self._python, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | import_path() | self._env,
        )

    def ask(self, request: Any, answers: int) -> Iterator[dict[str, Any]]:
        """The request is sent at once, its answers come as they are looked at."""
        self.start()
        assert self._child is not None
        assert self._child.stdin is not None
        try:
            # the child reads a request whole before it answers: neither side waits for the other's pipe
            self._child.stdin.write(json.dumps(request).encode() + b"\n")
            self._child.stdin.flush()
        except OSError:
            raise self._failed() from None
        return self._answers(self._child, answers)

    def _answers(self, child: subprocess.Popen[bytes], count: int) -> Iterator[dict[str, Any]]:
        assert child.stdout is not None
        for _ in range(count):
            line = child.stdout.readline()
            if not line.endswith(b"\n"):
                raise self._failed()
            yield json.loads(line)

    def stop(self) -> None:
        """From another thread: a request that waits for its answer fails."""
        child = self._child
        if child is not None:
            child.kill()

    def close(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        assert child.stdout is not None
        child.kill()  # it changes nothing: there is nothing to finish
        child.wait()
        child.stdout.close()
        _close(child.stdin)
        assert self._errors is not None
        self._errors.close()

    def _failed(self) -> StorageError:
        assert self._child is not None
        assert self._errors is not None
        _close(self._child.stdin)
        code = self._child.wait()
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace")
        words = " | ".join([line.strip() for line in text.splitlines() if line.strip()][-LAST_WORDS:])
        self.close()
        what = f"{self._work} ended with exit code {code}: {words or 'without a word'}"
        error = StorageError(what, advice=self._advice)
        error.retry = False
        return error


def _close(stream: IO[bytes] | None) -> None:
    try:
        if stream is not None:
            stream.close()
    except OSError:  # what was not written any more
        pass
