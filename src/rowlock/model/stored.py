"""Stored arguments as people see them: secrets masked, their version beside them instead of among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowlock.model import redact

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION: Final = "$version"
"""The key under which arguments of a version above 1 carry it; no parameter can have that name."""


def version_of(args: Mapping[str, object]) -> int:
    """The version stored with arguments; 0: something else was written there."""
    version = args.get(VERSION, 1)
    return version if isinstance(version, int) and not isinstance(version, bool) else 0


def shown(args: Mapping[str, object], *, reveal: bool = False) -> dict[str, object]:
    """The arguments alone, without secrets unless they are to be revealed."""
    show = redact.reveal if reveal else redact.redact
    return {name: show(value) for name, value in args.items() if name != VERSION}
