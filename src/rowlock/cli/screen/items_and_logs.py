"""Output of `rowlock jobs logs` and `rowlock jobs items`."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final

from rowlock.cli.screen import records
from rowlock.cli.screen.output import AppOutput, clean, compact, moment
from rowlock.model import ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.model.progress import Item, LogLine

_EVERY: Final = 1.0
_COLUMNS: Final = ("phase", "item", "state", "started", "ended", "why")
_SPARE: Final = ("started", "ended")


async def show_logs(context: AppOutput, job_id: str, limit: int, *, follow: bool) -> None:
    """Print the last lines of a log; follow: and new lines until the job is final."""
    number = ids.parse(job_id)
    jobs = context.app.jobs
    lines = await jobs.logs(number, limit=limit, last=True)
    _print(context, lines)
    if not lines and not follow and not context.screen.as_json:
        context.screen.note("it has logged nothing so far.")
    while follow:
        # Read before the lines: lines that were logged before the job ended are then there.
        final = (await jobs.get(number)).is_final
        while more := await jobs.logs(number, after=lines[-1].n if lines else 0, limit=limit):
            _print(context, more)
            lines = more
        if final:
            return
        await asyncio.sleep(_EVERY)


def _print(context: AppOutput, lines: Sequence[LogLine]) -> None:
    for line in lines:
        if context.screen.as_json:
            sys.stdout.write(compact(records.log_line(line)) + "\n")
            continue
        if line.missed:
            context.screen.line(f"… {line.missed:,} lines were dropped …")
        at = f"{line.at.astimezone():%Y-%m-%d %H:%M:%S}.{line.at.microsecond // 1000:03}"
        first, *rest = clean(line.message).splitlines() or [""]
        context.screen.line(f"{at}  {line.level_name:<8}  {line.logger}  {first}")
        for text in rest:
            context.screen.line(f"    {text}")
    sys.stdout.flush()


async def show_items(context: AppOutput, items: Sequence[Item]) -> None:
    """Print items as a table."""
    rows = [
        [item.phase, item.name, item.state.value, moment(item.started_at), moment(item.ended_at), _why(item)]
        for item in items
    ]
    context.screen.table(_COLUMNS, rows, [records.members(item) for item in items], "No items.", _SPARE)


def _why(item: Item) -> str:
    if item.error is not None:
        return ": ".join(str(item.error[key]) for key in ("type", "message") if item.error.get(key))
    return item.reason or ""
