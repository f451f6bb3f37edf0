"""The stack: Kafka, PostgreSQL, HDFS and YARN if asked for, a Hive endpoint and Airflow, started and ended as one.

    with Stack(root, parts=("kafka", "postgres")) as info:
        info.kafka_bootstrap

A foreground stack (the default) belongs to the process that started it and ends with it, however that process ends.
A daemon stack (`foreground=False`) stays until `down`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType

from dev.stack.environment import environment, write_env_file
from dev.stack.errors import StackError
from dev.stack.info import PartStatus, StackInfo, StackStatus, stack_info
from dev.stack.locks import file_lock
from dev.stack.parts import Part, Site
from dev.stack.places import Places
from dev.stack.ports import accepts, choose_ports
from dev.stack.processes import Identity, Launcher, end_all, sweep
from dev.stack.registry import part_types
from dev.stack.secrets import Secrets
from dev.stack.state import State

PARTS = ("kafka", "postgres", "hdfs", "yarn", "rocketmq", "iceberg", "objects", "clickhouse", "hive", "airflow")
FURTHER_PARTS = ("hdfs", "yarn", "rocketmq", "iceberg", "objects", "clickhouse")
USUAL_PARTS = tuple(part for part in PARTS if part not in FURTHER_PARTS)
_NEEDS = {"airflow": "postgres", "yarn": "hdfs"}
# Who uses others is ended first; PostgreSQL last, so that Airflow can still say goodbye.
_DOWN_ORDER = (
    ("airflow",),
    ("kafka", "hive", "yarn", "rocketmq", "iceberg"),
    ("postgres", "hdfs", "objects", "clickhouse"),
)
_GRACE_S = 20.0
Progress = Callable[[str], None]


class Stack:
    """One stack below `root`; see the module's docstring."""

    def __init__(
        self,
        root: Path,
        parts: Sequence[str] = USUAL_PARTS,
        hive: str = "spark",
        foreground: bool = True,
        dags_folder: Path | None = None,
        plugins_folder: Path | None = None,
        env: Mapping[str, str] | None = None,
        ports: Mapping[str, int] | None = None,
        progress: Progress = lambda line: None,
        durable: bool | None = None,
    ) -> None:
        """`hive`: one of HIVES. `env` is added to (and wins over) the stack's own; `ports` asks for fixed ports.

        `durable`: databases wait for the disk, so that their data survive any crash; by default only a daemon's do.
        """
        unknown = set(parts) - set(PARTS)
        if unknown:
            raise StackError(f"unknown part {sorted(unknown)[0]}; there are {', '.join(PARTS)}")
        self.root = root.absolute()
        wanted = {*parts, *(needed for part, needed in _NEEDS.items() if part in parts)}
        self.parts = tuple(part for part in PARTS if part in wanted)
        self.hive, self.foreground, self.progress = hive, foreground, progress
        self._durable = not foreground if durable is None else durable
        self._places = Places.of_checkout()
        self._dags = (dags_folder or self._places.dags).absolute()
        self._plugins = (plugins_folder or self._places.plugins).absolute()
        self._env, self._fixed_ports = dict(env or {}), dict(ports or {})

    def __enter__(self) -> StackInfo:
        return self.up()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def up(self) -> StackInfo:
        """Start what isn't running and return when all is ready; a daemon stack that is up already is left as it is.

        Raises StackError when a part fails (then nothing is left running) or when somebody else uses the root.
        """
        with self._exclusive():
            state = State.load(self.root)
            if self._already_up(state):
                return StackInfo.from_json(state.info)
            self._end(state)
            return self._start(state)

    def status(self) -> StackStatus:
        """Each part's state, read from the processes and ports as they are now."""
        state = State.load(self.root)
        alive = state.alive()
        found = []
        for part in state.parts:
            names = [name for name in state.processes if name.split("-")[0] == part]
            ok = bool(names) and all(name in alive for name in names) and accepts(state.ports[part])
            found.append(PartStatus(part, ok, [alive[name].pid for name in names if name in alive]))
        info = StackInfo.from_json(state.info) if state.info and alive else None
        return StackStatus(self.root, found, info)

    def down(self) -> None:
        """End every process of the stack; data, ports and passwords are kept. A no-op for a stack that is down.

        Raises StackError when the stack belongs to another living process (a demo or a test run).
        """
        with self._exclusive():
            state = State.load(self.root)
            owner = state.living_owner
            if owner is not None and owner.pid != os.getpid():
                raise StackError(f"the stack in {self.root} belongs to process {owner.pid}; end that one instead")
            self._end(state)

    def wait(self) -> None:
        """Return when a process of the stack has ended, with StackError, or never; signals interrupt it."""
        with _signals_as_exceptions():
            while True:
                broken = [part.name for part in self.status().parts if not part.up]
                if broken:
                    raise StackError(f"{', '.join(broken)} ended by itself; see {self.root / 'logs'}")
                time.sleep(2)

    def wipe(self) -> None:
        """`down`, then remove all data of this stack; jars, the virtual environment and other stacks stay."""
        self.down()
        with self._exclusive():
            for entry in self.root.iterdir():
                if entry.name == "lock":
                    continue
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()

    @contextmanager
    def _exclusive(self):
        busy = f"another command is starting or ending the stack in {self.root}; try again when it has finished"
        with file_lock(self.root / "lock", wait=False, busy=busy):
            yield

    def _already_up(self, state: State) -> bool:
        alive = state.alive()
        if not alive:
            return False
        owner = state.living_owner
        if owner is not None and owner.pid != os.getpid():
            raise StackError(f"the stack in {self.root} is in use by process {owner.pid} (a demo or a test run?)")
        whole = set(alive) == set(state.processes) and bool(state.info)
        if owner is None and not state.owner and self.foreground and whole:
            raise StackError(f"a stack is up in {self.root}; end it first: tidegate stack down")
        return whole and set(self.parts) <= set(state.parts) and self.hive == state.hive

    def _start(self, state: State) -> StackInfo:
        began = time.monotonic()
        types = part_types(self.parts, self.hive)
        names = [name for kind in types for name in kind.port_names]
        state.run_id, state.parts, state.hive = secrets.token_hex(8), list(self.parts), self.hive
        state.owner = str(Identity.of(os.getpid())) if self.foreground else ""
        state.ports |= choose_ports(names, state.ports, self._fixed_ports)
        state.processes, state.info = {}, {}
        state.save()
        launcher = Launcher(
            run_id=state.run_id,
            logs=self.root / "logs",
            owner=Identity.parse(state.owner) if state.owner else None,
            on_start=state.add,
        )
        site = Site(
            root=self.root,
            places=self._places,
            ports=state.ports,
            secrets=Secrets.of_root(self.root),
            launcher=launcher,
            progress=self.progress,
            durable=self._durable,
            env={},
        )
        parts = [kind(site) for kind in types]
        try:
            with _signals_as_exceptions():
                for part in parts:
                    part.prepare()
                site.env.update(environment(site, self.parts, self._dags, self._plugins) | self._env)
                self._start_parts(parts)
        except BaseException:
            launcher.close()  # the threads that start the other parts may still be at it
            self._end(state)
            raise
        info = stack_info(site, self.parts)
        state.info = info.to_json()
        state.save()
        write_env_file(self.root / "env", info.env)
        self.progress(f"stack ready, {time.monotonic() - began:.1f} s")
        return info

    def _start_parts(self, parts: Sequence[Part]) -> None:
        done = {part.name: threading.Event() for part in parts}
        failed = threading.Event()

        def start(part: Part) -> None:
            try:
                for other in part.after:
                    if other in done:
                        done[other].wait()
                if failed.is_set():
                    return
                began = time.monotonic()
                part.start()
                self.progress(f"{part.name} ready, {time.monotonic() - began:.1f} s")
            except BaseException:
                failed.set()
                raise
            finally:
                done[part.name].set()

        pool = ThreadPoolExecutor(len(parts), thread_name_prefix="start")
        futures = [pool.submit(start, part) for part in parts]
        try:
            for future in wait(futures, return_when="FIRST_EXCEPTION").done:
                future.result()
        finally:
            failed.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def _end(self, state: State) -> None:
        identities = state.identities()
        for group in _DOWN_ORDER:
            end_all([one for name, one in identities.items() if name.split("-")[0] in group], _GRACE_S)
        if state.run_id:
            sweep(state.run_id)
        (self.root / "env").unlink(missing_ok=True)
        if state.processes or state.info or state.owner:
            state.processes, state.info, state.owner = {}, {}, ""
            state.save()


@contextmanager
def _signals_as_exceptions():
    """SIGTERM and SIGHUP unwind as SIGINT does, so that what was started is ended in order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
