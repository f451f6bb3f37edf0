"""`spark-submit serve.py <folder> <identity> <idle seconds> <plans> <log>`: a driver that takes one plan after another.

What start-up costs is paid once: JVM, context, imports, Python workers. See `session` for the conversation; who keeps
such a session and finds it again is `tidegate.spark.warm_session`. Whatever it does for a plan goes into that plan's
attempt's directory, as with a job of its own: one that was given up for dead and works on can hurt nobody.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence

from spark_jobs import lean


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 5:
        print("usage: serve.py <folder> <identity> <idle seconds> <plans> <log>", file=sys.stderr)
        return 2
    lean.without_pandas()
    lean.pyspark_from_its_folder()
    from spark_jobs.engine.secrets import read, use
    from spark_jobs.land import carry_out, new_context
    from spark_jobs.session import Message, Session, Terms
    from spark_jobs.storage import open_storage
    from tidegate.core.batch.jobs import loads_plan

    folder, identity, idle_s, batches, log = arguments
    context, jvm = new_context("tidegate session"), os.getppid()

    def run(request: Message) -> str:
        secrets = request.get("secrets") or ""
        use(read(secrets) if secrets else {})
        opened = functools.partial(open_storage, user=request.get("user"))
        storage = opened(request["plan"])
        plan = loads_plan(storage.read(request["plan"]))
        return carry_out(plan, storage, context, opened, secrets)

    def well() -> bool:
        if os.getppid() != jvm:
            return False
        return not context._jsc.sc().isStopped()  # type: ignore[union-attr]

    terms = Terms(folder, identity, float(idle_s), int(batches), log)
    try:
        print(f"tidegate: this session ends: {Session(terms, run, well).serve()}", flush=True)
    finally:
        if os.getppid() == jvm:
            context.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
