"""The example project on a database of each test's own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.databases import built_once, fresh
from tests.django_project import EXAMPLE, SETTINGS, entry_of, environment, set_up

set_up()  # before test modules import models

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psycopg

    from rowlock.contrib.django.application import DjangoRowlock

TEMPLATE = "rowlock_django"


@pytest.fixture(autouse=True)
def settings_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Child processes of a test find the settings, as those of a Django server do."""
    monkeypatch.setenv(SETTINGS, "shop.settings")


def manage(database_url: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run manage.py to its end."""
    return subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=EXAMPLE,
        env=environment(database_url, **more),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


async def _migrate(database_url: str) -> None:
    done = await asyncio.to_thread(manage, database_url, "migrate")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def django_template(shared_folder: Path, server_url: str, administrator: psycopg.Connection[Any], template: str) -> str:
    """The name of a database that `manage.py migrate` has filled; Rowlock's tables were there before."""
    built_once(shared_folder, administrator, server_url, TEMPLATE, _migrate, template=template)
    return TEMPLATE


@pytest.fixture
def project_url(administrator: psycopg.Connection[Any], server_url: str, django_template: str) -> Iterator[str]:
    """A fresh database with the tables of the example, for one test."""
    with fresh(administrator, server_url, django_template) as url:
        yield url


@pytest.fixture
def project(project_url: str) -> Iterator[DjangoRowlock]:
    """The example's application in this process, on a fresh database."""
    from django.db import connections  # noqa: PLC0415 - after set_up()

    from rowlock.contrib.django import app  # noqa: PLC0415 - after set_up()

    before = dict(connections.settings["default"])
    _close_everywhere()
    connections.settings["default"].update(entry_of(project_url))
    yield app
    app.disconnect()
    _close_everywhere()
    connections.settings["default"].update(before)


def _close_everywhere() -> None:
    """Close Django's connections of this thread, and of the one in which async tests use the ORM."""
    from asgiref.sync import SyncToAsync  # noqa: PLC0415 - with Django
    from django.db import connections  # noqa: PLC0415 - after set_up()

    connections.close_all()
    SyncToAsync.single_thread_executor.submit(connections.close_all).result()


@pytest.fixture
def workers(project_url: str, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts `manage.py rowlock worker`; ends what is left of them."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str, **more: str) -> subprocess.Popen[bytes]:
        with (tmp_path / f"worker-{len(started)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "manage.py", "rowlock", "worker", *words],
                cwd=EXAMPLE,
                env=environment(project_url, **more),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
