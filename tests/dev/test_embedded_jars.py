"""Locks of jars: what they say is exactly what is installed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from dev.stack import jars
from dev.stack.errors import StackError
from dev.stack.jars import Artifact, ensure_jars, format_lock, parse_lock
from dev.stack.places import Places

PLAIN = Artifact("org.example", "lake", "1.0")
NATIVE = Artifact("org.example", "tide", "2.1", "linux-x86_64")
CONTENT = {PLAIN: b"lake", NATIVE: b"tide"}


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """A checkout with a lock `small` of two jars, and an Ivy that delivers CONTENT."""
    locks = tmp_path / "locks"
    locks.mkdir()
    locked = {artifact: hashlib.sha256(content).hexdigest() for artifact, content in CONTENT.items()}
    (locks / "small.lock").write_text(format_lock(locked))
    monkeypatch.setattr(jars, "LOCKS", locks)
    deliver(monkeypatch, tmp_path, CONTENT)
    return Places(tmp_path)


def deliver(monkeypatch: pytest.MonkeyPatch, folder: Path, content: dict[Artifact, bytes]) -> None:
    """Stand in for a run of Ivy."""

    def run(*_: object) -> Path:
        out = folder / "delivered"
        for artifact, data in content.items():
            path = out / jars._ivy_path(artifact)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return out

    monkeypatch.setattr(jars, "_run_ivy", run)


def test_a_lock_survives_a_round_trip() -> None:
    locked = {NATIVE: "b" * 64, PLAIN: "a" * 64}
    assert parse_lock(format_lock(locked)) == locked
    assert format_lock(locked).splitlines()[0].endswith("org.example:lake:1.0  lake-1.0.jar")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("abc  org.example:lake:1.0  lake-1.0.jar", "line 1"),
        (f"{'a' * 64}  org.example:lake  lake.jar", "not group:artifact:version"),
        (f"{'a' * 64}  org.example:lake:1.0  other.jar", "wrong file name"),
        (f"{'a' * 64}  org.example:lake:1.0", "line 1"),
    ],
)
def test_a_malformed_lock_is_refused(line: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_lock(line)


def test_the_same_artifact_twice_is_refused() -> None:
    line = f"{'a' * 64}  org.example:lake:1.0  lake-1.0.jar\n"
    with pytest.raises(ValueError, match="line 2"):
        parse_lock(line * 2)


@pytest.mark.parametrize("lock", sorted(jars.LOCKS.glob("*.lock")), ids=lambda path: path.stem)
def test_committed_locks_are_well_formed_and_name_no_host(lock: Path) -> None:
    text = lock.read_text()
    locked = parse_lock(text)
    assert locked
    assert format_lock(locked) == text
    assert "/" not in text
    assert lock.with_suffix(".toml").exists()
    names = [artifact.file_name for artifact in locked]
    assert len(set(names)) == len(names)


def test_a_set_is_installed_once(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ensure_jars("small", places)
    assert {path.name: path.read_bytes() for path in folder.glob("*.jar")} == {
        "lake-1.0.jar": b"lake",
        "tide-2.1-linux-x86_64.jar": b"tide",
    }
    monkeypatch.setattr(jars, "_run_ivy", lambda *_: pytest.fail("fetched again"))
    assert ensure_jars("small", places) == folder


def test_another_content_is_refused_and_nothing_is_installed(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    deliver(monkeypatch, places.checkout, {PLAIN: b"lake", NATIVE: b"another tide"})
    with pytest.raises(StackError, match=r"org\.example:tide:2\.1:linux-x86_64 has sha256 .* refused") as refused:
        ensure_jars("small", places)
    assert "\n" not in str(refused.value)
    assert not (places.jars / "small").exists()


def test_an_artifact_that_was_not_delivered_is_named(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    deliver(monkeypatch, places.checkout, {PLAIN: b"lake"})
    with pytest.raises(StackError, match=r"tide:2\.1"):
        ensure_jars("small", places)


def test_an_interrupted_fetch_starts_again(places: Places) -> None:
    half = places.jars / "small.new"
    half.mkdir(parents=True)
    (half / "stray.jar").write_bytes(b"half")
    folder = ensure_jars("small", places)
    assert not (folder / "stray.jar").exists()


def test_a_changed_lock_replaces_the_set(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ensure_jars("small", places)
    (jars.LOCKS / "small.lock").write_text(format_lock({PLAIN: hashlib.sha256(b"new lake").hexdigest()}))
    deliver(monkeypatch, places.checkout, {PLAIN: b"new lake"})
    assert ensure_jars("small", places) == folder
    assert [path.read_bytes() for path in folder.glob("*.jar")] == [b"new lake"]


def test_several_classifiers_of_a_module_are_one_dependency() -> None:
    other = Artifact("org.example", "tide", "2.1", "osx-x86_64")
    xml = jars._exact([NATIVE, other, PLAIN])
    assert xml.count("<dependency ") == 2
    assert xml.count("<artifact ") == 3
    roots = jars._transitive([NATIVE, other, Artifact("org.example", "lake", "1.0")], [])
    assert (roots.count("<dependency "), roots.count("<artifact ")) == (2, 2), "what has no classifier is its POM's"


def test_proxies_are_told_to_java() -> None:
    proxies = {"https": "http://proxy.example:3128", "no": "localhost, .example"}
    assert jars._proxy_options(proxies) == [
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.nonProxyHosts=localhost|.example",
    ]
    assert jars._proxy_options({}) == []
