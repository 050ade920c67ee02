"""A real PostgreSQL for every test: one server for all workers, one fresh database per test.

ROWLOCK_TEST_PG chooses the server: 18 (default) or 16 from the embedded package, 15 from ROWLOCK_TEST_PGBIN or Debian's
folder, or a folder of PostgreSQL programs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import psycopg
import pytest
from tests.databases import SETTINGS, TEMPLATE, at, built_once, chosen_server, fresh, one_at_a_time
from tests.memory import keep_databases_in_memory

from rowlock.store.embedded import keeper, start

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

# On a machine that others use too, a slow example says nothing about the code.
hypothesis.settings.register_profile("shared", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("shared")

# Under nohup, or in the background of a script, SIGINT is ignored, and every process that a test starts would inherit
# that: Ctrl-C is tested all the same.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = Path(__file__).parent
SLOW = {
    "delivery/test_conformance.py": "starts and kills brokers and the processes behind them, for each carrier",
    "delivery/test_faults.py": "loses and kills brokers while a thousand jobs wait and run",
    "torture": "kills, stops and starves worker processes and servers",
    "machine/test_machine.py": "thousands of random steps, each compared with an oracle",
    "fuzz": "hundreds of strange inputs for every door",
    "browser": "drives a real browser against real servers",
    "dashboard/pages": "opens every page of the dashboard in a real browser",
    "dashboard/test_incidents.py": "stages five incidents with real workers and a real browser",
    "dashboard/test_keyboard.py": "drives the dashboard in a real browser",
    "dashboard/test_login.py": "as above",
    "dashboard/test_network.py": "as above",
    "dashboard/test_shell.py": "walks through the dashboard in a real browser, and restarts its server",
    "examples": "runs whole applications in several processes, and kills and pauses these",
    "bench": "runs the benchmark's scenes and installs an environment",
    "races/test_lock_order.py": "stages every pair of writing statements at every row that they share",
    "store/test_embedded.py": "starts and kills servers, as two users",
    "cli/commands/test_demo.py": "runs the whole demo five times",
    "cli/commands/test_bench.py": "runs the benchmark of the command line six times",
    "cli/process/test_reload.py": "restarts worker processes when files change",
    "flow/executors/test_parent_killed.py": "kills a worker under each executor and waits until its job is rescued",
    "flow/worker/test_stalled.py": "waits until jobs that report nothing are given up, attempt by attempt",
    "webhooks/test_worker_killed.py": "kills workers between the end of a job and its delivery, and waits for rescue",
    "typing/test_typing.py": "runs two type checkers over every example",
    "api/test_server.py": "starts and stops servers, without a database and behind proxies too",
    "api/routes/test_streams_trouble.py": "takes the database and the server from under open streams",
    "api/routes/test_streams_restarted.py": "restarts the server under the streams of a thousand jobs",
}
"""Suites that `make test` leaves out; each takes more than 15 s of processor or waiting time, and why."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = [HERE / name for name in SLOW]
    for item in items:
        if any(place == item.path or place in item.path.parents for place in slow):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same folder in every worker of this run."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def server_url(shared_folder: Path) -> Iterator[str]:
    """The server of this run; the worker that leaves last removes it."""
    guard = shared_folder / "postgres.lock"
    with one_at_a_time(guard):
        held = start(shared_folder / "postgres", settings=SETTINGS, **chosen_server())
        memory = keep_databases_in_memory(held)
    yield held.url
    with one_at_a_time(guard):
        held.close()
        with contextlib.suppress(BlockingIOError):
            os.close(keeper.lock(held.directory / "users.lock", fcntl.LOCK_EX | fcntl.LOCK_NB))
            os.close(keeper.lock(held.directory / "keeper.lock", fcntl.LOCK_EX))  # waits for the keeper's end
            shutil.rmtree(held.directory)
            if memory is not None:
                shutil.rmtree(memory, ignore_errors=True)  # another run may be removing it as one that was killed


@pytest.fixture(scope="session")
def administrator(server_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(at(server_url, "postgres"), autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def template(shared_folder: Path, server_url: str, administrator: psycopg.Connection[Any]) -> str:
    """The name of a database with the newest schema, built by the worker that comes first."""
    from rowlock.store.schema.migrate import upgrade  # noqa: PLC0415 - only tests with a database need the store

    built_once(shared_folder, administrator, server_url, TEMPLATE, lambda url: upgrade(url, schema="rowlock"))
    return TEMPLATE


@pytest.fixture
def database_url(administrator: psycopg.Connection[Any], server_url: str, template: str) -> Iterator[str]:
    """A fresh database with Rowlock's schema, for one test."""
    with fresh(administrator, server_url, template) as url:
        yield url


@pytest.fixture
def empty_database_url(administrator: psycopg.Connection[Any], server_url: str) -> Iterator[str]:
    """A fresh database without the schema, for one test."""
    with fresh(administrator, server_url, "template0") as url:
        yield url


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """A failure may show texts that are none (half a surrogate pair), which no other process can be told."""
    return _sendable((yield))


def _sendable(value: Any) -> Any:  # noqa: ANN401 - whatever a report holds
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {_sendable(key): _sendable(inner) for key, inner in value.items()}
        case list() | tuple():
            return type(value)(_sendable(inner) for inner in value)
        case _:
            return value
