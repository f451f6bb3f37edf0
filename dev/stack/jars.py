"""Jars by coordinates, without Maven: resolved by the Ivy that PySpark ships, verified against committed locks.

A set of jars is `<name>.toml` (what we ask for) and `<name>.lock` (every artifact, `sha256  coordinates  file name`).
A fetch asks for exactly the locked artifacts, nothing transitive, so the result cannot drift.

    python -m dev.stack.jars fetch kafka     put the set below .tidegate/jars/
    python -m dev.stack.jars lock kafka      resolve the .toml again and rewrite the .lock
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import tomllib
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from dev.stack.errors import StackError, last_lines
from dev.stack.java import find_java, spark_home
from dev.stack.locks import file_lock
from dev.stack.places import Places
from dev.stack.truststore import write_truststore

LOCKS = Path(__file__).with_name("jars")
REPORT_EVERY_S = 5.0
# What is locked needs neither POMs nor Maven's weaker checksums; Ivy knows the address of Maven Central by itself.
_JARS_ONLY = """<ivysettings><settings defaultResolver="central"/><resolvers>
<ibiblio name="central" m2compatible="true" usepoms="false" useMavenMetadata="false" checksums=""/>
</resolvers></ivysettings>
"""
Progress = Callable[[str], None]


@dataclass(frozen=True, order=True)
class Artifact:
    """One jar: where it comes from; `classifier` is empty for most."""

    group: str
    name: str
    version: str
    classifier: str = ""

    @property
    def coordinates(self) -> str:
        """group:artifact:version[:classifier]."""
        return ":".join(filter(None, (self.group, self.name, self.version, self.classifier)))

    @property
    def file_name(self) -> str:
        """The jar's name in the set's folder."""
        return f"{self.name}-{self.version}{'-' if self.classifier else ''}{self.classifier}.jar"

    @classmethod
    def parse(cls, coordinates: str) -> Artifact:
        """Inverse of `coordinates`. Raises ValueError for anything that isn't three or four words."""
        words = coordinates.split(":")
        if len(words) not in (3, 4) or not all(words):
            raise ValueError(f"not group:artifact:version[:classifier]: {coordinates!r}")
        return cls(*words)


def parse_lock(text: str) -> dict[Artifact, str]:
    """sha256 (hex) of every artifact of a lock. Raises ValueError with the line's number for a malformed line."""
    locked: dict[Artifact, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split()
        if len(words) != 3 or len(words[0]) != 64:
            raise ValueError(f"line {number}: expected sha256, coordinates and file name: {line!r}")
        artifact = Artifact.parse(words[1])
        if artifact.file_name != words[2] or artifact in locked:
            raise ValueError(f"line {number}: wrong file name or a second entry: {line!r}")
        locked[artifact] = words[0]
    return locked


def format_lock(locked: dict[Artifact, str]) -> str:
    """The text of a lock, sorted by coordinates."""
    return "".join(f"{locked[artifact]}  {artifact.coordinates}  {artifact.file_name}\n" for artifact in sorted(locked))


def ensure_jars(name: str, places: Places, progress: Progress = print, locks: Path | None = None) -> Path:
    """The folder that holds the set `name`, fetched first when it is missing or was made from another lock.

    `locks` is the folder of the set's lock, ours by default. Raises StackError when the download fails or a jar's
    sha256 is not the locked one; the folder is renamed into place only when it is whole, so an interrupted fetch is
    simply started again.
    """
    lock = (locks or LOCKS) / f"{name}.lock"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    folder = places.jars / name
    if _stamp(folder) == digest:
        return folder
    with file_lock(places.jars / "ivy.lock"):  # two Ivy processes disturb each other
        if _stamp(folder) == digest:
            return folder
        fresh = places.jars / f"{name}.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        locked = parse_lock(lock.read_text())
        found = _run_ivy(name, _exact(locked), len(locked), places, progress)
        try:
            for artifact, sha256 in locked.items():
                source = found / _ivy_path(artifact)
                _verify(source, artifact, sha256, lock.name)
                source.replace(fresh / artifact.file_name)
        finally:
            shutil.rmtree(found, ignore_errors=True)
        (fresh / "lock.sha256").write_text(digest)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    return folder


def write_lock(name: str, places: Places, progress: Progress = print, locks: Path | None = None) -> Path:
    """Resolve `<name>.toml` with everything below it and write `<name>.lock`; returns the lock's path."""
    locks = locks or LOCKS
    wanted = tomllib.loads((locks / f"{name}.toml").read_text())
    roots = [Artifact.parse(root) for root in wanted["roots"]]
    with file_lock(places.jars / "ivy.lock"):
        found = _run_ivy(name, _transitive(roots, wanted["exclude"]), None, places, progress)
        locked = {_from_ivy_path(jar.relative_to(found)): _sha256(jar) for jar in found.rglob("*.jar")}
        shutil.rmtree(found)
    names = [artifact.file_name for artifact in locked]
    twice = sorted({file for file in names if names.count(file) > 1})
    if twice:
        raise StackError(f"{name}: two artifacts want the file name {twice[0]}; exclude one of them in {name}.toml")
    lock = locks / f"{name}.lock"
    lock.write_text(format_lock(locked))
    return lock


def _stamp(folder: Path) -> str | None:
    try:
        return (folder / "lock.sha256").read_text()
    except OSError:
        return None


def _verify(jar: Path, artifact: Artifact, sha256: str, lock: str) -> None:
    if not jar.exists():
        raise StackError(f"{artifact.coordinates} stands in {lock} but was not delivered; try again")
    actual = _sha256(jar)
    if actual != sha256:
        raise StackError(
            f"{artifact.coordinates} has sha256 {actual}, but {lock} says {sha256}: refused. Either the download was "
            "tampered with or the lock is wrong; nothing was installed"
        )


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _ivy_path(artifact: Artifact) -> str:
    classifier = f"~{artifact.classifier}" if artifact.classifier else ""
    return f"{artifact.group}/{artifact.version}/{artifact.name}{classifier}.jar"


def _from_ivy_path(path: Path) -> Artifact:
    group, version, file = path.parts
    name, _, classifier = file.removesuffix(".jar").partition("~")
    return Artifact(group, name, version, classifier)


def _exact(artifacts: Iterable[Artifact]) -> str:
    """Nothing but these."""
    return "".join(_dependency(module, found, transitive=False) for module, found in _modules(artifacts).items())


def _transitive(roots: Iterable[Artifact], exclude: Iterable[str]) -> str:
    lines = [_dependency(module, found, transitive=True) for module, found in _modules(roots).items()]
    for pattern in exclude:
        group, name = pattern.split(":")
        lines.append(f'<exclude org={quoteattr(group)} module={quoteattr(name)} matcher="regexp"/>')
    return "".join(lines)


def _modules(artifacts: Iterable[Artifact]) -> dict[tuple[str, str, str], list[str]]:
    """Classifiers by module: Ivy keeps one dependency of a module only."""
    modules: dict[tuple[str, str, str], list[str]] = {}
    for artifact in artifacts:
        modules.setdefault((artifact.group, artifact.name, artifact.version), []).append(artifact.classifier)
    return modules


def _dependency(module: tuple[str, str, str], classifiers: list[str], *, transitive: bool) -> str:
    """Transitive: what its POM says, but for classifiers, which no POM knows."""
    group, name, version = module
    named = "".join(
        f'<artifact name={quoteattr(name)} type="jar" ext="jar"{_classified(each)}/>'
        for each in classifiers
        if not transitive or any(classifiers)
    )
    return (
        f"<dependency org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(version)}"
        f' transitive="{str(transitive).lower()}" conf="default->default">{named}</dependency>'
    )


def _classified(classifier: str) -> str:
    return f" m:classifier={quoteattr(classifier)}" if classifier else ""


def _run_ivy(name: str, dependencies: str, expected: int | None, places: Places, progress: Progress) -> Path:
    """Retrieve into a scratch folder as `group/version/artifact[~classifier].jar`; returns that folder."""
    work = places.tmp / f"ivy-{name}"
    shutil.rmtree(work, ignore_errors=True)  # a cache that saw a failure remembers "not found"
    for folder in ("cache", "home", "out"):
        (work / folder).mkdir(parents=True)
    module = work / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="tidegate" module="jars" revision="1"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    settings = os.environ.get("TIDEGATE_IVY_SETTINGS")  # for a network that has a mirror of its own
    if settings is None and expected is not None:
        settings = str(work / "settings.xml")
        Path(settings).write_text(_JARS_ONLY)
    write_truststore(work / "trust.jks")
    log = places.logs / f"ivy-{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    _watch(_ivy_command(work, settings), log, work, name, expected, progress)
    out = places.tmp / f"ivy-{name}-out"
    shutil.rmtree(out, ignore_errors=True)
    (work / "out").rename(out)
    shutil.rmtree(work, ignore_errors=True)
    return out


def _ivy_command(work: Path, settings: str | None) -> list[str]:
    ivy = next((spark_home() / "jars").glob("ivy-*.jar"))
    # A home of its own, so that neither a local Maven cache nor its settings can change the answer.
    return [
        str(find_java().binary), "-Xmx256m", f"-Duser.home={work / 'home'}",
        f"-Djavax.net.ssl.trustStore={work / 'trust.jks'}", *_proxy_options(urllib.request.getproxies()),
        "-jar", str(ivy), "-warn", *(("-settings", settings) if settings else ()),
        "-cache", str(work / "cache"), "-ivy", str(work / "ivy.xml"), "-confs", "default",
        "-retrieve", f"{work / 'out'}/[organisation]/[revision]/[artifact](~[classifier]).[ext]",
        "-types", "jar", "bundle", "test-jar", "-overwriteMode", "always",
    ]  # fmt: skip


def _proxy_options(proxies: dict[str, str]) -> list[str]:
    """Java knows nothing of HTTPS_PROXY: say it in Java's words."""
    options = []
    for scheme in ("http", "https"):
        url = urllib.parse.urlsplit(proxies.get(scheme, ""))
        if url.hostname:
            options += [f"-D{scheme}.proxyHost={url.hostname}", f"-D{scheme}.proxyPort={url.port or 80}"]
    if options and proxies.get("no"):
        options.append("-Dhttp.nonProxyHosts=" + "|".join(host.strip() for host in proxies["no"].split(",")))
    return options


def _watch(command: Sequence[str], log: Path, work: Path, name: str, expected: int | None, progress: Progress) -> None:
    started = reported = time.monotonic()
    of = f" of {expected}" if expected else ""
    with open(log, "wb") as out:
        ivy = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=work)
    try:
        while True:
            try:
                code = ivy.wait(timeout=0.5)
                break
            except subprocess.TimeoutExpired:
                now = time.monotonic()
                if now - reported >= REPORT_EVERY_S:
                    reported = now
                    have = sum(1 for _ in (work / "cache").rglob("*.jar"))
                    doing = f"{have}{of} downloaded" if have else "looking them up"
                    progress(f"{name} jars: {doing}, {now - started:.0f} s")
    finally:
        if ivy.poll() is None:
            ivy.kill()
            ivy.wait()
    if code or b"UNRESOLVED" in log.read_bytes():
        raise StackError(f"the {name} jars could not be downloaded (network, proxy?); {last_lines(log)} (log: {log})")
    progress(
        f"{name} jars: {sum(1 for _ in (work / 'out').rglob('*.jar'))} fetched, {time.monotonic() - started:.0f} s"
    )


def main(arguments: Sequence[str]) -> int:
    """`fetch NAME...` or `lock NAME...`; see the module's docstring."""
    actions = {"fetch": ensure_jars, "lock": write_lock}
    if len(arguments) < 2 or arguments[0] not in actions:
        print(__doc__, file=sys.stderr)
        return 2
    places = Places.of_checkout()
    try:
        for name in arguments[1:]:
            print(actions[arguments[0]](name, places))
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
