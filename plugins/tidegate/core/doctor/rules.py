"""When a set-up is wrong, and how to fix it: one function for each thing that is looked at. Times are in seconds."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tidegate.core.base import patience
from tidegate.core.base.connection import retyped
from tidegate.core.base.instants import HOUR_MS
from tidegate.core.base.wording import many, size
from tidegate.core.doctor.findings import OK, WARNING, WRONG, Finding, ok
from tidegate.core.tell.pauses import Pause

PYTHON = "3.11"
BEAT_S = 60.0
"""A scheduler or triggerer without a heartbeat for so long is dead (they beat every five seconds)."""
SKEW_S, MUCH_SKEW_S = 2.0, 30.0
FREE_RATIO = 0.05
UNLIMITED = -1
"""Slots of a pool without a limit."""
SHARED_POOL = 8
"""Pipelines that one slot of a pool can serve before they wait for each other noticeably."""

_VERSIONS: Mapping[str, tuple[str, str | None, str]] = {
    "apache-airflow": ("2.11.2", "3", "airflow"),
    "apache-airflow-providers-apache-spark": ("5.3", "6", "airflow"),
    "apache-airflow-providers-apache-kafka": ("0", None, "airflow"),
    "apache-airflow-providers-apache-hive": ("0", None, "airflow"),
    "SQLAlchemy": ("1.4.54", "2", "airflow"),
    "pendulum": ("3", None, "airflow"),
    "pydantic": ("2.11", "3", "all"),
    "confluent-kafka": ("2.10", None, "all"),
    "hdfs-native": ("0.14.7", None, "all"),
    "pyhive": ("0.7", None, "all"),
    "thrift": ("0", None, "all"),
    "pure-sasl": ("0", None, "all"),
    "pyspark": ("3.5.9", "4", "worker"),
    "pyarrow": ("18", None, "worker"),
    "duckdb": ("2", None, "worker"),
}
"""Package: at least, below, who needs it. As pyproject.toml says, and a test holds that it does."""

PACKAGES = tuple(_VERSIONS)


@dataclass(frozen=True)
class Place:
    """One installation of tidegate that this machine's Airflow can import. `content` tells sources apart."""

    kind: str  # wheel | plugins
    path: str
    version: str
    content: str
    used: bool = False


@dataclass(frozen=True)
class DagFacts:
    """As Airflow's database has it."""

    paused: bool
    active: bool
    file: str = ""


@dataclass(frozen=True)
class ParseLimits:
    """What Airflow allows for a DAG file, and when it parses it again: its defaults. `import_s` 0: no limit.

    `file_s`: importing it and writing its DAGs to the database. `stale_s`: a DAG that has not been written for so long
    when its file is done is taken for removed."""

    import_s: float = 30.0  # [core] dagbag_import_timeout
    file_s: float = 50.0  # [core] dag_file_processor_timeout
    stale_s: float = 50.0  # [scheduler] stale_dag_threshold
    interval_s: float = 30.0  # [scheduler] min_file_process_interval


# ---------------------------------------------------------------- what is installed


def python(version: str) -> Finding:
    """`version`: 3.11.7"""
    if version.startswith(f"{PYTHON}."):
        return ok("python", f"Python {version}")
    means = f"it is built and tested for {PYTHON}; Spark's driver and executors need the same minor version"
    return Finding("python", WRONG, f"Python {version}", means, f"make Airflow's environment with Python {PYTHON}")


def packages(found: Mapping[str, str | None], worker_here: bool) -> list[Finding]:
    """`found`: installed versions. `worker_here`: jobs run on this machine, so it needs the worker's libraries."""
    bad: list[Finding] = []
    for name, (least, below, who) in _VERSIONS.items():
        version, wanted = found.get(name), f"{name}>={least}" + (f",<{below}" if below else "")
        optional = who == "worker" and not worker_here
        if version is None and not optional:
            means = "jobs on this machine fail when they start" if who == "worker" else "imports fail"
            bad.append(Finding("versions", WRONG, f"{name} is not installed", means, _pip(wanted), name))
        elif version is not None and not _within(version, least, below):
            means = f"this version of tidegate is made for {wanted}"
            if name == "apache-airflow-providers-apache-spark":
                means += "; version 6 and later replace pyspark 3 by a client that runs nothing here"
            bad.append(Finding("versions", WRONG, f"{name} {version}", means, _pip(wanted), name))
    named = [n for n in ("apache-airflow", "pyspark", "pyarrow") if found.get(n)]
    more = sum(1 for version in found.values() if version) - len(named)
    here = ", ".join(f"{n} {found[n]}" for n in named)
    return bad or [ok("versions", f"{here}, and {more} more libraries are as needed")]


def _pip(wanted: str) -> str:
    return f"pip install '{wanted}', under Airflow's constraints"


def _within(version: str, least: str, below: str | None) -> bool:
    numbers = _numbers(version)
    return _numbers(least) <= numbers and (below is None or numbers < _numbers(below))


def _numbers(version: str) -> tuple[int, ...]:
    """Release numbers. 3 is below 3.0: limits have no zeros at their end."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(n) for n in found[0].split(".")) if found else (0,)


def installations(places: Sequence[Place]) -> Finding:
    """A wheel and a copied plugins folder at once: the wheel is imported, the copy is not."""
    told = "; ".join(f"{p.kind} {p.version} in {p.path}" for p in places)
    if len({p.content for p in places}) > 1:
        used = next((p for p in places if p.used), places[0])
        others = ", ".join(p.path for p in places if p is not used)
        means = f"{used.path} is imported here; which one another process takes depends on its path"
        mend = f"keep one: pip uninstall tidegate, or remove {others}; then restart scheduler, triggerer and webserver"
        return Finding("installation", WRONG, f"tidegate is installed more than once, differently: {told}", means, mend)
    if len(places) > 1:
        means = "they are the same now; an upgrade of one leaves the other behind"
        mend = "keep one: pip uninstall tidegate, or remove the copied folder"
        return Finding("installation", WARNING, f"tidegate is installed more than once: {told}", means, mend)
    return ok("installation", told)


def archives(paths: Sequence[str], installed: str, here: str) -> list[Finding]:
    """`spark_py_files`, `spark_worker_archive`: what executors on other machines import must be this version, and of
    their platform. `here` is this machine's, as in `x86_64, glibc`."""
    found, paths = [], [path for path in paths if path]
    told = {path: _platform(path.rpartition("/")[2]) for path in paths}
    for path in paths:
        named = re.search(r"tidegate-(?:worker-)?(\d+(?:\.\d+)*(?:\.?[a-z]+\d+)*)", path.rpartition("/")[2])
        if named and named[1] != installed:
            means = "receipts of one version may not be readable by the other; tasks fail, nothing is lost"
            mend = f"make dist with this version, and name it in [tidegate] of airflow.cfg instead of {path}"
            what = f"executors import tidegate {named[1]}, Airflow has {installed}"
            found.append(Finding("archives", WRONG, what, means, mend))
        elif told[path] not in ("", here):
            means = "right only if the executors are such machines; others end each task before it reads anything"
            mend = f"nothing, or make dist ARGS='--workers {here.replace(', ', '-')}', and name what it makes"
            what = f"{path} is for executors on {told[path]}, this machine is {here}"
            found.append(Finding("archives", WARNING, what, means, mend))
    words = [f"{path} (for executors on {told[path]})" if told[path] else path for path in paths]
    return found or ([ok("archives", ", ".join(words))] if paths else [])


def _platform(name: str) -> str:
    """The platform that the name of a wheel or of a workers' archive says; empty if none."""
    named = re.search(r"(musl)?linux_(?:\d+_\d+_)?([a-z0-9_]+?)\.", name)
    return f"{named[2]}, {named[1] or 'glibc'}" if named else ""


# ---------------------------------------------------------------- Airflow


def services(beats: Mapping[str, float | None], now_s: float) -> list[Finding]:
    """`beats`: last heartbeat of the youngest job of each kind; None for none that says that it runs."""
    told = {
        "scheduler": ("no task starts", "airflow scheduler -D"),
        "triggerer": ("windows are waited for in vain: `ready` stays deferred", "airflow triggerer -D"),
    }
    found = []
    for name, (means, mend) in told.items():
        at = beats.get(name)
        if at is not None and now_s - at <= BEAT_S:
            found.append(ok(name, f"the {name} is alive", name))
        else:
            what = f"no {name} runs" if at is None else f"the {name} has not beaten for {now_s - at:,.0f} s"
            found.append(
                Finding(name, WRONG, what, means, f"start it: {mend} (or its service); then look at its log", name)
            )
    return found


def executor(name: str | None) -> list[Finding]:
    """None: not set."""
    if name and "SequentialExecutor" in name:
        means = "one task at a time: a run that waits holds up all others"
        return [
            Finding("executor", WRONG, name, means, "AIRFLOW__CORE__EXECUTOR=LocalExecutor, on PostgreSQL or MySQL")
        ]
    return [ok("executor", name)] if name else []


def pools(wanted: Mapping[str, Collection[str]], found: Mapping[str, int]) -> list[Finding]:
    """`wanted`: which pipelines use a pool. `found`: slots."""
    findings = []
    for name, users in sorted(wanted.items()):
        slots, theirs = found.get(name), many(len(users), "pipeline")
        if slots is None:
            means = f"tasks of {theirs} stay scheduled for ever"
            mend = f"tidegate doctor --fix, or: airflow pools set {name} 4 'Tidegate'"
            findings.append(Finding("pools", WRONG, f"there is no pool {name}", means, mend, name))
        elif slots == 0:
            means = f"tasks of {theirs} stay scheduled for ever"
            findings.append(Finding("pools", WRONG, f"pool {name} has no slot", means, _set_pool(name, 4), name))
        elif slots != UNLIMITED and slots * SHARED_POOL < len(users):
            means, more = f"{theirs} share them and wait for each other", -(-len(users) // SHARED_POOL)
            what = f"pool {name} has {many(slots, 'slot')}"
            findings.append(Finding("pools", WARNING, what, means, _set_pool(name, more), name))
        else:
            said = "no limit" if slots == UNLIMITED else many(slots, "slot")
            findings.append(ok("pools", f"pool {name}: {said} for {theirs}", name))
    return findings


def _set_pool(name: str, slots: int) -> str:
    return f"airflow pools set {name} {slots} 'Tidegate'"


def dags(
    pipeline: str, kinds: Collection[str], found: Mapping[str, DagFacts], pause: Pause | None = None
) -> list[Finding]:
    """`found`: Airflow's DAGs by id. `pause`: what the ledger knows of one on purpose, unless that is over."""
    ids = {kind: f"{pipeline}.{kind}" for kind in kinds}
    missing = [i for i in ids.values() if i not in found or not found[i].active]
    if missing:
        what, means = f"Airflow has no DAG {', '.join(missing)}", "nothing of it runs"
        mend = "airflow dags list-import-errors; is the scheduler alive? At once: airflow dags reserialize"
        return [Finding("dags", WRONG, what, means, mend, pipeline)]
    meant = pause.kinds if pause is not None else ()
    moving = {kind: ids[kind] for kind in meant if kind in ids and not found[ids[kind]].paused}
    if moving:
        names = ", ".join(moving.values())
        what = f"the ledger says that {names} {'is' if len(moving) == 1 else 'are'} paused on purpose"
        only = " ".join(f"--only {kind}" for kind in moving)
        means = "they are not: what goes wrong with them is not counted"
        return [Finding("dags", WARNING, what, means, f"tidegate unpause {pipeline} {only}", pipeline)]
    paused = [i for kind, i in ids.items() if found[i].paused and kind != "replay" and kind not in meant]
    if paused:
        means = "its schedule does nothing, and cleared tasks wait" + (
            "; no task makes missing runs, cleans, or frees what a killed backfill left"
            if f"{pipeline}.maintain" in paused
            else ""
        )
        mend = "; ".join(f"airflow dags unpause {i}" for i in paused)
        return [Finding("dags", WARNING, f"paused: {', '.join(paused)}", means, mend, pipeline)]
    if pause is not None:
        return [ok("dags", pause.words(), pipeline)]
    return [ok("dags", "its DAGs are there and not paused", pipeline)]


def import_errors(found: Sequence[tuple[str, str]]) -> list[Finding]:
    """File and last line of what Airflow says."""
    means, all_of_it = "its DAGs are not there, or are old", "airflow dags list-import-errors shows all of it"
    mend = f"fix the file; after an upgrade of tidegate restart the scheduler, which still has the old one; {all_of_it}"
    return [Finding("imports", WRONG, f"{file}: {text}", means, mend, file.rpartition("/")[2]) for file, text in found]


def parsing(file: str, seconds: float | None, limits: ParseLimits) -> list[Finding]:
    """`seconds`: how long Airflow's last parse of it took; None if unknown.

    A parse that is ended, or that outlasts the threshold, takes all DAGs of the file for removed. Half of what is
    allowed must be enough: a machine that is busy takes twice as long."""
    name = file.rpartition("/")[2]
    what = f"{name} takes {seconds:,.0f} s to parse" if seconds is not None else f"{name}: unknown how long it takes"
    took, found = seconds or 0.0, list[Finding]()
    need = max(60, _tens(4 * took))
    lost = "a parse that takes longer loses all its DAGs until the next one: nothing is scheduled"
    least = min(limits.import_s or limits.file_s, limits.file_s)
    if 2 * took >= least:
        said = f"{what}; Airflow ends it after {least:,.0f} s"
        keys = "[core] dagbag_import_timeout and dag_file_processor_timeout, [scheduler] stale_dag_threshold"
        mend = _set("AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT", keys, need, " ...")
        found.append(Finding("parsing", WRONG if took >= limits.file_s else WARNING, said, lost, mend, name))
    elif limits.stale_s < limits.file_s:
        said = (
            f"{what}; DAGs are taken for removed after {limits.stale_s:,.0f} s, a parse may take {limits.file_s:,.0f} s"
        )
        keys, enough = "[scheduler] stale_dag_threshold", _tens(limits.file_s)
        mend = _set("AIRFLOW__SCHEDULER__STALE_DAG_THRESHOLD", keys, enough)
        found.append(Finding("parsing", WARNING, said, lost, mend, name))
    if took >= limits.interval_s:
        said = f"{what}, and is parsed again {limits.interval_s:,.0f} s later"
        means = "one CPU does nothing else; a changed YAML is seen after the parse that is under way"
        mend = _set("AIRFLOW__SCHEDULER__MIN_FILE_PROCESS_INTERVAL", "[scheduler] min_file_process_interval", need)
        found.append(Finding("parsing", WARNING, said, means, mend, name))
    return found or [ok("parsing", what, name)]


def _tens(seconds: float) -> int:
    return -int(-seconds // 10) * 10


def _set(variable: str, keys: str, value: int, more: str = "") -> str:
    return f"{keys}: {value} ({variable}={value}{more}); then restart the scheduler"


def retries(pipeline: str, key: str, count: int, first_s: float, longest_s: float) -> Finding:
    """Whether a five-minute outage passes without a human."""
    lasts = patience.lasts_s(count, first_s, longest_s)
    if lasts >= patience.OUTAGE_S:
        return ok("retries", f"{key}: {count} last {lasts / 60:.0f} min at least", pipeline)
    means = "an outage of five minutes ends in a failed task that a human has to clear"
    what = f"{key}: {count} last {lasts:.0f} s at least"
    return Finding("retries", WARNING, what, means, f"{key}: {patience.enough(first_s, longest_s)} or more", pipeline)


# ---------------------------------------------------------------- servers and places


def clock(whose: str, ahead_s: float) -> Finding:
    """`ahead_s`: of this machine's clock, half of the question's own time taken off."""
    if abs(ahead_s) <= SKEW_S:
        return ok("clocks", f"{whose} and this machine agree within {SKEW_S:.0f} s", whose)
    what = f"{whose} is {abs(ahead_s):,.1f} s {'ahead of' if ahead_s > 0 else 'behind'} this machine"
    means = "watermarks of idle partitions, `future_skew` and retention go by these clocks"
    level = WRONG if abs(ahead_s) > MUCH_SKEW_S else WARNING
    return Finding("clocks", level, what, means, "synchronise both by NTP: chronyc tracking", whose)


def space(pipeline: str, place: str, free: int, total: int) -> Finding:
    """A finding about a local disk, in bytes."""
    if total and free / total < FREE_RATIO:
        what = f"{place}: {size(free)} of {size(total)} are free"
        means = "batches and windows fail when the disk is full; nothing is lost"
        return Finding("disk", WARNING, what, means, f"free space; tidegate clean {pipeline} --dry-run", pipeline)
    return ok("disk", f"{place}: {size(free)} are free", pipeline)


def same_filesystem(pipeline: str, location: str, workdir: str, same: bool | None) -> list[Finding]:
    """A rename from the work directory into the table must be possible. None: one of them is not there yet."""
    if same is False:
        what = f"{workdir} is on another filesystem than {location}"
        means = "no window can be published: a directory cannot be renamed across filesystems"
        return [Finding("workdir", WRONG, what, means, "sink.workdir: a folder on the table's filesystem", pipeline)]
    return [ok("workdir", workdir, pipeline)] if same else []


def storage(pipeline: str, location: str, done: Sequence[str], failed: str, said: str, advice: str = "") -> Finding:
    """A probe below `_tidegate`: steps that were done, the one that was not, what the filesystem said, what helps."""
    if not failed:
        return ok("storage", f"{location}: {', '.join(done)}", pipeline)
    what = f"{location}: cannot {failed}: {said}"
    means = "batches cannot land, or windows cannot be published"
    mend = advice or f"give Airflow's user (or sink.user) the right to {failed} there"
    if location.startswith("s3:"):
        mend = "check sink.object_store_conn_id, and give its login the rights that docs/object-stores.md lists"
    return Finding("storage", WRONG, what, means, mend, pipeline)


def connection(conn_id: str, types: Collection[str], found: str | None, users: Collection[str]) -> Finding:
    """`found`: its type. `types`: those that fit; empty for any."""
    if types and found not in types:
        what = f"connection {conn_id} is of type {found or 'none'}, not {' or '.join(sorted(types))}"
        usual = f"fix it under Admin > Connections; airflow connections get {conn_id}"
        mend = retyped(conn_id, found, types, usual)
        return Finding("connections", WRONG, what, f"needed by {', '.join(sorted(users))}", mend, conn_id)
    return ok("connections", f"connection {conn_id} ({found or 'no type'})", conn_id)


def missing_connection(conn_id: str, said: str, advice: str, users: Collection[str]) -> Finding:
    """A finding about a connection that is missing, or cannot be read."""
    return Finding("connections", WRONG, said, f"needed by {', '.join(sorted(users))}", advice, conn_id)


def refused(check: str, about: str, said: str, means: str, mend: str, level: str = WRONG) -> Finding:
    """A server that was asked said no, or nothing."""
    assert level != OK
    return Finding(check, level, said, means, mend, about)


def keeps(
    check: str,
    pipeline: str,
    topic: str,
    kept_ms: int | None,
    deletes: bool | None,
    planned_ms: int,
    longer: str,
    ask: str,
) -> Finding:
    """Whether a source keeps a topic as long as reading may be behind without a loss that surprises (`planned_ms`).

    `longer` says how to keep it longer, `ask` how its settings may be read."""
    if deletes is None:
        means = "how much time is left before retention loses records cannot be told"
        return Finding(check, WARNING, f"topic {topic}: its settings may not be read", means, ask, pipeline)
    if deletes and kept_ms is not None and kept_ms < planned_ms:
        means = "an outage as long as that loses records, and windows cannot be replayed from the source afterwards"
        return Finding(check, WARNING, f"topic {topic} keeps {kept_ms / HOUR_MS:.1f} h", means, longer, pipeline)
    return ok(check, f"topic {topic} can be described and read", pipeline)
