"""A handler sees the documented names of its context and no others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rowlock import Context, ItemContext, SyncContext, SyncItemContext
from rowlock.flow.progress.base_context import BaseContext, io_of
from rowlock.flow.progress.sync_context import sync_context_of
from rowlock.flow.progress.sync_io import SyncAttemptIO, ThreadsafeLoopCaller
from rowlock.testing import stub_context, stub_sync_context

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "progress.md"
OF_STUBS = {"record", "cancel", "lose"}


def documented(column: str) -> set[str]:
    """The names that the page lists for one class."""
    lines = PAGE.read_text(encoding="utf-8").partition("## Every name of a context")[2].splitlines()
    header, _, *rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    return {row[0].partition("(")[0] for row in rows if row[header.index(column)] == "yes"}


def shown(context: object) -> set[str]:
    return {name for name in dir(context) if not name.startswith("_")}


def contexts() -> dict[str, BaseContext]:
    io, loop = io_of(stub_context()), asyncio.new_event_loop()
    try:
        sync = SyncAttemptIO(io, ThreadsafeLoopCaller(loop))
        made = [Context(io), sync_context_of(io, loop), ItemContext(io, "a"), SyncItemContext(sync, "a")]
        return {type(context).__name__: context for context in made}
    finally:
        loop.close()


@pytest.mark.parametrize("kind", [Context, SyncContext, ItemContext, SyncItemContext])
def test_a_context_shows_its_documented_names_only(kind: type[BaseContext]) -> None:
    names = documented(kind.__name__)
    assert {"job", "claim", "lock", "guarded"} <= names
    assert shown(contexts()[kind.__name__]) == shown(kind) == names


@pytest.mark.parametrize(("stub", "kind"), [(stub_context(), Context), (stub_sync_context(), SyncContext)])
def test_a_stub_shows_the_names_of_what_it_stands_for(stub: BaseContext, kind: type[BaseContext]) -> None:
    assert shown(stub) == documented(kind.__name__) | OF_STUBS


@pytest.mark.parametrize("context", [stub_context(), stub_sync_context(), *contexts().values()])
def test_a_context_takes_no_attributes_of_the_handlers_own(context: Any) -> None:  # noqa: ANN401 - as a handler has it
    with pytest.raises(AttributeError):
        context.mine = 1
    with pytest.raises(AttributeError):
        context.line.flush()


async def test_what_a_context_opens_shows_its_documented_names_only() -> None:
    ctx = stub_context()
    async with ctx.phase("a") as phase:
        assert shown(phase) == {"advance"}
    assert shown(ctx.item("a")) == set()
    assert shown(ctx.checkpoint) == {"save", "load"}
    sync = stub_sync_context()
    with sync.phase("a") as sync_phase:
        assert shown(sync_phase) == {"advance"}
    assert shown(sync.checkpoint) == {"save", "load"}
    with sync.lock("edition", 7) as lock:
        assert shown(lock) == {"check"}
