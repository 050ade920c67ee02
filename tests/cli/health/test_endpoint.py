"""Where `rowlock worker --health` answers: a port, a socket, a file, and systemd; and what a probe makes of it."""

from __future__ import annotations

import json
import os
import socket
import time
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest
from tests.host_processes import free_port
from tests.waiting import until

from rowlock import ConfigurationError, InvalidOption, WorkerNotFound
from rowlock.cli.health import endpoint
from rowlock.cli.health.endpoint import answering
from rowlock.cli.health.probe import ask
from rowlock.flow.worker.health import WorkerHealth, WorkerPhase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

AT_WORK = WorkerHealth(WorkerPhase.RUNNING, 2)
HUNG = WorkerHealth(WorkerPhase.RUNNING, 2, hung="the event loop has been blocked for 61 s")
DRAINED = WorkerHealth(WorkerPhase.DRAINED, 0, not_ready="it has finished draining")


class Told:
    """What the worker says of itself at this moment."""

    def __init__(self) -> None:
        self.health = AT_WORK

    def __call__(self, _now: float) -> WorkerHealth:
        return self.health


def get(port: int, path: str) -> tuple[int, dict[str, object]]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def test_a_port_answers_each_question_with_200_or_503() -> None:
    told, port = Told(), free_port()
    with answering(str(port), told):
        state = {"phase": "running", "live": True, "ready": True, "drained": False, "running_jobs": 2, "reason": None}
        assert get(port, "/healthz") == get(port, "/readyz") == (200, state)
        assert get(port, "/drained") == (503, state)
        assert get(port, "/")[0] == 404
        told.health = HUNG
        assert [get(port, path)[0] for path in ("/healthz", "/readyz", "/drained")] == [503, 503, 503]
        assert get(port, "/healthz?verbose")[1]["reason"] == "the event loop has been blocked for 61 s"
        assert ask(str(port))["live"] is False
    with pytest.raises(WorkerNotFound, match=rf"No worker answers at {port}: Connection refused"):
        ask(str(port))


def test_a_port_that_is_taken_and_words_that_name_nothing_are_refused(tmp_path: Path) -> None:
    port = free_port()
    with (
        answering(f"127.0.0.1:{port}", Told()),
        pytest.raises(
            ConfigurationError, match=f"--health {port}: this address cannot be used: Address already in use"
        ),
        answering(str(port), Told()),
    ):
        pass
    for wrong in ("health", "0", "70000", ":8081", "localhost:http"):
        with pytest.raises(InvalidOption, match="--health takes a port"), answering(wrong, Told()):
            pass
    with (
        pytest.raises(ConfigurationError, match="this file cannot be written: No such file or directory"),
        answering(str(tmp_path / "nowhere" / "health"), Told()),
    ):
        pass


def test_a_slow_client_keeps_nobody_from_being_answered() -> None:
    port = free_port()
    with answering(str(port), Told()):
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        assert get(port, "/healthz")[0] == 200
        for each in silent:
            each.close()


def test_a_socket_answers_and_one_left_behind_by_a_killed_process_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "w.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with answering(str(path), Told()):
        assert ask(str(path))["ready"] is True
        with pytest.raises(ConfigurationError, match="cannot be used"), answering(str(path), Told()):
            pass
        assert ask(str(path))["ready"] is True  # the second one took nothing from the first
    assert not path.exists()
    path.write_text("mine")
    with pytest.raises(ConfigurationError, match="cannot be used"), answering(str(path), Told()):
        pass
    assert path.read_text() == "mine"


async def test_a_file_follows_the_worker_and_says_in_the_end_that_it_has_drained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "EVERY", 0.01)
    told, path = Told(), tmp_path / "health"
    with answering(str(path), told):
        assert ask(str(path))["ready"] is True
        told.health = HUNG
        await until(lambda: ask(str(path))["live"] is False)
        told.health = DRAINED
    state = json.loads(path.read_text())
    assert (state["phase"], state["drained"]) == ("drained", True)
    assert os.listdir(tmp_path) == ["health"]  # noqa: PTH208 - a test of files
    path.write_text(json.dumps({**state, "at": time.time() - 3600}))
    assert ask(str(path))["drained"] is True
    path.write_text(json.dumps({**state, "drained": False, "at": time.time() - 60}))
    with pytest.raises(WorkerNotFound, match="was last written 60 s ago; its process is dead or hangs"):
        ask(str(path))
    path.write_text("{")
    with pytest.raises(WorkerNotFound, match="No worker answers at"):
        ask(str(path))


@pytest.fixture
def notified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], set[str]]]:
    """systemd's end of the line: the lines of the next message."""
    monkeypatch.setattr(endpoint, "EVERY", 0.01)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.settimeout(30)
        line.bind(str(tmp_path / "notify"))
        yield lambda: set(line.recv(4096).decode().split("\n"))


def test_systemd_is_told_once_that_the_worker_is_ready_and_again_and_again_that_it_lives(
    notified: Callable[[], set[str]],
) -> None:
    told = Told()
    told.health = WorkerHealth(WorkerPhase.STARTING, 0, not_ready="it waits")
    with answering(None, told):
        assert notified() == {"STATUS=starting: it waits", "WATCHDOG=1"}
        told.health = AT_WORK
        while "READY=1" not in (lines := notified()):
            assert "WATCHDOG=1" in lines
        assert notified() == {"STATUS=running", "WATCHDOG=1"}
        told.health = HUNG
        signs = [notified() for _ in range(5)]  # one may have been on its way
        assert signs[-1] == {f"STATUS=running: {HUNG.hung}"}
        told.health = DRAINED
    while "STOPPING=1" not in (lines := notified()):
        assert "READY=1" not in lines
    assert "NOTIFY_SOCKET" in os.environ  # a process that starts itself anew must find it again
