"""System checks of the setting ROWLOCK, which `manage.py check` and most commands run."""

from __future__ import annotations

import os
from typing import Any

from django.core import checks
from django.db import connections

from rowlock.contrib.django.application import project_app
from rowlock.contrib.django.configuration import database_url
from rowlock.errors import RowlockError


def check_configuration(**_: Any) -> list[checks.CheckMessage]:  # noqa: ANN401 - Django's
    """What is wrong with settings.ROWLOCK, if anything."""
    try:
        configuration = project_app().configuration
        alias = configuration.database
        if alias not in connections.settings:
            known = ", ".join(sorted(connections.settings))
            text = f"settings.ROWLOCK['database'] is {alias!r}; settings.DATABASES has {known}."
            return [checks.Error(text, id="rowlock.E001")]
        database_url(connections.settings[alias], alias)
    except RowlockError as error:
        return [checks.Error(str(error), id="rowlock.E001")]
    if os.environ.get("ROWLOCK_DATABASE_URL"):
        text = f"ROWLOCK_DATABASE_URL is not used: Rowlock's tables are in DATABASES[{alias!r}]."
        return [checks.Warning(text, "Unset it, or change settings.ROWLOCK['database'].", id="rowlock.W001")]
    return []
