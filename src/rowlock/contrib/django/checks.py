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
    found = []
    if os.environ.get("ROWLOCK_DATABASE_URL"):
        text = f"ROWLOCK_DATABASE_URL is not used: Rowlock's tables are in DATABASES[{alias!r}]."
        found.append(checks.Warning(text, "Unset it, or change settings.ROWLOCK['database'].", id="rowlock.W001"))
    entry, schema = connections.settings[alias], configuration.settings.schema
    if entry.get("USER") == schema and "search_path" not in str(entry.get("OPTIONS") or ""):
        text = (
            f"The database user is called {schema!r}, as Rowlock's schema is. PostgreSQL looks for tables in the "
            "schema of the user's name first, so Django would create its own tables among Rowlock's."
        )
        hint = "Set OPTIONS = {'options': '-c search_path=public'} in DATABASES, or another ROWLOCK['schema']."
        found.append(checks.Warning(text, hint, id="rowlock.W002"))
    return found
