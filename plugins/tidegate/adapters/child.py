"""Questions to `spark_jobs/child.py`: what it imports must not be imported here. It says how they talk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from threading import Timer
from typing import IO, Any, Self

from tidegate.adapters.worker_code import import_path, land_application
from tidegate.core.base.errors import StorageError, TidegateError

LAST_WORDS = 5


class Child:
    """A process for one of its handlers, started at the first request or by `start`, ended by `close`; it can begin
    again.

    Raises StorageError when it cannot start, dies, or takes longer than `limit_s`, and `failed(words)` for an error
    that it answers, a StorageError by default. `advice`: what to do then. `user`: who asks HDFS. `work`: what it does,
    in words. `secrets` go through the pipe with each request: no argument and no file has them."""

    def __init__(
        self,
        handler: str,
        advice: str,
        python: str = sys.executable,
        *,
        user: str | None = None,
        work: str = "reading files",
        limit_s: float | None = None,
        failed: Callable[[str], TidegateError] | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self._handler, self._advice, self._python, self._work = handler, advice, python, work
        self._env = {"HADOOP_USER_NAME": user} if user else {}
        self._secrets = {"secrets": dict(secrets)} if secrets else {}
        self._limit_s = limit_s
        self._timer: Timer | None = None
        self._failed = failed or (lambda words: self._error(f"{work} failed: {words}"))
        self._child: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None

    def __enter__(self) -> Child:
        """It imports its libraries while others work."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        if self._child is not None:
            return
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by close)
        self._child = subprocess.Popen(
            [self._python, str(land_application().with_name("child.py")), self._handler],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | import_path() | self._env,
        )
        if self._limit_s is not None:
            self._timer = Timer(self._limit_s, self._child.kill)
            self._timer.start()

    def one(self, request: Any) -> Any:
        """The only answer to the request."""
        (answer,) = self.ask(request, 1)
        return answer

    def ask(self, request: Any, answers: int) -> Iterator[Any]:
        """The request is sent at once, its answers come as they are looked at."""
        self.start()
        assert self._child is not None
        assert self._child.stdin is not None
        try:
            # the child reads a request whole before it answers: neither side waits for the other's pipe
            self._child.stdin.write(json.dumps({"ask": request} | self._secrets).encode() + b"\n")
            self._child.stdin.flush()
        except OSError:
            raise self._ended() from None
        return self._answers(self._child, answers)

    def _answers(self, child: subprocess.Popen[bytes], count: int) -> Iterator[Any]:
        assert child.stdout is not None
        for _ in range(count):
            line = child.stdout.readline()
            if not line.endswith(b"\n"):
                raise self._ended()
            told = json.loads(line)
            if "error" in told:
                self.close()
                raise self._failed(told["error"])
            yield told["answer"]

    def close(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        assert child.stdout is not None
        child.kill()  # it changes nothing: there is nothing to finish
        child.wait()
        child.stdout.close()
        _close(child.stdin)
        assert self._errors is not None
        self._errors.close()

    def _ended(self) -> TidegateError:
        """The error of a child that is there no more: what it answered last, if that is one, else its last words."""
        assert self._child is not None
        assert self._child.stdout is not None
        assert self._errors is not None
        _close(self._child.stdin)
        rest = self._child.stdout.read().splitlines(keepends=True)
        code = self._child.wait()
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace")
        self.close()
        if rest and rest[-1].startswith(b'{"error": ') and rest[-1].endswith(b"\n"):
            return self._failed(json.loads(rest[-1])["error"])
        words = " | ".join([line.strip() for line in text.splitlines() if line.strip()][-LAST_WORDS:])
        return self._error(f"{self._work} ended with exit code {code}: {words or 'without a word'}")

    def _error(self, what: str) -> StorageError:
        return StorageError(what, advice=self._advice, retry=False)


class ByChild:
    """A reader whose answers come from a child process; `with` starts it at once. Raises StorageError when that cannot
    start, or dies."""

    _child: Child

    def __enter__(self) -> Self:
        self._child.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process; the next request starts it again."""
        self._child.close()

    def _ask(self, request: Any) -> Any:
        """The only answer to the request."""
        return self._child.one(request)


def _close(stream: IO[bytes] | None) -> None:
    try:
        if stream is not None:
            stream.close()
    except OSError:  # what was not written any more
        pass
