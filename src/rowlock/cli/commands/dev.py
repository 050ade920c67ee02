"""rowlock dev: a database, a worker and hot reload with one command."""

from __future__ import annotations

import importlib.util
import logging
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowlock.cli import completion
from rowlock.cli.command import register_sync
from rowlock.cli.context import CommandContext
from rowlock.cli.process import free_port, reload
from rowlock.cli.process.development import TOKEN
from rowlock.cli.process.worker_main import set_up_logging
from rowlock.cli.screen.output import aligned, clean
from rowlock.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger("rowlock.cli")


def add_to(root: typer.Typer) -> None:
    """Register the command."""
    register_sync(root, "dev", dev, _run)


def dev(
    context: CommandContext,
    *,
    lanes: Annotated[
        str | None,
        typer.Option(
            metavar="A,B | A=2,B=1",
            help="Serve only these lanes, optionally with this worker's own number of slots.",
            autocompletion=completion.lanes,
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the worker; default: host and process id.")] = None,
    log_level: Annotated[
        str,
        typer.Option(
            metavar="LEVEL",
            help="Minimum log level.",
            autocompletion=completion.one_of("debug", "info", "warning", "error"),
        ),
    ] = "info",
    reload_dir: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER", help="Folder to watch for changes; may be repeated; default: the current folder."
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65_535, help=f"Of the REST API; default: the first free one from {free_port.FIRST} on."
        ),
    ] = None,
) -> None:
    """Run a database (embedded, unless there is a URL), its schema, a worker with hot reload, and the REST API.

    Changed source files restart the worker; running jobs go back to the queue without losing an attempt. The REST API
    is served to this machine, where rowlock[server] is installed.
    """


def _run(context: CommandContext, options: dict[str, Any]) -> None:
    context.require_app(find=True)
    set_up_logging(options["log_level"], as_json=context.screen.as_json)
    port = options.pop("port")
    door = free_port.listening(port) if _served() else None
    chosen = os.environ.get(TOKEN)
    token = chosen or secrets.token_urlsafe(32)
    # A token that the operator chose is not repeated.
    session = DevSession(context, options["reload_dir"], f"${TOKEN}" if chosen else token)
    logger.info("starting %s", context.app_path)
    extra = ["--dev"] if door is None else ["--dev", f"--door={door.fileno()}"]
    passed = [] if door is None else [door.fileno()]
    reload.watch(
        reload.command(context, options, *extra),
        options["reload_dir"],
        session.on_start,
        passed,
        {TOKEN: token},
    )


def _served() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("fastapi", "uvicorn"))


class DevSession:
    """Prints what runs where at the first start of the worker, and only changes afterwards."""

    def __init__(self, context: CommandContext, folders: Sequence[Path] | None, token: str) -> None:
        self._context, self._folders, self._token = context, folders, token
        self._kinds: list[str] | None = None

    def on_start(self, report: dict[str, Any], seconds: float) -> None:
        """The worker is up."""
        kinds: list[str] = report["kinds"]
        before, self._kinds = self._kinds, kinds
        if before is None and not self._context.screen.as_json:
            sys.stderr.write(clean(_block(report, str(self._context.app_path), self._folders, self._token)))
            return
        if before is None and report["api"]:
            logger.info("the API on this machine: %s", _link(report["api"], self._token))
        fresh = [f"new {kind}" for kind in kinds if kind not in (before or kinds)]
        gone = [f"without {kind}" for kind in before or () if kind not in kinds]
        logger.info("%s is up after %.1f s: %s", report["worker"], seconds, ", ".join([_count(kinds), *fresh, *gone]))


def _link(api: str, token: str) -> str:
    """The link that logs a browser in."""
    return f"{api}/auth/local?token={token}"


def _block(report: dict[str, Any], app: str, folders: Sequence[Path] | None, token: str) -> str:
    server = f"PostgreSQL {report['postgresql']}"
    where = report["database"] or f"embedded, in {report['data_dir']}"
    lanes = [
        [lane["lane"], _slots(lane), ", ".join(lane["kinds"]) or "no kind of this app"] for lane in report["lanes"]
    ]
    rows = [
        ("app", f"{app}, {_count(report['kinds'])}"),
        ("database", f"{server}, {where}"),
        ("schema", f"{report['schema']}, version {report['version']}"),
        ("worker", f"{report['worker']}"),
        *(("lane" if n == 0 else "", text) for n, text in enumerate(aligned(lanes) if lanes else [])),
        ("api", report["api"] or f"not served: {MissingExtra('fastapi', 'server')}"),
        *((("open", _link(report["api"], token)),) if report["api"] else ()),
        *((("curl", f'curl -H "Authorization: Bearer {token}" {report["api"]}/me'),) if report["api"] else ()),
        ("reload", reload.watched(folders)),
        ("stop", "Ctrl-C"),
    ]
    return "\n" + "".join(f"  {title:<10}{text}\n" for title, text in rows) + "\n"


def _slots(lane: dict[str, Any]) -> str:
    return f"{lane['slots']} slots" if lane["enabled"] else "drained"


def _count(kinds: Sequence[str]) -> str:
    return f"{len(kinds)} kind{'s' * (len(kinds) != 1)}"
