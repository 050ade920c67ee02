"""The tests of django-tasks-db, from its source distribution, re-pointed at RowlockBackend.

They ask more of a backend that keeps tasks in a table than Django's own tests do. The distribution is downloaded into
.tools/, which no commit contains; suite/django_tasks_db has what the tests import of the package. `NOT_OURS` lists the
tests that hold for its own table, commands and options only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING, Final

import django
import pytest
from tests.django_project import EXAMPLE, SUITE, downloaded, environment

if TYPE_CHECKING:
    from pathlib import Path

RELEASE: Final = "0.13.0"
TESTS: Final = 95
"""How many that release has."""
OURS: Final = 28
"""How many of them hold for any backend that keeps tasks in a table."""
_TABLE = "looks into the package's own table"
_OPTION = "an option of db_worker, the package's command; Rowlock's are tested in tests/cli"
_ID = "ids are the database's"
NOT_OURS: Final = {
    "AdminTestCase": "the package's admin page",
    "CompatTestCase": "names of the package",
    "ConnectionExclusiveTranscationTestCase": "SQLite",
    "DBTaskResultOrderingTestCase": _TABLE,
    "DatabaseBackendPruneTaskResultsTestCase": "the package's command; finished jobs are removed by retention",
    "DatabaseTaskResultTestCase": "rows of the package's table are locked",
    "DatabaseWorkerProcessTestCase": "processes of the package's command; ours are in test_commands.py",
    "DatabaseBackendTestCase.test_custom_id_function": _ID,
    "DatabaseBackendTestCase.test_postgres_db_id_function": _ID,
    "DatabaseBackendTestCase.test_postgres_id_function_expression": _ID,
    "DatabaseBackendTestCase.test_unknown_id_function": _ID,
    "DatabaseBackendTestCase.test_database_backend_app_missing": "Django's check of the package's app",
    "DatabaseBackendTestCase.test_index_scan_for_ready": "an index of the package's table",
    "DatabaseBackendTestCase.test_invalid_task_path": _TABLE,
    "DatabaseBackendTestCase.test_missing_task_path": _TABLE,
    "DatabaseBackendTestCase.test_priority_range_check": _TABLE,
    "DatabaseBackendTestCase.test_refresh_result": "changes a result in the package's table",
    "DatabaseBackendTestCase.test_refresh_result_async": "changes a result in the package's table",
    "DatabaseBackendTestCase.test_run_after_null_0016_migration": "a migration of the package",
    "DatabaseBackendTestCase.test_run_after_tz": _TABLE,
    "DatabaseBackendTestCase.test_task_name": _TABLE,
    "DatabaseBackendWorkerTestCase.test_empty_worker_id": _OPTION,
    "DatabaseBackendWorkerTestCase.test_exclude_queues_requires_processing_all_queues": _OPTION,
    "DatabaseBackendWorkerTestCase.test_fractional_interval": _OPTION,
    "DatabaseBackendWorkerTestCase.test_incorrect_backend": _OPTION,
    "DatabaseBackendWorkerTestCase.test_infinite_interval": _OPTION,
    "DatabaseBackendWorkerTestCase.test_invalid_task_path": _TABLE,
    "DatabaseBackendWorkerTestCase.test_max_tasks": _OPTION,
    "DatabaseBackendWorkerTestCase.test_missing_task_path": _TABLE,
    "DatabaseBackendWorkerTestCase.test_negative_interval": _OPTION,
    "DatabaseBackendWorkerTestCase.test_negative_max_tasks": _OPTION,
    "DatabaseBackendWorkerTestCase.test_run_after": "changes run_after in the package's table",
    "DatabaseBackendWorkerTestCase.test_run_after_priority": "the order of the package's table",
    "DatabaseBackendWorkerTestCase.test_task_import_string": _TABLE,
    "DatabaseBackendWorkerTestCase.test_too_long_worker_id": _OPTION,
    "DatabaseBackendWorkerTestCase.test_unknown_backend": _OPTION,
    "DatabaseBackendWorkerTestCase.test_verbose_logging": _OPTION,
    "DatabaseBackendWorkerTestCase.test_worker_with_locked_rows": "rows of the package's table are locked",
    "DatabaseBackendWorkerTestCase.test_zero_interval": _OPTION,
    "DatabaseBackendWorkerTestCase.test_zero_max_tasks": _OPTION,
}
REWRITTEN: Final = (
    (
        "from django_tasks_db import DatabaseBackend, compat\n",
        "from django_tasks_db import DatabaseBackend, EmptiedTestCase, any_number_of_queries, run_worker\n",
    ),
    ("    logger as prune_db_tasks_logger,\n", "    root as prune_db_tasks_logger,\n"),
    ("from django_tasks_db.admin import DBTaskResultAdmin\n", ""),
    (
        "from django_tasks_db.management.commands.prune_db_task_results import (\n",
        "from logging import (\n",
    ),
    ("from django_tasks_db.utils import (\n    exclusive_transaction,\n    normalize_uuid,\n)\n", ""),
    ("    @exclusive_transaction()\n", ""),
    ("(TransactionTestCase)", "(EmptiedTestCase)"),
    ("self.assertNumQueries(", "any_number_of_queries("),
    ('            call_command,\n            "db_worker",\n', "            run_worker,\n"),
    ("uuid.UUID(result.id).version, 4", "len(result.id), 17"),
    # The words of Django's normalize_json(), which refuses the value.
    ('"is not JSON serializable"', '"Unsupported type"'),
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(django.VERSION < (6,), reason="the Tasks framework came with Django 6.0"),
]


def unpack(into: Path) -> None:
    with tarfile.open(downloaded("django-tasks-db", RELEASE, "django_tasks_db")) as archive:
        member = archive.extractfile(f"django_tasks_db-{RELEASE}/tests/tests.py")
        assert member is not None
        text = member.read().decode()
    for old, new in REWRITTEN:
        assert old in text, old
        text = text.replace(old, new)
    (into / "__init__.py").touch()
    (into / "tests.py").write_text(text)
    shutil.copy(SUITE / "db_tasks.py", into / "tasks.py")


def test_the_tests_of_django_tasks_db_pass_on_our_backend(project_url: str, tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    unpack(tests)
    (tmp_path / "run.py").write_text(
        "import unittest\n"
        "from django.test.runner import DiscoverRunner\n"
        f"NOT_OURS = {set(NOT_OURS)!r}\n"
        "class Runner(DiscoverRunner):\n"
        "    def build_suite(self, *args, **kwargs):\n"
        "        found = [(t, t.id().removeprefix('tests.tests.')) for t in super().build_suite(*args, **kwargs)]\n"
        "        print('found', len(found))\n"
        "        kept = [t for t, name in found if not {name, name.split('.')[0]} & NOT_OURS]\n"
        "        return unittest.TestSuite(kept)\n"
    )
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "manage.py"), "test", "tests.tests", "--testrunner", "run.Runner", "--noinput"],
        cwd=tmp_path,
        env={
            **environment(project_url, DJANGO_SETTINGS_MODULE="db_settings"),
            "PYTHONPATH": os.pathsep.join(map(str, (tmp_path, SUITE, EXAMPLE))),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=550,
    )
    ran = re.search(r"^Ran (\d+) tests", done.stderr, re.MULTILINE)
    found = re.search(r"^found (\d+)", done.stdout, re.MULTILINE)
    assert done.returncode == 0, done.stderr[-8000:]
    assert ran is not None
    assert found is not None
    assert int(found[1]) == TESTS
    assert int(ran[1]) == OURS
