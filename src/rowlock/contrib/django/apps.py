"""The Django app: finds the jobs of installed apps and checks the setting."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig
from django.core import checks
from django.db import connections
from django.utils.module_loading import autodiscover_modules

if TYPE_CHECKING:
    from collections.abc import Callable


class RowlockConfig(AppConfig):
    """Rowlock inside of Django; its label is rowlock, as in `manage.py migrate rowlock`."""

    name = "rowlock.contrib.django"
    label = "rowlock"
    verbose_name = "Rowlock"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import the modules that declare jobs, such as jobs.py of every installed app."""
        from rowlock.contrib.django.application import project_app
        from rowlock.contrib.django.checks import check_configuration

        checks.register(check_configuration, "rowlock")
        app = project_app()
        autodiscover_modules(*app.configuration.modules)
        if app.configuration.database in connections.settings:
            creation = connections[app.configuration.database].creation
            creation.destroy_test_db = _after(app.disconnect, creation.destroy_test_db)


def _after(first: Callable[[], None], function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called after the first one: a test database that Rowlock is connected to cannot be dropped."""

    @functools.wraps(function)
    def called(*args: object, **kwargs: object) -> object:
        first()
        return function(*args, **kwargs)

    return called
