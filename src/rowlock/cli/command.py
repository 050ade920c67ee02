"""Registers functions as typer commands: the common options, and the command's own from its signature."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Final, ParamSpec, cast, get_type_hints

import typer
from typer.core import TyperCommand
from typing_extensions import override

from rowlock.cli.context import DEFAULTS, CommandContext, run_command
from rowlock.cli.exit_codes import EPILOG
from rowlock.model.spelling.renamed import RENAMED_LANE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

P = ParamSpec("P")
_PANEL: Final = "Common options"
COMMON: Final = {
    "app_path": Annotated[
        str | None,
        typer.Option(
            "--app",
            metavar="MODULE:ATTR",
            envvar="ROWLOCK_APP",
            help="Your application; modules are looked up from the current folder first.",
            rich_help_panel=_PANEL,
        ),
    ],
    "database_url": Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Database, instead of the application's or ROWLOCK_DATABASE_URL.",
            rich_help_panel=_PANEL,
        ),
    ],
    "schema": Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Schema to use instead of the application's or ROWLOCK_SCHEMA.", rich_help_panel=_PANEL
        ),
    ],
    "as_json": Annotated[
        bool,
        typer.Option("--json", help="Results and problems as JSON.", rich_help_panel=_PANEL),
    ],
}


class Command(TyperCommand):
    """A command that also takes its options under their old names, which --help does not show."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; an old name stands for the new one, unless the command has an option of that name."""
        known = {name for parameter in self.params for name in parameter.opts}
        renamed = {_flag(old): _flag(new) for old, new in RENAMED_LANE_FIELDS.items()}
        end = args.index("--") if "--" in args else len(args)
        for at, word in enumerate(args[:end]):
            name, equals, value = word.partition("=")
            if name not in known and renamed.get(name) in known:
                args[at] = f"{renamed[name]}{equals}{value}"
        return super().parse_args(ctx, args)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def command(
    group: typer.Typer, name: str | None = None, *, app: bool = False, schema: bool = True
) -> Callable[
    [Callable[Concatenate[CommandContext, P], Awaitable[None]]],
    Callable[Concatenate[CommandContext, P], Awaitable[None]],
]:
    """Make a coroutine a command with the common options. app: it needs --app; schema: the tables are checked first."""

    def register(
        function: Callable[Concatenate[CommandContext, P], Awaitable[None]],
    ) -> Callable[Concatenate[CommandContext, P], Awaitable[None]]:
        async def ask(context: CommandContext, options: dict[str, Any]) -> None:
            try:
                if app:
                    context.require_app()
                if schema:
                    await context.require_schema()
                await cast("Callable[..., Awaitable[None]]", function)(context, **options)
            finally:
                await context.close()

        register_sync(group, name, function, lambda context, options: asyncio.run(ask(context, options)))
        return function

    return register


def register_sync(
    group: typer.Typer,
    name: str | None,
    function: Callable[..., object],
    run: Callable[[CommandContext, dict[str, Any]], object],
) -> None:
    """Register `run` under the signature and docstring of `function`, whose first parameter is the context."""

    def entry(**options: Any) -> None:  # noqa: ANN401 - typer checked them against the signature below
        run_command(run, options)

    parameters = _parameters(function)
    entry.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what inspect.signature() reads
    entry.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    entry.__doc__ = function.__doc__
    group.command(name or function.__name__, epilog=EPILOG, cls=Command)(entry)


def _parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    """The options of a command: its own, without the context, and the common ones."""
    hints = get_type_hints(function, include_extras=True)
    own = list(inspect.signature(function).parameters.values())[1:]
    common = [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS[key], annotation=annotation)
        for key, annotation in COMMON.items()
    ]
    return [item.replace(annotation=hints[item.name], kind=inspect.Parameter.KEYWORD_ONLY) for item in own] + common
