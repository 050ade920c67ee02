"""The example's settings for the tests of django-tasks-db."""

from __future__ import annotations

from shop import settings
from shop.settings import *  # noqa: F403 - all of them

TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "orders"]  # its tasks have a queue of their own
ROOT_URLCONF = "db_settings"
urlpatterns: list[object] = []
