"""The REST API and the dashboard beside Django, for the users that Django has logged in.

    application = with_rowlock(get_asgi_application(), at="/rowlock")      # in asgi.py

Under WSGI `manage.py rowlock serve` is a server of its own, behind the same host name, with the same users.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.db import connections
from django.http import HttpRequest

from rowlock.api import RowlockAPI
from rowlock.api.auth import SessionAuth, TokenAuth, refuse_cross_site
from rowlock.contrib.django.application import project_app
from rowlock.contrib.django.principals import principal_of
from rowlock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from starlette.requests import HTTPConnection

    from rowlock.api.backend import Authenticator
    from rowlock.app import Rowlock
    from rowlock.model.access import Principal

    Asgi = Callable[[MutableMapping[str, Any], Callable[..., Awaitable[Any]], Callable[..., Awaitable[None]]], Any]


class DjangoAuth:
    """Authenticates by Django's session cookie. Changes are accepted from pages of this host only."""

    async def authenticate(self, connection: HTTPConnection) -> Principal | None:
        """The principal of the logged-in user; None without a session."""
        key = connection.cookies.get(settings.SESSION_COOKIE_NAME)
        if not key:
            return None
        async with ThreadSensitiveContext():
            principal: Principal | None = await sync_to_async(_logged_in)(key)
        if principal is not None:
            refuse_cross_site(connection)
        return principal


def _logged_in(key: str) -> Principal | None:
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    try:
        return principal_of(get_user(request))
    finally:
        connections.close_all()  # this thread ends with the request


def authenticators(app: Rowlock) -> list[Authenticator]:
    """Django's users, and holders of API tokens."""
    return [DjangoAuth(), SessionAuth(app), TokenAuth(app)]


def with_rowlock(application: Asgi, *, at: str = "/rowlock", api: RowlockAPI | None = None) -> Asgi:
    """An ASGI application that serves the dashboard at `at` and the API below it, and everything else by Django.

    api: a RowlockAPI of your own; by default one for Django's users and API tokens.
    """
    prefix = at.rstrip("/")
    if not prefix.startswith("/"):
        message = f"at= is a path such as /rowlock, below which Rowlock answers; got {at!r}."
        raise ConfigurationError(message)
    if api is None:
        app = project_app()
        api = RowlockAPI(app, auth=authenticators(app))
    serve: Any = api.asgi

    async def dispatch(
        scope: MutableMapping[str, Any],
        receive: Callable[..., Awaitable[Any]],
        send: Callable[..., Awaitable[None]],
    ) -> None:
        path = scope.get("path", "")
        if scope["type"] == "lifespan":
            await serve(scope, receive, send)  # Django knows none
        elif scope["type"] == "http" and (path == prefix or path.startswith(f"{prefix}/")):
            await serve({**scope, "root_path": scope.get("root_path", "") + prefix}, receive, send)
        else:
            await application(scope, receive, send)

    return dispatch
