"""Rowlock as an app of a Django project: INSTALLED_APPS += ["rowlock.contrib.django"].

    configuration.py   settings.ROWLOCK, and the database URL out of settings.DATABASES
    application.py     DjangoRowlock, which uses Django's database and joins its transactions
    project.py         the project's application for processes that manage.py has not started
    connections.py     Django's connections, closed around every handler
    models.py          read-only models over Rowlock's tables; schema_step.py and migrations/ make these tables
    admin.py           pages in Django's admin; principals.py maps users and permissions
    tasks.py           the backend for Django's Tasks framework
    asgi.py            REST API and dashboard beside Django, for Django's users

`app` is the application of the project: `from rowlock.contrib.django import app`, then `@app.job`. Start with
application.py. Imported by Django projects, and by nothing in Rowlock.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from rowlock.errors import MissingExtra

if find_spec("django") is None:
    raise MissingExtra("Django", "django")

if TYPE_CHECKING:
    from rowlock.contrib.django.application import DjangoRowlock

    app: DjangoRowlock

__all__ = ["DjangoRowlock", "app"]


def __getattr__(name: str) -> object:
    """The application, made at first use: Django imports this package before settings may be read."""
    # Names of submodules come here, too, before these are imported: nothing is imported for them.
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from rowlock.contrib.django.application import DjangoRowlock, project_app

    return project_app() if name == "app" else DjangoRowlock
