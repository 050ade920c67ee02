"""The application that is deployed: that of the torture, with jobs that snooze, are cancelled, or use what is new.

Code of an earlier release runs it, too. `rated` and `passed` are kinds that both know, and only the newer one knows
that a rate limits the first and that results of others are put into the arguments of the second; `fresh` is a new kind.
"""

from __future__ import annotations

from typing import Any, Final

from rowlock import Context, Retry, Snooze
from torture import jobs
from torture.deploy import AMOUNT, BURST
from torture.jobs import app, ended, note, work

try:
    from rowlock import Rate, Workflow, chain
except ImportError:
    NEWER = False
else:
    NEWER = True
"""Whether this code knows what came after version 2."""
_AGAIN: Final = Retry(attempts=20, minimum="0s", jitter="0s")
_LIMITED: Final[dict[str, Any]] = {"rate": Rate(AMOUNT, "1s", burst=BURST)} if NEWER else {}


@app.job(retry=_AGAIN)
async def snoozes(ctx: Context, tag: str) -> str | Snooze:
    """Runs a second time, a moment later."""
    if ctx.claim.fence == 1:
        note(ctx, tag, "start")
        return Snooze("100ms")
    return await work(ctx, tag, 0.01)


@app.job
async def dropped(ctx: Context, tag: str, seconds: float) -> str:
    """Somebody cancels it."""
    return await work(ctx, tag, seconds)


@app.job(retry=_AGAIN, **_LIMITED)
async def rated(ctx: Context, tag: str) -> str:
    """Limited by a rate, for those who know."""
    return await work(ctx, tag, 0.01)


@app.job(retry=Retry(attempts=1))
async def passed(ctx: Context, tag: str, before: Any = None) -> str:  # noqa: ANN401 - whatever the arguments have there
    """Takes anything, and fails where it gets something else than the result of the step before."""
    note(ctx, tag, "start")
    if before is not None and not isinstance(before, str):
        message = f"the result of the step before was expected, got {before!r}"
        raise TypeError(message)
    return ended(ctx, tag)


if NEWER:

    @app.job(retry=_AGAIN)
    async def fresh(ctx: Context, tag: str) -> str:
        """Of a kind that older code does not know."""
        return await work(ctx, tag, 0.01)

    relay = chain(passed, passed.step(tag="second"), passed.step(tag="third"))


def diamond(tag: str) -> Workflow:
    """A workflow with a fan-out and a fan-in."""
    flow: Workflow = Workflow("diamond")
    first = flow.add("first", jobs.step.step(f"{tag}-first"))
    middle = [flow.add(name, jobs.step.step(f"{tag}-{name}"), after=[first]) for name in ("left", "right")]
    flow.add("last", jobs.step.step(f"{tag}-last"), after=middle)
    return flow
