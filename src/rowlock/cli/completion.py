"""Shell completion: offers names after <Tab>, quickly, and without printing errors."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import typer

from rowlock.cli.find_app import locate
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from rowlock.app import Rowlock

_PATIENCE: Final = 1.5
"""Seconds to import the application and query the database."""


class Named(Protocol):
    """Something with a name."""

    @property
    def name(self) -> str:
        """Its name."""


def states(incomplete: str) -> list[str]:
    """The states of a job."""
    return _starting(incomplete, State)


def one_of(*words: str) -> Callable[[str], list[str]]:
    """Fixed words."""

    def offer(incomplete: str) -> list[str]:
        return _starting(incomplete, words)

    return offer


def kinds(ctx: typer.Context, incomplete: str) -> list[str]:
    """The kinds of the application, if it can be imported quickly."""
    with _hushed():
        app = _app(ctx)
        return _starting(incomplete, app.handlers)
    return []


def lanes(ctx: typer.Context, incomplete: str) -> list[str]:
    """The lanes of a database that answers quickly; after a comma, the next lane of a list."""
    *before, last = incomplete.split(",")
    found = _starting(last, _asked(ctx, lambda app: app.lanes.list()))
    return [",".join([*before, name]) for name in found]


def schedules(ctx: typer.Context, incomplete: str) -> list[str]:
    """The schedules of a database that answers quickly."""
    return _starting(incomplete, _asked(ctx, lambda app: app.schedules.list()))


def _asked(ctx: typer.Context, ask: Callable[[Rowlock], Awaitable[Sequence[Named]]]) -> list[str]:
    with _hushed():
        app = _app(ctx, ctx.params.get("database_url"))
        if app.settings.database_url is not None:  # <Tab> must not start an embedded server
            return asyncio.run(_names(app, ask))
    return []


async def _names(app: Rowlock, ask: Callable[[Rowlock], Awaitable[Sequence[Named]]]) -> list[str]:
    try:
        return [item.name for item in await ask(app)]
    finally:
        await app.close()


def _app(ctx: typer.Context, url: str | None = None) -> Rowlock:
    path = ctx.params.get("app_path") or os.environ.get("ROWLOCK_APP")
    if url is None and path:
        return locate(path)
    from rowlock.app import Rowlock

    return Rowlock(url, schema=ctx.params.get("schema"))


def _starting(incomplete: str, words: Iterable[str]) -> list[str]:
    return sorted(str(word) for word in words if str(word).startswith(incomplete))


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    """Swallow errors, delays and output, which the shell would show in the middle of a line."""
    sys.stdout.flush()
    kept = [os.dup(standard) for standard in (1, 2)]
    silence = os.open(os.devnull, os.O_WRONLY)
    before = signal.signal(signal.SIGALRM, _give_up)
    try:
        for standard in (1, 2):
            os.dup2(silence, standard)
        signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
        yield
    except BaseException:  # noqa: BLE001, S110 - also what an application raises while it is imported, SystemExit too
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        for standard, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, standard)
            os.close(copy)
        os.close(silence)


def _give_up(*_: object) -> NoReturn:
    raise TimeoutError
