"""Public job ids: the table's bigint in Crockford Base32, scrambled so that it tells nothing about the others.

A public id such as ``4XJ2-9GMB-0T7Q-KD`` is 13 symbols (65 bits, the top two always 0) and one check symbol. The number
goes through a fixed bijection first, so that neighbours look unrelated and nobody reads the count of jobs off an id.
The constants are public and can never change: an id in a log or a bookmark has to keep its meaning.

An id is a name, **never an authorisation**: anybody can compute all of them from this source. Check permissions.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Final

from rowlock.errors import InvalidId

if TYPE_CHECKING:
    from collections.abc import Sequence

LARGEST: Final = 2**63 - 1  # PostgreSQL's bigint

_BITS: Final = 63
_MODULUS: Final = 2**_BITS
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_UPPER: Final = {symbol: value for value, symbol in enumerate(_ALPHABET)} | {"O": 0, "I": 1, "L": 1}
# Both cases are listed: upper() would let foreign letters in (the German sharp s becomes SS, a dotless i becomes I).
_VALUE: Final = _UPPER | {symbol.lower(): value for symbol, value in _UPPER.items()}
_SYMBOLS: Final = 13
_SHOWN_BITS: Final = 128
_SEPARATORS: Final = re.compile(r"[\s-]+")
_LONGEST_NUMBER: Final = 12  # digits; a public id has 14 symbols, so the two never meet

# Odd factors are invertible modulo 2**63; a shift of 32 > 63 / 2 makes each xor step its own inverse.
_SHIFT: Final = 32
_FACTORS: Final = (0x1F3B_9D4A_C86E_5277, 0x6A09_E667_F3BC_C909, 0x3C6E_F372_FE94_F82B)
_WORKFLOW: Final = 0b10101  # changes the check symbol: a workflow's id without its W is no job's
_INVERSES: Final = tuple(pow(factor, -1, _MODULUS) for factor in reversed(_FACTORS))


def encode(job_id: int) -> str:
    """Give the public id of a job, grouped by 4."""
    if not 1 <= job_id <= LARGEST:
        message = f"A job id is a whole number from 1 to {LARGEST}, not {_number(job_id)}."
        raise InvalidId(message)
    return _written(job_id, 0)


def decode(text: str) -> int:
    """Read a public id; case, hyphens and spaces do not matter, O reads as 0, I and L as 1."""
    compact = _SEPARATORS.sub("", text)
    if len(compact) == _SYMBOLS + 2 and compact[0] in "wW" and _is_workflow(text):
        raise _invalid(text, "it is a workflow's")
    return _read(text, compact, 0)


def listed(job_ids: Sequence[int], most: int = 10) -> str:
    """Public ids for a log line, of the first few of many jobs."""
    more = f" and {len(job_ids) - most} more" if len(job_ids) > most else ""
    return ", ".join(map(encode, job_ids[:most])) + more


def encode_workflow(workflow_id: int) -> str:
    """Give the public id of a workflow: W and 14 symbols, which without the W are no job id."""
    if not 1 <= workflow_id <= LARGEST:
        message = f"A workflow id is a whole number from 1 to {LARGEST}, not {_number(workflow_id)}."
        raise InvalidId(message)
    return f"W-{_written(workflow_id, _WORKFLOW)}"


def decode_workflow(text: str) -> int:
    """Read the public id of a workflow, as decode() does that of a job."""
    compact = _SEPARATORS.sub("", text)
    if compact[:1] not in ("w", "W") or len(compact) != _SYMBOLS + 2:
        raise _invalid(text, "those begin with W", _WORKFLOW)
    return _read(text, compact[1:], _WORKFLOW)


def parse_workflow(text: str | int) -> int:
    """Read a workflow id as a person types it: a plain number (as text at most 12 digits) or a public id."""
    if isinstance(text, str):
        stripped = text.strip()
        if not (stripped.isascii() and stripped.isdigit() and len(stripped) <= _LONGEST_NUMBER):
            return decode_workflow(text)
    number = int(text)
    encode_workflow(number)
    return number


def _is_workflow(text: str) -> bool:
    try:
        decode_workflow(text)
    except InvalidId:
        return False
    return True


def _written(number: int, mark: int) -> str:
    """mark: changes the check symbol, so that a workflow's id is never read as a job's."""
    number = _scramble(number)
    symbols = [(number >> shift) & 31 for shift in range(5 * (_SYMBOLS - 1), -1, -5)]
    symbols.append(_check(symbols) ^ mark)
    text = "".join([_ALPHABET[symbol] for symbol in symbols])
    return f"{text[:4]}-{text[4:8]}-{text[8:12]}-{text[12:]}"


def _read(text: str, compact: str, mark: int) -> int:
    if len(compact) != _SYMBOLS + 1:
        raise _invalid(text, f"it has {len(compact)} symbols instead of {_SYMBOLS + 1}", mark)
    strange = next((symbol for symbol in compact if symbol not in _VALUE), None)
    if strange is not None:
        raise _invalid(text, f"{strange!r} is not one of the symbols {_ALPHABET}", mark)
    symbols = [_VALUE[symbol] for symbol in compact]
    if _check(symbols[:_SYMBOLS]) ^ mark != symbols[_SYMBOLS]:
        raise _invalid(text, "its check symbol does not fit, so at least one symbol is mistyped", mark)
    number = 0
    for value in symbols[:_SYMBOLS]:
        number = number << 5 | value
    found = _unscramble(number) if number < _MODULUS else 0
    if not found:
        raise _invalid(text, f"no {'workflow' if mark else 'job'} can have that id", mark)
    return found


def parse(text: str | int) -> int:
    """Read a job id as a person types it: a plain number (as text at most 12 digits) or a public id."""
    if isinstance(text, str):
        stripped = text.strip()
        if not (stripped.isascii() and stripped.isdigit() and len(stripped) <= _LONGEST_NUMBER):
            return decode(text)
    try:
        number = int(text) if isinstance(text, str) else operator.index(text)
    except TypeError:
        hint = " Pass its id." if hasattr(text, "id") else ""
        message = f"{_expected()}, not a value of type {type(text).__name__}.{hint}"
        raise InvalidId(message) from None
    if isinstance(text, bool) or not 1 <= number <= LARGEST:
        message = f"{_expected()}, not {_number(text)}."
        raise InvalidId(message)
    return number


def _expected() -> str:
    return f"A job id is a whole number from 1 to {LARGEST} or a public id such as {encode(1)}"


def _scramble(number: int) -> int:
    for factor in _FACTORS:
        number = number * factor % _MODULUS
        number ^= number >> _SHIFT
    return number


def _unscramble(number: int) -> int:
    for inverse in _INVERSES:
        number ^= number >> _SHIFT
        number = number * inverse % _MODULUS
    return number


def _check(symbols: list[int]) -> int:
    """Weigh the symbols with the powers of x in GF(32), whose elements are just our 32 symbols.

    Crockford's own check is modulo 37 and needs ``* ~ $ = U``, which URLs, shells and readers stumble over. Modulo 31
    would stay inside the alphabet but is a mere digit sum (32 = 1 mod 31), blind to swaps. Distinct non-zero weights
    in a field catch every single wrong symbol, every swap of two symbols and every doubled pair mistaken.
    """
    total = 0
    for symbol in symbols:
        total = _times_x(total) ^ symbol
    return _times_x(total)


def _times_x(element: int) -> int:
    doubled = element << 1
    return doubled ^ 0b100101 if doubled > 31 else doubled  # noqa: PLR2004 - x^5 + x^2 + 1 is primitive


def _shown(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "…"  # noqa: PLR2004 - a line of a terminal


def _number(number: object) -> str:
    """Python refuses to print an int of more than 4,300 digits."""
    return str(number) if not isinstance(number, int) or number.bit_length() <= _SHOWN_BITS else "a huge one"


def _invalid(text: str, why: str, mark: int = 0) -> InvalidId:
    what, example = ("workflow", encode_workflow(1)) if mark else ("job", encode(1))
    expected = f"{'W and ' if mark else ''}{_SYMBOLS + 1} symbols such as {example}"
    return InvalidId(f"{_shown(text)!r} is not a {what} id: {why}. Expected {expected}.")
