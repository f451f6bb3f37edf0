"""Set-up of a checkout: `.venv` with the locked packages and this project, for `make setup`.

Run by a bare Python 3.11; standard library only, and nothing of this package (it isn't installed yet). A second run
with the same locks finds its stamp and does nothing. What is interrupted is simply run again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
VENV = CHECKOUT / ".venv"
OWN = CHECKOUT / ".tidegate"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "tidegate-setup"
LOG = OWN / "logs" / "setup.log"
LOCKS = ("requirements.lock", "requirements-bootstrap.txt", "requirements-compiler.txt", "pyproject.toml")
NATIVE = "spark_jobs/engine/native"
FREE_GB = 4
BEAT_S = 10.0
_NETWORK = re.compile(
    rb"dns error|name resolution|connection refused|network is unreachable|failed to fetch|error sending request"
    rb"|timed? ?out|newconnectionerror|could not find a version|tunnel",
    re.IGNORECASE,
)


class SetupError(Exception):
    """One line for the user."""


def stamp() -> str:
    """Names what the environment was made from: the locks, the C sources, this file, this Python, this place (it can't
    be moved)."""
    digest = hashlib.sha256(f"{sys.version}\n{CHECKOUT}\n".encode())
    for path in (*(CHECKOUT / name for name in LOCKS), *sorted((CHECKOUT / NATIVE).glob("*.[ch]")), Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def ready() -> bool:
    """Whether the environment is whole and made from the present locks."""
    try:
        return STAMP.read_text() == stamp() and PYTHON.exists()
    except OSError:
        return False


def check_machine() -> None:
    """Raises SetupError for what would fail later and less clearly."""
    if not sys.platform.startswith("linux"):
        raise SetupError(f"the embedded parts run on Linux only, this is {sys.platform}")
    OWN.mkdir(exist_ok=True)
    free = shutil.disk_usage(OWN).free / 1e9
    if free < FREE_GB:
        raise SetupError(f"{CHECKOUT} has {free:.1f} GB free, the set-up needs about {FREE_GB}; make room")


def make_venv() -> None:
    """Create `.venv`, or again when the one that is there doesn't run."""
    if PYTHON.exists() and _runs([str(PYTHON), "-c", f"import sys; sys.exit(sys.version != {sys.version!r})"]):
        return
    if not _runs([sys.executable, "-c", "import venv, ensurepip"]):
        raise SetupError(f"{sys.executable} has no venv module; install it (Debian, Ubuntu: python3.11-venv)")
    step("creating .venv", [sys.executable, "-m", "venv", "--clear", str(VENV)])


def install_installer() -> Path:
    """uv and the build backend in a folder of their own, so that `.venv` holds exactly what is locked."""
    lock = CHECKOUT / "requirements-bootstrap.txt"
    folder = OWN / "bootstrap" / hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    if (folder / "bin" / "uv").exists():
        return folder
    shutil.rmtree(OWN / "bootstrap", ignore_errors=True)
    fresh = OWN / "bootstrap" / "new"
    if not _runs([str(PYTHON), "-m", "pip", "--version"]):
        step("restoring pip", [str(PYTHON), "-m", "ensurepip"])
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--require-hashes", "--no-deps"]
    step("installing the installer (uv)", [*pip, "--target", str(fresh), "-r", str(lock)])
    fresh.rename(folder)
    return folder


def install_packages(installer: Path) -> None:
    """Exactly what requirements.lock says, hashes checked; then this project, editable, with its C library."""
    uv = [str(installer / "bin" / "uv"), "--no-progress", "--no-config", "pip"]
    lock = CHECKOUT / "requirements.lock"
    count = len(re.findall(r"^[\w.\[\]-]+==", lock.read_text(), re.MULTILINE))
    step(
        f"installing {count} packages (1.1 GB)",
        [*uv, "sync", "--python", str(PYTHON), "--require-hashes", str(lock)],
    )
    for old in _libraries():
        old.unlink()
    project = ["install", "--python", str(PYTHON), "--no-deps", "--no-build-isolation", "--offline", "--reinstall"]
    command = [*uv, *project, "--editable", str(CHECKOUT)]
    step("installing tidegate", command, {"PYTHONPATH": str(installer), **own_compiler()})
    if _libraries():
        return
    try:
        step("installing tidegate again, with a C compiler", command, packaged_compiler(uv, installer))
    except SetupError as error:
        say(str(error))
    if not _libraries():
        say("the C library that decodes JSON could not be built; going on without it: jobs take about 7 times the CPU")


def compiler_here() -> list[str]:
    """This machine's C compiler as a command, which may not work; empty without one."""
    if os.environ.get("CC", "").strip():
        return os.environ["CC"].split()
    usual = (sysconfig.get_config_var("CC") or "cc").split()[0]
    return [name for name in (usual, "cc", "gcc", "clang") if shutil.which(name)][:1]


def own_compiler() -> dict[str, str]:
    """Environment in which the build finds this machine's C compiler, if there is one."""
    usual = (sysconfig.get_config_var("CC") or "cc").split()[0]
    found = compiler_here()
    return {} if "CC" in os.environ or found in ([], [usual]) else {"CC": found[0]}


def packaged_compiler(uv: list[str], installer: Path) -> dict[str, str]:
    """A C compiler from the package registry, for machines without one. Returns the environment that uses it."""
    lock = CHECKOUT / "requirements-compiler.txt"
    folder = OWN / "compiler" / hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    if not folder.exists():
        shutil.rmtree(OWN / "compiler", ignore_errors=True)
        fresh = OWN / "compiler" / "new"
        place = ["install", "--python", str(PYTHON), "--no-deps", "--require-hashes", "--target", str(fresh)]
        step("installing a C compiler (zig, 100 MB)", [*uv, *place, "-r", str(lock)])
        fresh.rename(folder)
    cache = str(OWN / "compiler" / "cache")
    return {
        "PYTHONPATH": os.pathsep.join([str(installer), str(folder)]),
        "CC": f"{PYTHON} -m ziglang cc -mcpu=baseline",  # else for this very processor, and an older one would stop
        "ZIG_GLOBAL_CACHE_DIR": cache,
        "ZIG_LOCAL_CACHE_DIR": cache,
    }


def _libraries() -> list[Path]:
    return list((CHECKOUT / NATIVE).glob("_native*.so"))


def compile_packages() -> None:
    """Python's compiled code, once: where PYTHONDONTWRITEBYTECODE is set, or the folder is read only later, each
    process of Airflow's and each Spark job would compile what it imports again, for seconds."""
    packages = next((VENV / "lib").glob("python*/site-packages"))
    command = [str(PYTHON), "-m", "compileall", "-q", "-j", "0", "-x", r"/(tests?|testing)/", str(packages)]
    try:
        step("compiling the packages", command)
    except SetupError as error:
        say(f"{error}; going on without it")


def prepare_spark() -> None:
    """An archive that makes Spark start faster; without it all works, more slowly."""
    try:
        step("preparing an archive of Spark's classes", [str(PYTHON), "-m", "dev.stack.spark"])
    except SetupError as error:
        say(f"{error}; going on without it")


def step(what: str, command: list[str], env: dict[str, str] | None = None) -> None:
    """Run a command with its output in the log; says what and how long. Raises SetupError when it fails."""
    say(f"{what} ...")
    began = time.monotonic()
    LOG.parent.mkdir(parents=True, exist_ok=True)
    (OWN / "tmp").mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(OWN / "tmp"), "PYTHONDONTWRITEBYTECODE": "", **(env or {})}
    with open(LOG, "wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=CHECKOUT
        )
        try:
            while True:
                try:
                    code = process.wait(BEAT_S)
                    break
                except subprocess.TimeoutExpired:
                    say(f"{what}: {time.monotonic() - began:.0f} s")
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if code:
        raise SetupError(f"{what} failed: {explain(LOG.read_bytes())} (log: {LOG})")
    say(f"{what}: done, {time.monotonic() - began:.1f} s")


def explain(output: bytes) -> str:
    """The cause in a few words, from an installer's output."""
    last = next((line.strip() for line in reversed(output.decode(errors="replace").splitlines()) if line.strip()), "")
    if b"No space left on device" in output:
        return "the disk is full; make room and run it again"
    if b"THESE PACKAGES DO NOT MATCH THE HASHES" in output or b"Hash mismatch" in output:
        return f"a download does not match its locked hash: {last}"
    if _NETWORK.search(output):
        return f"the package registry could not be reached (network, proxy?): {last}"
    return last


def say(line: str) -> None:
    """Progress, at once."""
    print(f"[setup] {line}", flush=True)


def _runs(command: list[str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def main() -> int:
    """0 when the environment is ready."""
    if sys.version_info[:2] != (3, 11):
        print(f"[setup] Python 3.11 is needed, {sys.executable} is {sys.version.split()[0]}", file=sys.stderr)
        return 1
    if ready():
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    try:
        check_machine()
        with open(OWN / "setup.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two at once would undo each other's work
            if not ready():
                make_venv()
                install_packages(install_installer())
                compile_packages()
                prepare_spark()
                STAMP.write_text(stamp())
        say(f"ready, {time.monotonic() - began:.1f} s")
    except SetupError as error:
        print(f"[setup] {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"[setup] {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\n[setup] interrupted; run it again to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
