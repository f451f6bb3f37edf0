"""Ports, passwords, state and environment files of a stack."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from dev.stack.environment import write_env_file
from dev.stack.errors import PartDied, StackError, last_lines
from dev.stack.kafka import cluster_id
from dev.stack.locks import file_lock
from dev.stack.ports import LOOPBACK, choose_ports, is_free
from dev.stack.processes import inherited
from dev.stack.secrets import Secrets
from dev.stack.stack import Stack
from dev.stack.state import State


@pytest.fixture
def taken() -> int:
    """A port on which somebody listens."""
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_ports_are_distinct_free_and_stay_the_same() -> None:
    first = choose_ports(("a", "b", "c"), {})
    assert len(set(first.values())) == 3
    assert all(is_free(port) for port in first.values())
    assert choose_ports(("c", "a"), first) == {"c": first["c"], "a": first["a"]}


def test_a_taken_port_is_replaced(taken: int) -> None:
    assert not is_free(taken)
    assert choose_ports(("a",), {"a": taken})["a"] != taken


def test_a_port_that_another_process_chose_is_replaced() -> None:
    """Though nobody listens on it yet."""
    code = "import sys; from dev.stack.ports import choose_ports; print(*choose_ports('a', {}).values(), flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", f"{code}; sys.stdin.read()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        held = int(other.stdout.readline())
        assert is_free(held)
        assert choose_ports(("a",), {"a": held})["a"] != held
        other.stdin.close()
    assert choose_ports(("a",), {"a": held}) == {"a": held}, "it is free again when that process has ended"


def test_a_taken_fixed_port_is_an_error(taken: int) -> None:
    with pytest.raises(StackError, match=f"port {taken}, asked for a, is taken"):
        choose_ports(("a",), {}, {"a": taken})


def test_a_fixed_port_is_given_to_nobody_else() -> None:
    free = choose_ports(("a",), {})["a"]
    assert choose_ports(("other", "a"), {"other": free}, {"a": free})["other"] != free


def test_an_env_file_has_values_as_they_are(tmp_path: Path) -> None:
    write_env_file(tmp_path / "env", {"B": 'json {"a": "b=c"} # not a comment', "A": "", "C": "it's"})
    assert (tmp_path / "env").read_text() == 'A=\nB=json {"a": "b=c"} # not a comment\nC=it\'s\n'
    assert (tmp_path / "env").stat().st_mode & 0o777 == 0o600


def test_a_line_break_in_the_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="A has a line break"):
        write_env_file(tmp_path / "env", {"A": "x\nLD_PRELOAD=y"})


def test_secrets_are_made_once_private_and_not_shown(tmp_path: Path) -> None:
    made = Secrets.of_root(tmp_path)
    assert Secrets.of_root(tmp_path) == made
    assert (tmp_path / "secrets.json").stat().st_mode & 0o777 == 0o600
    assert made.airflow_password not in repr(made)
    assert Secrets() != made


def test_state_survives_a_round_trip(tmp_path: Path) -> None:
    state = State(root=tmp_path, run_id="r", parts=["kafka"], ports={"kafka": 1}, processes={"kafka": "1:2"})
    state.save()
    assert State.load(tmp_path) == state
    assert (tmp_path / "stack.json").stat().st_mode & 0o777 == 0o600


def test_a_broken_state_is_named(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text("{")
    with pytest.raises(StackError, match=r"stack\.json is not a stack's state"):
        State.load(tmp_path)


def test_a_lock_is_refused_while_it_is_held(tmp_path: Path) -> None:
    with (
        file_lock(tmp_path / "lock"),
        pytest.raises(StackError, match="busy"),
        file_lock(tmp_path / "lock", wait=False, busy="busy"),
    ):
        pytest.fail("two holders")
    with file_lock(tmp_path / "lock", wait=False):
        pass


def test_a_dead_part_is_quoted_on_one_line(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    log.write_text("first\n" * 9 + "\nCaused by: no space left\n\n")
    text = str(PartDied("kafka", "ended while starting", log))
    assert "\n" not in text
    assert text.startswith("kafka ended while starting; its last words: first | ")
    assert "no space left" in text
    assert last_lines(tmp_path / "none") == "it left no log"


def test_an_unknown_part_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="unknown part kafak"):
        Stack(tmp_path, parts=("kafak",))


def test_airflow_brings_its_database(tmp_path: Path) -> None:
    assert Stack(tmp_path, parts=("airflow",)).parts == ("postgres", "airflow")


def test_yarn_brings_hdfs(tmp_path: Path) -> None:
    assert Stack(tmp_path, parts=("yarn",)).parts == ("hdfs", "yarn")
    assert not {"hdfs", "yarn"} & set(Stack(tmp_path).parts)


def test_a_stack_of_before_gets_a_password_for_kafka_and_keeps_it(tmp_path: Path) -> None:
    made = asdict(Secrets.of_root(tmp_path))
    kept = {key: value for key, value in made.items() if key != "kafka_password"}
    (tmp_path / "secrets.json").write_text(json.dumps(kept))
    found = Secrets.of_root(tmp_path)
    assert asdict(found).items() >= kept.items()
    assert found.kafka_password
    assert Secrets.of_root(tmp_path) == found


def test_a_root_without_a_stack_is_not_well(tmp_path: Path) -> None:
    status = Stack(tmp_path / "none").status()
    assert not status.ok
    assert status.parts == []


def test_settings_of_another_airflow_do_not_reach_the_parts() -> None:
    shell = {"PATH": "/bin", "AIRFLOW_HOME": "/elsewhere", "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR"}
    assert inherited(shell) == {"PATH": "/bin"}


def test_a_cluster_id_is_never_taken_for_an_option() -> None:
    assert all(cluster_id()[0] not in "-_" and len(cluster_id()) == 22 for _ in range(2000))
