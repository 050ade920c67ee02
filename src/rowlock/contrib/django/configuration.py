"""Configuration: what settings.ROWLOCK says, and the database URL that an entry of settings.DATABASES stands for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final
from urllib.parse import quote, urlencode

from django.conf import settings as django_settings

from rowlock.errors import ConfigurationError
from rowlock.model.spelling.similar_names import closest
from rowlock.settings import Settings

_PORTABLE: Final = frozenset({"options", "passfile", "service", "servicefile", "target_session_attrs"})
"""Entries of DATABASES' OPTIONS that mean the same to every driver, beside those that begin with ssl."""
_OWN: Final = ("app", "database", "join_transactions", "modules", "principal")
_FROM_ENVIRONMENT: Final = frozenset(field.name for field in fields(Settings)) - {"database_url"}


@dataclass(frozen=True, slots=True)
class Configuration:
    """The setting ROWLOCK. settings: everything in it that is also a ROWLOCK_* variable."""

    settings: Settings
    database: str = "default"
    """Entry of DATABASES that Rowlock's tables are in."""
    app: str | None = None
    """module:attribute of a DjangoRowlock that the project makes itself; None: Rowlock makes one."""
    modules: tuple[str, ...] = ("jobs", "tasks")
    """Modules of installed apps that are imported at the start, because they declare jobs."""
    join_transactions: bool = True
    """Whether enqueue_sync() joins the open transaction of Django's connection."""
    principal: str | None = None
    """Dotted path of a function that makes a Principal of a user; None: Django's permissions decide."""


def read_configuration(environ: Mapping[str, str] | None = None) -> Configuration:
    """Read settings.ROWLOCK over the ROWLOCK_* variables; ConfigurationError says what is wrong with it."""
    given = getattr(django_settings, "ROWLOCK", {})
    if not isinstance(given, Mapping):
        message = f"settings.ROWLOCK is a dict such as {{'database': 'default'}}; got {given!r}."
        raise ConfigurationError(message)
    for name in given:
        if name not in _OWN and name not in _FROM_ENVIRONMENT:
            raise ConfigurationError(_unknown(name))
    variables = {
        f"ROWLOCK_{name.upper()}": _text(value)
        for name, value in given.items()
        if name not in _OWN and value is not None
    }
    own = {name: given[name] for name in _OWN if name in given}
    if "modules" in own:
        own["modules"] = _modules(own["modules"])
    environment = os.environ if environ is None else environ
    return Configuration(Settings.from_env({**environment, **variables}), **own)


def _unknown(name: object) -> str:
    if name == "database_url":
        return "settings.ROWLOCK has no 'database_url': its 'database' names an entry of settings.DATABASES."
    known = sorted({*_OWN, *_FROM_ENVIRONMENT})
    near = closest(str(name), known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else f" There are {', '.join(known)}."
    return f"settings.ROWLOCK has no {name!r}.{hint}"


def _modules(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(name, str) for name in value):  # type: ignore[attr-defined]  # anything
        message = f"settings.ROWLOCK['modules'] is a list of module names such as ['jobs', 'tasks']; got {value!r}."
        raise ConfigurationError(message)
    return tuple(value)  # type: ignore[arg-type]  # as above


def _text(value: object) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case list() | tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)


def database_url(entry: Mapping[str, Any], alias: str) -> str:
    """The URL of an entry of DATABASES; ConfigurationError unless it is one of PostgreSQL."""
    engine = str(entry.get("ENGINE", ""))
    if not any(known in engine for known in ("postgresql", "postgis", "psycopg")):
        message = (
            f"Rowlock's tables need PostgreSQL; DATABASES[{alias!r}] has the engine {engine!r}. Name an entry with "
            "the engine django.db.backends.postgresql in settings.ROWLOCK['database']."
        )
        raise ConfigurationError(message)
    options = entry.get("OPTIONS") or {}
    query = {name: str(value) for name, value in options.items() if name in _PORTABLE or name.startswith("ssl")}
    if options.get("assume_role"):
        role = str(options["assume_role"]).replace("\\", "\\\\").replace(" ", "\\ ")
        query["options"] = f"{query.get('options', '')} -c role={role}".strip()
    host, port = str(entry.get("HOST") or ""), str(entry.get("PORT") or "")
    query |= {"host": host} if host else {}
    query |= {"port": port} if port else {}
    user, password = (quote(str(entry.get(name) or ""), safe="") for name in ("USER", "PASSWORD"))
    who = f"{user}:{password}@" if password else f"{user}@" if user else ""
    name = quote(str(entry.get("NAME") or ""), safe="")
    return f"postgresql://{who}/{name}" + (f"?{urlencode(query, quote_via=quote)}" if query else "")
