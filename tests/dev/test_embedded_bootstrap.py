"""The set-up's decisions; the set-up itself is run by every `make`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dev import bootstrap
from dev.stack.places import Places


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with locks and an environment that was made from them."""
    for name in bootstrap.LOCKS:
        (tmp_path / name).write_text(name)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").touch()
    monkeypatch.setattr(bootstrap, "CHECKOUT", tmp_path)
    monkeypatch.setattr(bootstrap, "OWN", tmp_path / ".tidegate")
    monkeypatch.setattr(bootstrap, "LOG", tmp_path / ".tidegate" / "logs" / "setup.log")
    monkeypatch.setattr(bootstrap, "STAMP", tmp_path / ".venv" / "tidegate-setup")
    monkeypatch.setattr(bootstrap, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    bootstrap.STAMP.write_text(bootstrap.stamp())
    return tmp_path


def test_a_stamped_environment_is_ready(checkout: Path) -> None:
    assert bootstrap.ready()


@pytest.mark.parametrize("name", bootstrap.LOCKS)
def test_a_changed_lock_asks_for_a_new_set_up(checkout: Path, name: str) -> None:
    (checkout / name).write_text("changed")
    assert not bootstrap.ready()


def test_a_changed_c_source_asks_for_a_new_set_up(checkout: Path) -> None:
    folder = checkout / bootstrap.NATIVE
    folder.mkdir(parents=True)
    (folder / "one.c").write_text("int one;")
    assert not bootstrap.ready()
    bootstrap.STAMP.write_text(bootstrap.stamp())
    (folder / "_native.cpython-311-x86_64-linux-gnu.so").touch()  # built, no source
    assert bootstrap.ready()


@pytest.mark.parametrize(
    ("builds", "steps"),
    [
        ([True], ["packages", "tidegate"]),
        ([False, True], ["packages", "tidegate", "compiler", "again"]),
        ([False, False], ["packages", "tidegate", "compiler", "again"]),
    ],
    ids=["a compiler is there", "zig instead", "neither"],
)
def test_the_library_is_built_with_whatever_compiler_can_be_had(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, builds: list[bool], steps: list[str]
) -> None:
    folder, seen, environments = checkout / bootstrap.NATIVE, [], []
    folder.mkdir(parents=True)
    stale = folder / "_native.so"
    stale.touch()
    monkeypatch.setattr(bootstrap, "own_compiler", dict)

    def step(what: str, command: list[str], env: dict[str, str] | None = None) -> None:
        seen.append(
            next(word for word in ("compiler (zig", "again", "packages", "tidegate") if word in what).split()[0]
        )
        if "--target" in command:
            Path(command[command.index("--target") + 1]).mkdir(parents=True)
        if "--editable" in command:
            assert not stale.exists()
            environments.append(env)
            if builds[len(environments) - 1]:
                stale.touch()

    monkeypatch.setattr(bootstrap, "step", step)
    bootstrap.install_packages(checkout / "installer")
    assert seen == steps
    assert stale.exists() == builds[-1]
    assert ("could not be built" in capsys.readouterr().out) == (not builds[-1])
    if len(builds) == 2:
        assert environments[1]["CC"] == f"{bootstrap.PYTHON} -m ziglang cc -mcpu=baseline"
        assert str(checkout / ".tidegate" / "compiler") in environments[1]["PYTHONPATH"]


def test_the_machine_s_own_compiler_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    there: set[str] = set()
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: name if name in there else None)
    monkeypatch.setattr(bootstrap.sysconfig, "get_config_var", lambda _: "gcc -pthread")
    assert bootstrap.own_compiler() == {}
    there.add("clang")
    assert bootstrap.own_compiler() == {"CC": "clang"}
    there.add("gcc")
    assert bootstrap.own_compiler() == {}


def test_an_environment_without_python_is_not_ready(checkout: Path) -> None:
    bootstrap.PYTHON.unlink()
    assert not bootstrap.ready()


def test_a_moved_checkout_is_not_ready(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = checkout.rename(checkout.with_name("moved"))
    monkeypatch.setattr(bootstrap, "CHECKOUT", moved)
    monkeypatch.setattr(bootstrap, "STAMP", moved / ".venv" / "tidegate-setup")
    monkeypatch.setattr(bootstrap, "PYTHON", moved / ".venv" / "bin" / "python")
    assert not bootstrap.ready()


def test_a_full_disk_is_told_before_anything_is_downloaded(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "FREE_GB", 10**9)
    with pytest.raises(bootstrap.SetupError, match="GB free, the set-up needs about"):
        bootstrap.check_machine()


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (b"Caused by: dns error: failed to lookup address information\n", "could not be reached"),
        (b"ERROR: Could not find a version that satisfies the requirement uv==0\n", "could not be reached"),
        (b"write failed\nNo space left on device (os error 28)\n", "the disk is full"),
        (b"error: Hash mismatch for `rich==1.0`\n", "does not match its locked hash"),
        (b"first\nsomething else\n\n", "something else"),
        (b"", ""),
    ],
)
def test_failures_are_explained_in_one_line(output: bytes, says: str) -> None:
    explained = bootstrap.explain(output)
    assert says in explained
    assert "\n" not in explained


def test_a_failing_step_quotes_its_log(checkout: Path) -> None:
    command = [sys.executable, "-c", "import sys; print('the cause'); sys.exit(3)"]
    with pytest.raises(bootstrap.SetupError, match=r"building failed: the cause \(log: .*setup\.log\)"):
        bootstrap.step("building", command)


def test_it_needs_nothing_but_the_standard_library() -> None:
    code = f"import runpy; runpy.run_path({str(bootstrap.__file__)!r})"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


def test_the_bootstrap_lock_has_hashes_and_no_host() -> None:
    text = (Places.of_checkout().checkout / "requirements-bootstrap.txt").read_text()
    assert "--hash=sha256:" in text
    assert "://" not in text
    assert "--index" not in text
