"""Masks secret arguments wherever people read them.

A secret argument is stored as ``{"$secret": value}``: the worker gets the value, people see ``•••``.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

from rowlock.model import stored_json

SECRET: Final = "$secret"  # noqa: S105 - the marker, not a password
BYTES: Final = "$bytes"
OUTPUT: Final = "$output"
MARKS: Final = frozenset({SECRET, BYTES, OUTPUT})
"""Keys that mean something in stored arguments, at any depth: nobody may send an object that has one of them."""
MASK: Final = "•••"

_URL_SAFE: Final = str.maketrans("+/", "-_")
_MASKED: Final = (MASK, {BYTES: base64.b64encode(MASK.encode()).decode()})
SHORTEST: Final = 4
"""Characters from which on a secret value is masked in other texts: shorter ones would riddle them, and be revealed."""
_LEAST_ENCODED: Final = 6  # characters of base64: fewer occur in any text


def redact(value: object) -> object:
    """Copy decoded JSON with every secret replaced by ``•••``."""
    if isinstance(value, Mapping):
        return MASK if value.keys() == {SECRET} else {key: redact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [redact(item) for item in value]
    return value


def reveal(value: object) -> object:
    """Copy decoded JSON with every secret in clear, for readers with that permission."""
    if isinstance(value, Mapping):
        return reveal(value[SECRET]) if value.keys() == {SECRET} else {k: reveal(item) for k, item in value.items()}
    if isinstance(value, list):
        return [reveal(item) for item in value]
    return value


def kept(written: object, before: object) -> object:
    """Copy edited arguments with the earlier secrets wherever the editor sent back the mask."""
    if isinstance(written, Mapping):
        known = before if isinstance(before, Mapping) else {}
        if written.keys() == {SECRET}:
            return known if known.keys() == {SECRET} and written[SECRET] in _MASKED else written
        return {key: kept(item, known.get(key)) for key, item in written.items()}
    if isinstance(written, list) and isinstance(before, list) and len(written) == len(before):
        return [kept(item, old) for item, old in zip(written, before, strict=True)]
    return written


def secrets(value: object) -> frozenset[str]:
    """Collect the secret texts and numbers in decoded JSON, for `scrub`."""
    return frozenset(_secrets(value, inside=False))


def has_marks(value: object) -> bool:
    """Whether decoded JSON has a key anywhere that means something in stored arguments."""
    if isinstance(value, Mapping):
        return not MARKS.isdisjoint(value) or any(map(has_marks, value.values()))
    return any(map(has_marks, value)) if isinstance(value, list | tuple) else False


def decoded(value: object) -> object:
    """Copy decoded JSON with secrets in clear and bytes as bytes, as a handler's arguments are given to enqueue()."""
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if value.keys() == {SECRET}:
        return decoded(value[SECRET])
    if value.keys() == {BYTES} and isinstance(value[BYTES], str):
        return base64.b64decode(value[BYTES])
    return {key: decoded(item) for key, item in value.items()}


def count_secrets(value: object) -> int:
    """How many values in decoded JSON are marked as secret, those inside others included."""
    if isinstance(value, Mapping):
        return (value.keys() == {SECRET}) + sum(map(count_secrets, value.values()))
    return sum(map(count_secrets, value)) if isinstance(value, list) else 0


def secrets_in(args: str) -> frozenset[str]:
    """The secret values in arguments that are encoded as JSON text, for `scrub`."""
    if SECRET not in args:
        return frozenset()
    try:
        return secrets(stored_json.read(args))
    except stored_json.UnreadableJson:
        return frozenset()  # no handler gets such arguments


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Replace secret values of 4 characters or more.

    Also in upper or lower case, quoted for Python, JSON or a URL, in hexadecimal digits and in base64, alone or amid
    other bytes.
    """
    forms = {form for secret in secrets if len(secret) >= SHORTEST for form in _forms(secret)}
    if not forms:
        return text
    # One pass, longest first: a secret that contains another must not leave its tail behind.
    pattern = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
    return re.sub(pattern, MASK, text, flags=re.IGNORECASE)


def conceal(value: object, secrets: Iterable[str]) -> object:
    """Copy decoded JSON with each text, number or key that holds a secret value marked as secret.

    The program that reads the value gets it whole; people see ``•••``.
    """
    if isinstance(value, Mapping):
        if value.keys() == {SECRET}:
            return value
        if any(scrub(str(key), secrets) != key for key in value):
            return {SECRET: value}
        return {key: conceal(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [conceal(item, secrets) for item in value]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return value
    return {SECRET: value} if scrub(str(value), secrets) != str(value) else value


def _secrets(value: object, *, inside: bool) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if inside and key == BYTES and isinstance(item, str):
                yield from _decoded(item)
            yield from _secrets(item, inside=inside or value.keys() == {SECRET})
    elif isinstance(value, list):
        for item in value:
            yield from _secrets(item, inside=inside)
    elif inside and isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def _decoded(text: str) -> Iterator[str]:
    try:
        yield base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield repr(secret)[1:-1]
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    with_surrogates = secret.encode(errors="surrogatepass")
    yield quote(with_surrogates, safe="")
    yield quote_plus(with_surrogates)
    yield with_surrogates.hex()
    for before in range(3):
        yield from _in_base64(with_surrogates, before)


def _in_base64(secret: bytes, before: int) -> Iterator[str]:
    """The characters that stand for the secret alone, `before` bytes after a group of three began."""
    encoded = base64.b64encode(bytes(before) + secret).decode()
    piece = encoded[(before * 8 + 5) // 6 : (before + len(secret)) * 8 // 6]
    if len(piece) >= _LEAST_ENCODED:
        yield piece
        yield piece.translate(_URL_SAFE)


def storable(text: str) -> str:
    """The text as PostgreSQL can store it: without NUL and without half a surrogate pair."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def in_ascii(text: str) -> str:
    r"""The text with escapes such as \u4e2d for what is outside ASCII: a database in another encoding may lack it."""
    return text if text.isascii() else text.encode("ascii", "backslashreplace").decode()


def json_in_ascii(text: str) -> str:
    """JSON text whose decoded strings and keys are in_ascii(); the same text if they are."""
    try:
        value = json.loads(text)
        mapped = _mapped(value)
    except (ValueError, RecursionError):  # an int of more than 4,300 digits: no encoding is the cause
        return text
    return text if mapped == value else json.dumps(mapped)


def _mapped(value: object) -> object:
    if isinstance(value, str):
        return in_ascii(value)
    if isinstance(value, Mapping):
        return {in_ascii(key): _mapped(item) for key, item in value.items()}
    return [_mapped(item) for item in value] if isinstance(value, list) else value
