"""API tokens as text: rlk_<id>_<secret><check>, of letters and digits, so that a double click selects all of it."""

from __future__ import annotations

import binascii
import hashlib
import secrets
from typing import Final, NamedTuple

PREFIX: Final = "rlk"
_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID: Final = 10
_SECRET: Final = 43
"""Digits that hold 256 bits."""
_CHECK: Final = 6
"""Digits that hold 32 bits."""


class Parsed(NamedTuple):
    """The parts of a token. hash: what the database stores."""

    id: str
    hash: bytes


def make(token_id: str | None = None) -> tuple[str, Parsed]:
    """A new token, and its parts to store. token_id: of the token that gets a new secret."""
    token_id = token_id or "".join(secrets.choice(_ALPHABET) for _ in range(_ID))
    body = f"{PREFIX}_{token_id}_{_digits(secrets.randbits(256), _SECRET)}"
    text = body + _check(body)
    return text, Parsed(token_id, digest(text))


def parse(text: str) -> Parsed | None:
    """Read a token; None: the text is none. The check digits catch a typo without a query."""
    prefix, _, rest = text.partition("_")
    token_id, _, secret = rest.partition("_")
    digits = token_id + secret
    shaped = prefix == PREFIX and len(token_id) == _ID and len(secret) == _SECRET + _CHECK
    if not shaped or not digits.isascii() or not digits.isalnum() or _check(text[:-_CHECK]) != text[-_CHECK:]:
        return None
    return Parsed(token_id, digest(text))


def digest(text: str) -> bytes:
    """The hash under which a token or a session is stored."""
    return hashlib.sha256(text.encode()).digest()


def _check(body: str) -> str:
    return _digits(binascii.crc32(body.encode()), _CHECK)


def _digits(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
