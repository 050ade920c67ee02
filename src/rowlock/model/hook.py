"""Hook: a job that follows another one's outcome, under a kind made of that job's kind and the event's name."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

HookEvent = Literal["on_success", "on_failure", "on_exhausted"]
HOOK_EVENTS: Final[tuple[HookEvent, ...]] = ("on_success", "on_failure", "on_exhausted")


class Hook(NamedTuple):
    """What an outcome inserts. attempts: of the hook itself."""

    kind: str
    attempts: int


def hook_kind(kind: str, event: HookEvent) -> str:
    """The kind of a hook's own jobs."""
    return f"{kind}/{event}"


def hooked_kind(name: str) -> str:
    """The kind whose outcome a hook follows; any other kind is its own."""
    kind, slash, event = name.rpartition("/")
    return kind if slash and event in HOOK_EVENTS else name
