"""DjangoRowlock: an application that uses Django's database, joins its transactions and closes its connections."""

from __future__ import annotations

import functools
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from django.db import connections
from typing_extensions import override

from rowlock.app import Rowlock
from rowlock.contrib.django.configuration import database_url, read_configuration
from rowlock.contrib.django.connections import closing_old_connections, own_orm_thread
from rowlock.errors import ConfigurationError
from rowlock.flow.kinds.import_origin import Origin
from rowlock.model.hook import hook_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from rowlock.contrib.django.configuration import Configuration
    from rowlock.delivery.routes import Carrier
    from rowlock.model.hook import HookEvent
    from rowlock.model.options import Span
    from rowlock.model.retry import Retry
    from rowlock.store.database import Database
    from rowlock.tasks import BaseTask

PROJECT: Final = Origin("rowlock.contrib.django.project", "app")
"""Where processes that manage.py has not started find the application: the module sets Django up first."""


class DjangoRowlock(Rowlock):
    """Jobs of a Django project, on the database that settings.ROWLOCK names."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self.configuration = read_configuration() if configuration is None else configuration
        super().__init__(settings=replace(self.configuration.settings, database_url=None))
        self.origin = PROJECT
        self._followed: tuple[object, ...] | None = None
        """The database that `_followed_url` names, as DATABASES has it."""
        self._followed_url: str | None = None
        if self.configuration.join_transactions:
            self._producer.surrounding = self._open_transaction
        self.middleware(own_orm_thread)

    @override
    def database(self) -> Database:
        """The database of Django's connection. Tests move that to a database of their own, and Rowlock follows.

        A URL that was set explicitly, by --database-url or the test kit, is used instead.
        """
        if self.settings.database_url == self._followed_url:
            entry = self._entry()
            now = tuple(entry.get(name) for name in ("NAME", "HOST", "PORT", "USER"))
            if now != self._followed:
                url = database_url(entry, self.configuration.database)
                self._point_at(replace(self.settings, database_url=url), None, None)
                self._followed, self._followed_url = now, url
        return super().database()

    def _entry(self) -> Mapping[str, Any]:
        alias = self.configuration.database
        try:
            entry: Mapping[str, Any] = connections.settings[alias]
        except KeyError:
            message = (
                f"settings.ROWLOCK['database'] is {alias!r}, which settings.DATABASES does not have; it has "
                f"{', '.join(sorted(connections.settings))}."
            )
            raise ConfigurationError(message) from None
        return entry

    def _open_transaction(self) -> object | None:
        connection = connections[self.configuration.database]
        return connection if connection.in_atomic_block else None

    def wait_for(self, work: Coroutine[object, object, Any]) -> Any:  # noqa: ANN401 - the coroutine's own
        """Run a coroutine of Rowlock's from blocking code, such as a view."""
        return self._bridge.run(work)

    def disconnect(self) -> None:
        """Close every connection of Rowlock's own that blocking code has opened; the next call opens new ones."""
        if self._bridge.started:
            self._bridge.run(self._leave_loop())

    # --- handlers close Django's connections -------------------------------------------------------------------------

    @override
    def _declare(
        self,
        function: Callable[..., object],
        name: str | None,
        options: Mapping[str, object],
        delivery: Carrier | None = None,
    ) -> BaseTask[..., object]:
        task = super()._declare(function, name, options, delivery)
        self._close_around(task.kind)
        return task

    @override
    def _hook(
        self, kind: str, event: HookEvent, function: Callable[..., object], retry: Retry | None, timeout: Span | None
    ) -> None:
        super()._hook(kind, event, function, retry, timeout)
        self._close_around(hook_kind(kind, event))

    def _close_around(self, kind: str) -> None:
        """Have a blocking handler close old connections in its own thread, dependencies included."""
        handler = self.handlers[kind]
        if not handler.is_async:
            closing = replace(handler, function=closing_old_connections(handler.function))
            self.handlers.update({name: closing for name, known in self.handlers.items() if known is handler})


@functools.cache
def project_app() -> DjangoRowlock:
    """The application of the project: the one that settings.ROWLOCK['app'] names, or one made at the first call."""
    configuration = read_configuration()
    if configuration.app is None:
        return DjangoRowlock(configuration)
    module, colon, attribute = configuration.app.partition(":")
    if not (module and colon and attribute):
        message = f"settings.ROWLOCK['app'] is module:attribute, such as shop.rowlock:app; got {configuration.app!r}."
        raise ConfigurationError(message)
    found: object = functools.reduce(getattr, attribute.split("."), import_module(module))
    if not isinstance(found, DjangoRowlock):
        message = (
            f"settings.ROWLOCK['app'] is {configuration.app!r}, a {type(found).__name__}; expected an application made "
            "with: from rowlock.contrib.django import DjangoRowlock; app = DjangoRowlock()"
        )
        raise ConfigurationError(message)
    return found
