"""Hook: a job that is enqueued with the outcome of another one, such as on_success or on_failure."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

HookEvent = Literal["on_success", "on_failure", "on_exhausted"]
HOOK_EVENTS: Final[tuple[HookEvent, ...]] = ("on_success", "on_failure", "on_exhausted")


class Hook(NamedTuple):
    """The job that an outcome inserts. attempts: how often the hook itself is tried."""

    kind: str
    attempts: int


def hook_kind(kind: str, event: HookEvent) -> str:
    """The kind of the hook's own jobs: the kind and the event, as in report/on_success."""
    return f"{kind}/{event}"


def hooked_kind(name: str) -> str:
    """The kind whose outcome a hook follows; the name itself if it is no hook's."""
    kind, slash, event = name.rpartition("/")
    return kind if slash and event in HOOK_EVENTS else name
