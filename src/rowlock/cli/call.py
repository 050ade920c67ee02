"""One call of the command line: the options every command takes, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import inspect
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Final, ParamSpec, cast, get_type_hints

import typer

from rowlock.app import Rowlock
from rowlock.cli.exits import EPILOG, Exit, exit_of
from rowlock.cli.locate import locate
from rowlock.cli.show import Screen, complain
from rowlock.errors import ConfigurationError, RowlockError
from rowlock.model.access import SYSTEM
from rowlock.store import migrate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from rowlock.desk.access import Desk

P = ParamSpec("P")
_PANEL: Final = "Common options"
COMMON: Final = {
    "app_path": Annotated[
        str | None,
        typer.Option(
            "--app",
            metavar="MODULE:ATTR",
            envvar="ROWLOCK_APP",
            help="The application, found from the current folder.",
            rich_help_panel=_PANEL,
        ),
    ],
    "database_url": Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Instead of the application's, or of ROWLOCK_DATABASE_URL.", rich_help_panel=_PANEL
        ),
    ],
    "schema": Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Instead of the application's, or of ROWLOCK_SCHEMA.", rich_help_panel=_PANEL
        ),
    ],
    "as_json": Annotated[
        bool, typer.Option("--json", help="JSON on standard output, and nothing else there.", rich_help_panel=_PANEL)
    ],
}
_DEFAULTS: Final = {"app_path": None, "database_url": None, "schema": None, "as_json": False}


class Call:
    """What was asked for; `app` is found or made at first use."""

    def __init__(self, app_path: str | None, database_url: str | None, schema: str | None, *, as_json: bool) -> None:
        self.app_path, self.database_url, self.schema = app_path, database_url, schema
        self.screen = Screen(as_json=as_json)
        self._app: Rowlock | None = None

    @property
    def app(self) -> Rowlock:
        """The application that --app names, or one without kinds."""
        if self._app is None:
            if self.app_path:
                self._app = locate(self.app_path)
                settings = self._app.settings
                self._app.settings = replace(
                    settings,
                    database_url=self.database_url or settings.database_url,
                    schema=self.schema or settings.schema,
                )
            else:
                self._app = Rowlock(self.database_url, schema=self.schema)
        return self._app

    @property
    def desk(self) -> Desk:
        """The desk under the name of whoever sits at this terminal; they may do everything, as the library may."""
        return self.app.desk(replace(SYSTEM, subject=person() or SYSTEM.subject))

    def require_app(self) -> None:
        """Refuse to go on without --app: the command runs or checks the application's own code."""
        if not self.app_path:
            raise ConfigurationError(
                "This command needs your application: give --app module:attribute, such as tasks:app, or ROWLOCK_APP."
            )

    async def require_schema(self) -> None:
        """Refuse to go on when the tables do not fit this code."""
        database = self.app.database()
        async with database.connection() as connection:
            await migrate.require(connection, database.schema)

    async def close(self) -> None:
        """Leave the database."""
        if self._app is not None:
            await self._app.close()


def command(
    group: typer.Typer, name: str | None = None, *, app: bool = False, schema: bool = True
) -> Callable[[Callable[Concatenate[Call, P], Awaitable[None]]], Callable[Concatenate[Call, P], Awaitable[None]]]:
    """Make a coroutine a command with the common options. app: it needs --app; schema: the tables are checked first."""

    def register(
        function: Callable[Concatenate[Call, P], Awaitable[None]],
    ) -> Callable[Concatenate[Call, P], Awaitable[None]]:
        async def answer(call: Call, given: dict[str, Any]) -> None:
            try:
                if app:
                    call.require_app()
                if schema:
                    await call.require_schema()
                await cast("Callable[..., Awaitable[None]]", function)(call, **given)
            finally:
                await call.close()

        register_sync(group, name, function, lambda call, given: asyncio.run(answer(call, given)))
        return function

    return register


def register_sync(
    group: typer.Typer,
    name: str | None,
    function: Callable[..., object],
    run: Callable[[Call, dict[str, Any]], object],
) -> None:
    """Register `run` under the signature and docstring of `function`, whose first parameter is the Call."""

    def entry(**given: Any) -> None:  # noqa: ANN401 - typer checked them against the signature below
        common = {key: given.pop(key) for key in COMMON}
        with reported():
            run(Call(**common), given)

    hints = get_type_hints(function, include_extras=True)
    own = list(inspect.signature(function).parameters.values())[1:]
    parameters = [
        parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own
    ]
    parameters += [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS[key], annotation=annotation)
        for key, annotation in COMMON.items()
    ]
    entry.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what inspect.signature() reads
    entry.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    entry.__doc__ = function.__doc__
    group.command(name or function.__name__, epilog=EPILOG)(entry)


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Turn Rowlock's errors, a reader who left and Ctrl-C into the documented exit codes, with one message at most."""
    try:
        yield
        sys.stdout.flush()
    except RowlockError as error:
        complain(str(error))
        raise typer.Exit(exit_of(error)) from error
    except BrokenPipeError:
        # `| head` has read enough. What is still buffered must not complain again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(Exit.PIPE) from None
    except (KeyboardInterrupt, asyncio.CancelledError):
        # A command that draws takes SIGTERM as the cancelling of its task, to leave the terminal as it was.
        raise typer.Exit(Exit.INTERRUPTED) from None


def person() -> str | None:
    """Who gives the order, as the operating system knows them; None: it does not (a bare container user)."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None
