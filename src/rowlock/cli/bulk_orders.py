"""Orders for all jobs that a search finds: previewed, confirmed, then followed until they are done."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rowlock.cli.context import current_user
from rowlock.cli.exit_codes import Exit
from rowlock.cli.screen import records
from rowlock.cli.screen.job_text import job_rows
from rowlock.cli.screen.output import aligned
from rowlock.errors import BulkRefused, InvalidOption
from rowlock.model.problem_codes import FAILED

if TYPE_CHECKING:
    from rowlock.cli.context import CommandContext
    from rowlock.model.operation import Action, Operation

Search = Annotated[
    str | None,
    typer.Option(
        metavar="SEARCH", help="Apply to every job that this search finds, instead of ids; asks for confirmation first."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="With --search: do not ask for confirmation.")]
_PATIENT: Final = 3600.0


def ids_or_search(job_ids: list[str] | None, search: str | None) -> list[str]:
    """The ids; InvalidOption unless exactly one of ids and --search is given."""
    if (search is None) == (not job_ids):
        raise InvalidOption("Name jobs by their ids, or find them with --search; one of the two.")
    return job_ids or []


async def order_found(
    context: CommandContext, action: Action, search: str, *, yes: bool, by: str | None = None, note: str | None = None
) -> None:
    """Preview the order, ask for confirmation, carry it out and print the outcome."""
    jobs = context.app.jobs
    seen = await jobs.bulk(action, search=search, dry_run=True)
    if not seen.count:
        context.screen.answer("No jobs.", records.operation(seen))
        return
    if not yes:
        _confirm(context, action, seen)
    expected = seen.count.value if seen.count.exact else sys.maxsize >> 1
    started = await jobs.bulk(
        action, search=search, filter_hash=seen.filter_hash, expected_max=expected, by=by or current_user(), note=note
    )
    done = await context.app.operations.wait(started.id or 0, timeout=_PATIENT)
    left = f", {done.skipped} left as they were" * bool(done.skipped) + f", {done.failed} failed" * bool(done.failed)
    context.screen.answer(f"{action}: {done.done} jobs{left} (operation {done.id}).", records.operation(done))
    if done.state != "completed" or done.failed:
        why = f"operation {done.id} is {done.state}" + (f": {done.error}" if done.error else "")
        context.screen.problem_of(FAILED, why)
        raise typer.Exit(Exit.FAILED)


def _confirm(context: CommandContext, action: Action, seen: Operation) -> None:
    for line in aligned([[row[0], row[1], row[2], row[6]] for row in job_rows(seen.samples)]):
        context.screen.note(line)
    question = f"{action} {seen.count} jobs such as these?"
    if not sys.stdin or not sys.stdin.isatty():
        raise BulkRefused(f"{question} Nothing was done: there is no terminal to ask. Add --yes.")
    if not typer.confirm(question, err=True):
        raise typer.Exit(Exit.FAILED)
