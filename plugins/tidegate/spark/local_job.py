"""Small jobs in a child process of the control plane, which itself must not import the worker's libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping

from tidegate.adapters.worker_code import land_application
from tidegate.spark.launcher import (
    LAST_WORDS,
    application_arguments,
    job_ended,
    job_failed,
    local_environment,
    secrets_file,
)

_END_S = 5.0


class LocalLauncher:
    """Launcher of plans that rewrite files, by `spark_jobs/rewrite.py` without Spark
    (`core.batch.launcher.Launcher`)."""

    def __init__(
        self,
        say: Callable[[str], None],
        python: str = sys.executable,
        user: str | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        """`say` gets the job's output, line by line; `user` is who asks HDFS; `secrets` as a job of Spark's
        has them."""
        self._say, self._python, self._user = say, python, user
        self._secrets = dict(secrets or {})

    def run(self, plan_path: str) -> None:
        """Raises JobFailed."""
        with secrets_file(self._secrets) as path:
            self._run(plan_path, {} if path is None else {"TIDEGATE_SECRETS_FILE": path})

    def _run(self, plan_path: str, env: Mapping[str, str]) -> None:
        command = [self._python, str(land_application().with_name("rewrite.py"))]
        command += application_arguments(plan_path, self._user)
        try:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                errors="replace", env=os.environ | local_environment() | dict(env),
            )  # fmt: skip
        except OSError as e:
            raise job_failed("the merge could not be started", [str(e)]) from e
        last: deque[str] = deque(maxlen=LAST_WORDS)
        try:
            for line in filter(None, map(str.rstrip, child.stdout or ())):
                last.append(line)
                self._say(line)
            code = child.wait()
        except BaseException:
            _end(child)
            raise
        if code:
            raise job_ended(code, last, "the merge")


def _end(child: subprocess.Popen[str]) -> None:
    child.terminate()
    try:
        child.wait(_END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
