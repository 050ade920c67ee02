"""Database URLs in messages: the password is masked wherever a URL or connection string may carry it."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from rowlock.model.redact import MASK

_PARAMETER: Final = re.compile(r"(?i)([?&](?:ssl)?password=)([^&#]*)")
_KEYWORD: Final = re.compile(r"(?i)\b((?:ssl)?password\s*=\s*)('(?:[^'\\]|\\.)*'?|\S+)")
_SEPARATOR: Final = re.compile(r"[#/?@:&\s'\\]")
_SHORTEST: Final = 3
"""Characters of a part of a password that is masked in other texts."""


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
