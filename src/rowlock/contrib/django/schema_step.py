"""ApplySchemaStep: a step of Rowlock's schema as an operation of a Django migration.

The step runs on a connection of Rowlock's own, outside of Django's transaction, exactly as `rowlock schema upgrade`
runs it: with short lock waits and indexes built concurrently. A step that is already applied is left alone, so tables
that were made by the command line are taken over, and an interrupted `migrate` can be repeated.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from django.db import migrations, router
from django.db.migrations.operations.base import Operation

from rowlock.bridge import in_thread
from rowlock.contrib.django.configuration import database_url, read_configuration
from rowlock.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class ApplySchemaStep(Operation):
    """Applies one step of Rowlock's schema, or undoes it."""

    reversible = True

    def __init__(self, version: int) -> None:
        self.version = version

    def state_forwards(self, app_label: str, state: Any) -> None:  # noqa: ANN401 - Django's
        """Nothing: the models are unmanaged."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:  # noqa: ANN401 - Django's
        """Apply the step."""
        del from_state, to_state
        self._move(app_label, schema_editor, self.version - 1, self.version)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:  # noqa: ANN401 - Django's
        """Undo the step; undoing the first one drops every table with its jobs."""
        del from_state, to_state
        self._move(app_label, schema_editor, self.version, self.version - 1)

    def describe(self) -> str:
        """A line for `migrate --plan`."""
        return f"Rowlock's schema, step {self.version}"

    def _move(self, app_label: str, schema_editor: Any, since: int, to: int) -> None:  # noqa: ANN401 - Django's
        configuration = read_configuration()
        connection = schema_editor.connection
        if connection.alias != configuration.database or not router.allow_migrate(connection.alias, app_label):
            return
        schema = configuration.settings.schema
        if schema_editor.collect_sql:
            schema_editor.execute(migrate.sql(schema, since=since, to=to))
            return
        url = configuration.settings.direct_url or database_url(connection.settings_dict, connection.alias)
        change = migrate.upgrade if to > since else migrate.downgrade
        _wait_for(lambda: change(url, schema, to=to))


def _wait_for(work: Callable[[], Coroutine[Any, Any, object]]) -> None:
    # In a thread of its own: an async test may have a loop in this one.
    in_thread(lambda: asyncio.run(work()))


def step_migration(version: int, *, after: str) -> type[Any]:
    """The Migration of a step. after: the name of the migration before it."""
    attributes = {
        "atomic": False,
        "dependencies": [("rowlock", after)],
        "operations": [ApplySchemaStep(version)],
    }
    return type("Migration", (migrations.Migration,), attributes)
