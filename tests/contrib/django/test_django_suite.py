"""Django's own tests of its Tasks framework, from the source distribution of the installed Django, re-pointed.

The distribution is downloaded by name into .tools/, which no commit contains. Tests of the dummy and the immediate
backend are run against RowlockBackend; `NOT_OURS` lists those that hold for the original backends only.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

import django
import pytest
from tests.contrib.django.conftest import manage
from tests.django_project import EXAMPLE, SUITE, downloaded, environment

if TYPE_CHECKING:
    from pathlib import Path

NOT_OURS = {
    "test_dummy_backend.DummyBackendTestCase.test_refresh_result": "changes a result in the dummy's memory",
    "test_dummy_backend.DummyBackendTestCase.test_refresh_result_async": "changes a result in the dummy's memory",
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_get_result": "results can be read",
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_refresh_result": "results can be read",
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_pass_run_after": "run_after is supported",
    "test_immediate_backend.ImmediateBackendTestCase.test_throws_keyboard_interrupt": "a worker runs the task",
    "test_immediate_backend.ImmediateBackendTransactionTestCase"
    ".test_doesnt_wait_until_transaction_commit_by_default": "a job runs after the commit",
}
REWRITTEN = (
    ("from django.tasks.backends.dummy import DummyBackend", "from repointed import QueuedBackend as DummyBackend"),
    (
        "from django.tasks.backends.immediate import ImmediateBackend",
        "from repointed import RunAtOnceBackend as ImmediateBackend",
    ),
    ("django.tasks.backends.dummy.DummyBackend", "repointed.QueuedBackend"),
    ("django.tasks.backends.immediate.ImmediateBackend", "repointed.RunAtOnceBackend"),
    # Tests without a database become tests with one.
    ("import SimpleTestCase, TransactionTestCase,", "import TransactionTestCase,"),
    ("SimpleTestCase", "TransactionTestCase"),
    ("    available_apps = []\n", ""),
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(django.VERSION < (6,), reason="the Tasks framework, and its tests, came with Django 6.0"),
]


def unpack(into: Path) -> None:
    with tarfile.open(downloaded("django", django.get_version(), "django")) as archive:
        for member in archive.getmembers():
            found = re.fullmatch(r"django-[\w.]+/tests/tasks/(\w+\.py)", member.name)
            content = archive.extractfile(member) if found else None
            if found and content is not None:
                text = content.read().decode()
                for old, new in REWRITTEN:
                    text = text.replace(old, new)
                (into / found[1]).write_text(text)


def test_djangos_own_tests_of_tasks_pass_on_our_backend(project_url: str, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    unpack(tasks)
    skipping = tmp_path / "run.py"
    skipping.write_text(
        "import sys, unittest\n"
        "from django.test.runner import DiscoverRunner\n"
        f"NOT_OURS = {set(NOT_OURS)!r}\n"
        "class Runner(DiscoverRunner):\n"
        "    def build_suite(self, *args, **kwargs):\n"
        "        suite = super().build_suite(*args, **kwargs)\n"
        "        kept = [t for t in suite if t.id().removeprefix('tasks.') not in NOT_OURS]\n"
        "        return unittest.TestSuite(kept)\n"
    )
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "manage.py"), "test", "tasks", "--testrunner", "run.Runner", "--noinput"],
        cwd=tmp_path,
        env={
            **environment(project_url, DJANGO_SETTINGS_MODULE="suite_settings"),
            "PYTHONPATH": os.pathsep.join(map(str, (tmp_path, SUITE, EXAMPLE))),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=550,
    )
    ran = re.search(r"^Ran (\d+) tests", done.stderr, re.MULTILINE)
    assert done.returncode == 0, done.stderr[-8000:]
    assert ran is not None
    assert int(ran[1]) == collected(tasks) - len(NOT_OURS)
    assert manage(project_url, "check").returncode == 0


def collected(folder: Path) -> int:
    return sum(
        len(re.findall(r"^    (?:async )?def test_", f.read_text(), re.MULTILINE)) for f in folder.glob("test_*.py")
    )
