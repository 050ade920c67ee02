from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import Any

import pytest
from tests.contrib.django.conftest import manage

from rowlock.store.schema import migrate
from rowlock.store.schema.migration_files import migrations, newest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # a hundred steps, each on a connection of its own


def version(url: str, schema: str = "rowlock") -> int:
    return asyncio.run(migrate.status(url, schema)).version


def run(url: str, *words: str, **more: str) -> str:
    done = manage(url, *words, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_migrate_makes_the_tables_and_zero_drops_them(empty_database_url: str) -> None:
    run(empty_database_url, "migrate")
    assert version(empty_database_url) == newest()
    assert asyncio.run(migrate.verify(empty_database_url)) == []
    run(empty_database_url, "migrate", "rowlock", "0020")
    assert version(empty_database_url) == 20
    run(empty_database_url, "migrate", "rowlock")
    assert version(empty_database_url) == newest()
    run(empty_database_url, "migrate", "rowlock", "zero")
    assert version(empty_database_url) == 0
    assert "[ ] 0001_initial" in run(empty_database_url, "showmigrations", "rowlock")


def test_tables_of_the_command_line_are_taken_over(database_url: str) -> None:
    assert "rowlock.0023" in run(database_url, "migrate")
    assert version(database_url) == newest()
    assert asyncio.run(migrate.verify(database_url)) == []
    assert "No migrations to apply" in run(database_url, "migrate")


def test_another_schema_is_used_for_everything(empty_database_url: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text("from shop.settings import *\nROWLOCK = {'schema': 'batch'}\n")
    more = {"DJANGO_SETTINGS_MODULE": "elsewhere", "PYTHONPATH": str(tmp_path)}
    run(empty_database_url, "migrate", **more)
    assert version(empty_database_url, "batch") == newest()
    assert version(empty_database_url) == 0
    assert "No changes" in run(empty_database_url, "makemigrations", "--check", "--dry-run", **more)


def test_nothing_is_left_to_be_migrated_and_steps_can_be_printed(database_url: str) -> None:
    assert "No changes" in run(database_url, "makemigrations", "--check", "--dry-run")
    assert "CREATE INDEX CONCURRENTLY" in run(database_url, "sqlmigrate", "rowlock", "0022")
    assert "Rowlock's schema, step 23" in run(database_url, "migrate", "--plan")


def test_every_step_has_a_migration() -> None:
    place = Path(__file__).parents[3] / "tools" / "django_migrations.py"
    spec = importlib.util.spec_from_file_location("django_migrations", place)
    assert spec is not None
    assert spec.loader is not None
    tool: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    texts = tool.wanted()
    assert len(texts) == len(migrations())
    assert {name: (tool.FOLDER / name).read_text() for name in texts} == texts


def test_a_database_that_rowlock_does_not_use_stays_empty(empty_database_url: str, tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(
        "from shop.settings import *\nDATABASES['other'] = DATABASES['default']\n"
        "DATABASES = {'default': {**DATABASES['default'], 'NAME': 'rowlock_template'}, 'other': DATABASES['other']}\n"
    )
    run(empty_database_url, "migrate", "--database", "other", DJANGO_SETTINGS_MODULE="two", PYTHONPATH=str(tmp_path))
    assert version(empty_database_url) == 0
