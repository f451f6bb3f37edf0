"""The C library itself: whether there is one, of which sources, on which processor, and that it stays in its bytes."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from array import array
from collections import Counter
from pathlib import Path

import pytest
from engine_fixtures import all_rows, event, job_plan, pipeline, records, serving

from spark_jobs.engine import native
from spark_jobs.engine.formats.json_program import Program, describe, laid_out, unreadable
from spark_jobs.engine.job import run_plan
from tests import wire_differential
from tests.avro_recording import recorded_avro
from tests.csv_recording import recorded_csv
from tests.json_differential import CASES, compare, messages, spec_of
from tests.worker.test_engine_native import ROOT, SOURCES, spec
from tidegate.core.files.receipt import DATA, DIRTY
from tidegate.core.spec.pipeline import Column
from tidegate.storage.local import LocalStorage


def test_without_the_library_all_is_the_same_and_the_job_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def rows(folder: str) -> list[dict]:
        plan = job_plan(pipeline(tmp_path / folder), [(0, 0, 4), (1, 0, 4)])
        made = {p: records([event(count=p), event(count="x"), b"no", event(reading={"value": 1e-9})]) for p in (0, 1)}
        receipt = run_plan(plan, LocalStorage(), open_reader=serving(made), tasks=2)
        return [all_rows(plan, receipt, kind) for kind in (DATA, DIRTY)]

    monkeypatch.setattr(native, "_asked", False)
    with_it = rows("with")
    assert capsys.readouterr().err == f"tidegate: messages were decoded by {native.named()}\n"
    monkeypatch.setattr(native, "_load", lambda: "it was not built")
    monkeypatch.setattr(native, "_asked", False)
    assert rows("without") == with_it
    assert len(with_it[0]) == len(with_it[1]) == 4
    said = capsys.readouterr().err
    assert (
        said.count("needs, because it was not built; what to do: wherever Spark's workers run, install the wheel") == 1
    )
    assert said.count("\n") == 1


def test_the_library_is_named_with_its_version_and_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = os.uname().machine
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.36")
    assert native.named() == f"the C library (version {native.VERSION}, {machine}, glibc 2.36)"
    for answer in (lambda name: None, lambda name: int("unknown name")):
        monkeypatch.setattr(os, "confstr", answer)
        assert native.here() == f"{machine}, musl"


def test_why_there_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = native._load.__wrapped__
    monkeypatch.setattr(native, "FOLDER", tmp_path)
    assert load() == f"the C library is missing: there is no _native.so in {tmp_path}"
    (tmp_path / "_native.so").write_text("not a library")
    assert "_native.so cannot be loaded on this machine" in load()
    (tmp_path / "tidegate.whl").touch()
    monkeypatch.setattr(native, "FOLDER", tmp_path / "tidegate.whl/spark_jobs/engine/native")
    assert load() == f"the C library cannot be loaded from inside of {tmp_path}/tidegate.whl"


def test_a_library_of_other_sources_is_not_used(tmp_path: Path) -> None:
    assert "cannot be loaded" in str(native.open_library(tmp_path / "nothing.so"))
    (tmp_path / "odd.c").write_text("int tg_version(void) { return 0; }")
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    subprocess.run([compiler, "-shared", "-fPIC", "odd.c", "-o", "odd.so"], cwd=tmp_path, check=True)
    assert "was built from other sources" in str(native.open_library(tmp_path / "odd.so"))


def test_processors_without_sse2_read_the_same(
    tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    # as on arm64: no SSE2, and a plain char has no sign
    flags = ["-std=gnu11", "-O1", "-DTG_PORTABLE", "-funsigned-char", "-shared", "-fPIC", "-fvisibility=hidden"]
    built = tmp_path / "portable.so"
    subprocess.run([compiler, *flags, *map(str, sorted(SOURCES.glob("*.c"))), "-o", str(built)], check=True)
    library = native.open_library(built)
    assert not isinstance(library, str), library
    for name in CASES:
        assert compare(name, rng.randrange(2**32), 200, library)["sure"] > 10
    program = Program(library, spec(Column(name="c", type="string", path="$.c")))
    for n in range(20):
        for code in range(0x30):
            body = b"x" * n + bytes([code]) + b"y" * (20 - n)
            batch, look = program.run([b'{"c":"%s"}' % body, b'{"z":"%s"}' % body])
            odd = code < 0x20 or code == ord('"')
            assert look == ([0, 1] if odd else []), body
            assert odd or batch.column(0)[0].as_py().encode() == body
    monkeypatch.setattr(native, "_load", lambda: library)
    found = Counter[str]()
    for case in rng.sample(wire_differential.cases("csv", rng, 20), 20):
        found += wire_differential.compare("csv", case, rng, 50)
    assert found["sure"] > 50, found


def _recorded(name: str, rng: random.Random, count: int) -> bytes:
    """A pipeline and chunks of messages as tests/native/replay.c reads them."""
    of = spec_of(name)
    description = describe(of, unreadable(of))
    parts = [array("i", [description.count, len(description.names), -1]).tobytes()]
    parts += [description.numbers.tobytes(), bytes(description.names)]
    for size in (count, 1, 7):
        data, lengths = laid_out(list(messages(name, rng, size)))
        parts += [array("i", [size, len(data)]).tobytes(), lengths.tobytes(), data]
    return b"".join(parts)


@pytest.mark.parametrize("flags", [[], ["-DTG_PORTABLE"]], ids=["blocks of 16", "blocks of 8"])
def test_no_byte_is_read_or_written_that_is_not_its_own(flags: list[str], tmp_path: Path, rng: random.Random) -> None:
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no gcc, no clang")
    checked = [compiler, "-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", *flags]
    sources = [*map(str, sorted(SOURCES.glob("*.c"))), str(ROOT / "tests/native/replay.c")]
    built = subprocess.run([*checked, *sources, "-o", str(tmp_path / "replay")], capture_output=True, text=True)
    if built.returncode and "cannot find" in built.stderr:
        pytest.skip(f"no sanitizers: {built.stderr.strip()[-200:]}")
    assert built.returncode == 0, built.stderr
    for name in CASES:
        (tmp_path / name).write_bytes(_recorded(name, rng, 1_500))
    (tmp_path / "avro").write_bytes(recorded_avro(rng, 1_500))
    others = ["avro", *(f"csv {n}" for n in range(8))]
    for name in others[1:]:
        (tmp_path / name).write_bytes(recorded_csv(rng, 300))
    done = subprocess.run([str(tmp_path / "replay"), *CASES, *others], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr[-2000:]) == (0, "")
