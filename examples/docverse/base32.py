"""Crockford's Base32, in which this application and Rowlock show their ids to people."""

from __future__ import annotations

import secrets
from typing import Final

_SYMBOLS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LENGTH: Final = 12


def new_public_id() -> str:
    """A random id of 60 bits, such as 01HQ-3KBR-T5GN; no I, L, O or U, which people misread."""
    text = "".join(secrets.choice(_SYMBOLS) for _ in range(_LENGTH))
    return "-".join(text[at : at + 4] for at in range(0, _LENGTH, 4))
