"""Finding: one line of `rowlock doctor`, what a check saw and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Verdict: TypeAlias = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. says: what it saw; do: the next step, empty when there is none."""

    check: str
    verdict: Verdict
    says: str
    do: str = ""


def ok(check: str, says: str) -> Finding:
    """Nothing to do."""
    return Finding(check, "ok", says)


def warn(check: str, says: str, do: str) -> Finding:
    """It works, but not as well or not for as long as it could."""
    return Finding(check, "warn", says, do)


def fail(check: str, says: str, do: str) -> Finding:
    """Jobs do not run, or not reliably, until this is changed."""
    return Finding(check, "fail", says, do)
