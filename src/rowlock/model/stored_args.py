"""Stored arguments as people see them: secrets masked, their version beside them instead of among them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rowlock.model import redact

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

VERSION: Final = "$version"
"""The key under which arguments of a version above 1 carry it; no parameter can have that name.

[version, *skills]: also what a worker must be able to do to run them at all. Code that knows of no skills finds no
version there that it can read, and leaves the job to a worker with newer code.
"""
RATE: Final = "rate"
"""Of whoever claims a job that a rate limits: to ask the rate."""
OUTPUTS: Final = "output"
"""Of whoever runs a step whose arguments name others: to put their results there."""
KNOWN_SKILLS: Final = frozenset({RATE, OUTPUTS})
_HEAD: Final = re.compile(r'\{(?:"\$version":(?:(\d+)|\[(\d+)[^\]]*\]),?)?')


def with_skills(text: str, *skills: str) -> str:
    """Encoded arguments, with what a worker must be able to do to run them."""
    head = _HEAD.match(text)
    if not skills or head is None:
        return text
    version, rest = head[1] or head[2] or "1", text[head.end() :]
    return (
        f'{{"{VERSION}":{json.dumps([int(version), *skills], separators=(",", ":"))}{"" if rest == "}" else ","}{rest}'
    )


def skills_of(args: Mapping[str, object]) -> list[str]:
    """What a worker must be able to do to run them."""
    stored = args.get(VERSION)
    return [str(skill) for skill in stored[1:]] if isinstance(stored, list) else []


def version_of(args: Mapping[str, object]) -> int:
    """The version stored with arguments; 0: something else was written there."""
    version = args.get(VERSION, 1)
    if isinstance(version, list) and version:
        version = version[0]
    return version if isinstance(version, int) and not isinstance(version, bool) else 0


def shown(args: Mapping[str, object], *, reveal: bool = False) -> dict[str, object]:
    """The arguments alone, without secrets unless they are to be revealed."""
    show = redact.reveal if reveal else redact.redact
    return {name: show(value) for name, value in args.items() if name != VERSION}


@dataclass(frozen=True, slots=True)
class Encoded:
    """Arguments as a job of their kind has them stored, and what the kind makes of them.

    refs, gate_key, rate_keys: empty where the kind makes none of them; answer_in: how long their approval may take.
    """

    text: str
    refs: Mapping[str, object] = field(default_factory=dict)
    gate_key: str | None = None
    rate_keys: tuple[str, ...] = ()
    answer_in: timedelta | None = None
    scope: str = ""
    """The name under which keys of the kind are unique."""

    def over(self, before: Mapping[str, object]) -> str:
        """The text, with the secrets of the arguments before where people sent their masks back."""
        written = json.loads(self.text)
        if version_of(written) != version_of(before):
            return with_skills(self.text, *skills_of(before))
        kept = redact.kept(written, before)
        text = self.text if kept == written else json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
        return with_skills(text, *skills_of(before))
