"""Keys and labels that the database can store and index, and how wrong values are shown in messages."""

from __future__ import annotations

import re
from typing import Final

from rowlock.errors import InvalidOption

KEY_BYTES: Final = 1000
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_SHOWN: Final = 100
"""Characters of a wrong value in a message."""


def checked_key(value: object, name: str) -> str:
    """Return a key or label if the database can store and index it."""
    if not is_key(value):
        refuse(name, f"a text of 1 to {KEY_BYTES} bytes without NUL or half a surrogate pair", value)
    return str(value)


def is_key(value: object) -> bool:
    """Whether the database can store and index it."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= KEY_BYTES
        and _UNSTORABLE.search(value) is None
        and len(value.encode()) <= KEY_BYTES
    )


def refuse(name: str, expected: str, came: object) -> None:
    """Raise InvalidOption, which names the option, the expected value and the given one."""
    message = f"{name} must be {expected}; got {shown(came)}."
    raise InvalidOption(message)


def shown(value: object) -> str:
    """A value as a message has room for it."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - code of others, and ints of more than 4,300 digits
        return f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
