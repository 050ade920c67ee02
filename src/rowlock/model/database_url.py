"""Database URLs: how they are read, and how messages show them, with passwords masked."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit

from rowlock.errors import ConfigurationError
from rowlock.model.redact import MASK

_PARAMETER: Final = re.compile(r"(?i)([?&](?:ssl)?password=)([^&#]*)")
_KEYWORD: Final = re.compile(r"(?i)\b((?:ssl)?password\s*=\s*)('(?:[^'\\]|\\.)*'?|\S+)")
_SEPARATOR: Final = re.compile(r"[#/?@:&\s'\\]")
_SHORTEST: Final = 3
"""Characters of a part of a password that is masked in other texts."""


def plain_url(url: str) -> str:
    """The URL as asyncpg reads it, without SQLAlchemy's driver suffix (postgresql+asyncpg://)."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.partition("+")[0] not in ("postgresql", "postgres"):
        message = (
            f"Expected a database URL like postgresql://user@host/name, got {shown(url)!r}. Set ROWLOCK_DATABASE_URL."
        )
        raise ConfigurationError(message)
    try:
        fits = _ports_fit(urlsplit(f"postgresql://{rest}").netloc)
    except ValueError:
        fits = False
    if not fits:
        message = (
            f"The database URL {shown(url)!r} cannot be read. Write #, /, ?, @ and : in its password as %23, %2F, "
            "%3F, %40 and %3A."
        )
        raise ConfigurationError(message)
    return f"postgresql://{rest}"


def shown(url: str) -> str:
    """The URL, or the `host=… password=…` of libpq, with its passwords masked.

    A password with characters that should have been escaped (`#`, `/`, `?`, `@`) is masked too, and perhaps more of
    such a URL than the password.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return _KEYWORD.sub(rf"\1{MASK}", url)
    found = _password(rest)
    if found:
        start = len(rest.partition(":")[0]) + 1
        rest = f"{rest[:start]}{MASK}{rest[start + len(found) :]}"
    rest = _PARAMETER.sub(rf"\1{MASK}", rest)
    return f"{scheme}://{rest}"


def without_passwords(text: str, url: str) -> str:
    """An error's text without the passwords of the URL, and without parts of one that was not escaped."""
    parts: set[str] = set()
    _, separator, rest = url.partition("://")
    raw = {_password(rest), *(match[2] for match in _PARAMETER.finditer(rest))} if separator else set()
    raw |= {match[2].strip("'") for match in _KEYWORD.finditer(url)}
    for password in filter(None, raw):
        parts |= {password, unquote(password), *_SEPARATOR.split(password), *_SEPARATOR.split(unquote(password))}
    wanted = sorted((part for part in parts if len(part) >= _SHORTEST), key=len, reverse=True)
    return re.sub("|".join(map(re.escape, wanted)), MASK, text) if wanted else text


def _password(rest: str) -> str:
    """What stands between the user and the host; empty: nothing does. rest: the URL after its scheme."""
    base = rest.partition("?")[0]
    if "@" not in base and "@" in rest:
        base = rest  # a ? that was not escaped
    user, _, _host = base.rpartition("@")
    return user.partition(":")[2]


def _ports_fit(netloc: str) -> bool:
    """Whether every host's port is one. netloc: the part of a URL between // and the path."""
    try:
        return all(urlsplit(f"postgresql://{host}").port != 0 for host in netloc.rpartition("@")[2].split(","))
    except ValueError:
        return False
