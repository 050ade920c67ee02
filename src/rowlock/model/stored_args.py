"""Arguments as they are stored: with their version, and with the skills that a worker needs to run them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rowlock.model import redact, stored_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

VERSION: Final = "$version"
"""The key of the version among stored arguments, when it is above 1; no parameter can have that name.

Its value is the version, or [version, *skills] when a worker must be able to do something special. Older code, which
knows no skills, cannot read such a version and leaves the job to a worker with newer code.
"""
RATE: Final = "rate"
"""Skill: the worker asks the job's rates when it claims."""
OUTPUTS: Final = "output"
"""Skill: the worker puts the results of other steps into the arguments."""
KNOWN_SKILLS: Final = frozenset({RATE, OUTPUTS})
_HEAD: Final = re.compile(r'\{(?:"\$version":(?:(\d+)|\[(\d+)[^\]]*\]),?)?')


def with_skills(text: str, *skills: str) -> str:
    """Encoded arguments with the skills that a worker needs to run them."""
    head = _HEAD.match(text)
    if not skills or head is None:
        return text
    version, rest = head[1] or head[2] or "1", text[head.end() :]
    return (
        f'{{"{VERSION}":{json.dumps([int(version), *skills], separators=(",", ":"))}{"" if rest == "}" else ","}{rest}'
    )


def skills_of(args: Mapping[str, object]) -> list[str]:
    """The skills that a worker needs to run them."""
    stored = args.get(VERSION)
    return [str(skill) for skill in stored[1:]] if isinstance(stored, list) else []


def version_of(args: Mapping[str, object]) -> int:
    """The version stored with arguments; 0: what is stored there is no version."""
    version = args.get(VERSION, 1)
    if isinstance(version, list) and version:
        version = version[0]
    return version if isinstance(version, int) and not isinstance(version, bool) else 0


def shown(args: Mapping[str, object], *, reveal: bool = False) -> dict[str, object]:
    """The arguments without their version; secrets masked, or in clear with reveal."""
    show = redact.reveal if reveal else redact.redact
    return {name: show(value) for name, value in args.items() if name != VERSION}


def of_row(text: str, *, reveal: bool = False) -> tuple[dict[str, object], int]:
    """A row's arguments as people see them, and their version; instead of unreadable ones, why they are that."""
    try:
        args = stored_json.read_object(text)
    except stored_json.UnreadableJson as error:
        return stored_json.instead("arguments", error), 0
    return shown(args, reveal=reveal), version_of(args)


def result_of_row(text: str | None, *, reveal: bool = False) -> object:
    """A row's result as people see it; instead of an unreadable one, why it is that."""
    value = stored_json.shown(text, "the result")
    return redact.reveal(value) if reveal else redact.redact(value)


@dataclass(frozen=True, slots=True)
class Encoded:
    """Encoded arguments, and what the kind derives from them.

    refs, gate_key, rate_keys: empty where the kind derives none; answer_in: how long their approval may take.
    """

    text: str
    refs: Mapping[str, object] = field(default_factory=dict)
    gate_key: str | None = None
    rate_keys: tuple[str, ...] = ()
    answer_in: timedelta | None = None
    scope: str = ""
    """The name under which the kind's keys are unique."""

    def over(self, before: Mapping[str, object]) -> str:
        """The text, with the earlier secrets wherever a person sent back the mask."""
        written = json.loads(self.text)
        if version_of(written) != version_of(before):
            return with_skills(self.text, *skills_of(before))
        kept = redact.kept(written, before)
        text = self.text if kept == written else json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
        return with_skills(text, *skills_of(before))
