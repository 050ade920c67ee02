"""CommandContext: the options that every command takes, its application and its output; and how a command ends."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rowlock.cli.exit_codes import Exit, exit_of
from rowlock.cli.find_app import apps_in, locate, parts_of
from rowlock.cli.screen.log_lines import JsonFormatter
from rowlock.cli.screen.output import Screen, clean
from rowlock.errors import ConfigurationError, InvalidSearch, RowlockError
from rowlock.model.access import SYSTEM
from rowlock.model.database_url import plain_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rowlock.app import Rowlock
    from rowlock.desk.access import Desk

DEFAULTS: Final = {"app_path": None, "database_url": None, "schema": None, "as_json": False}
"""The options of every command, and their values when they are left out."""
_AROUND: Final = 60
"""Characters of a wrong search shown on either side of the mistake."""


class CommandContext:
    """The common options of one command; `app` is found or made at first use."""

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
                from rowlock.app import Rowlock

                self._app = Rowlock(self.database_url, schema=self.schema)
        return self._app

    @property
    def desk(self) -> Desk:
        """The desk under the name of the current user, with every permission."""
        return self.app.desk(replace(SYSTEM, subject=current_user() or SYSTEM.subject))

    def require_app(self, *, find: bool = False) -> None:
        """Raise ConfigurationError without a fitting --app, for commands that run or check the application's code.

        So does a --database-url that cannot be read: no later start and no edited file would mend either.
        find: take the only application of the current folder, if there is just one.
        """
        if self.database_url is not None:
            plain_url(self.database_url)
        if self.app_path:
            parts_of(self.app_path)
            return
        found = apps_in(Path.cwd())
        if find and len(found) == 1:
            self.app_path = found[0]
            self.screen.note(f"Using the application {found[0]}; --app or ROWLOCK_APP chooses another.")
            return
        here = f" Found in this folder: {', '.join(found)}." if found else ""
        raise ConfigurationError(
            "This command needs your application: give --app module:attribute, such as tasks:app, or ROWLOCK_APP."
            f"{here}"
        )

    async def require_schema(self) -> None:
        """Raise an error if the tables do not fit this code."""
        from rowlock.store.schema import migrate

        database = self.app.database()
        async with database.connection() as connection:
            await migrate.require(connection, database.schema)

    async def close(self) -> None:
        """Close the application's connections."""
        if self._app is not None:
            await self._app.close()


def run_command(run: Callable[[CommandContext, dict[str, Any]], object], options: dict[str, Any]) -> None:
    """Run a command with these options, its own and the common ones."""
    common = {key: options.pop(key) for key in DEFAULTS}
    if common["as_json"] and not logging.getLogger().handlers:
        # Log records, such as that of the embedded PostgreSQL, are JSON on standard error, too.
        handler = logging.StreamHandler()
        handler.setFormatter(JsonFormatter())
        logging.basicConfig(handlers=[handler], level=logging.WARNING)
    with reported_errors(Screen(as_json=common["as_json"])):
        run(CommandContext(**common), options)


@contextlib.contextmanager
def reported_errors(screen: Screen) -> Iterator[None]:
    """Turn Rowlock's errors, a closed pipe and Ctrl-C into the documented exit codes, with one message at most."""
    try:
        yield
        sys.stdout.flush()
    except RowlockError as error:
        if isinstance(error, InvalidSearch) and not screen.as_json:
            screen.note(f"{error}{_pointed(error)}")
        else:
            screen.problem(error)
        raise SystemExit(exit_of(error)) from error
    except BrokenPipeError:
        # `| head` has read enough. The rest of the buffer must not raise again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(Exit.PIPE) from None
    except (KeyboardInterrupt, asyncio.CancelledError):
        # Commands that draw cancel their task on SIGTERM, to restore the terminal.
        raise SystemExit(Exit.INTERRUPTED) from None


def _pointed(error: InvalidSearch) -> str:
    """The search, and below it a caret at the mistake."""
    line = clean(" ".join(error.text[: error.position + _AROUND].split("\n")))
    start = max(0, error.position - _AROUND)
    return f"\n  {line[start:]}\n  {' ' * (error.position - start)}^"


def current_user() -> str | None:
    """The user name of this process; None: the operating system knows none (a bare container user)."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None
