"""What handlers report, log, save, return and raise, however strange: the job ends, and its neighbours pay nothing."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.fuzz.conftest import Bench, working
from tests.fuzz.profile import PATIENCE, tried
from tests.fuzz.strange import DEEP, HUGE, MAPPINGS, NUMBERS, SPANS, TEXTS, json_values, nested

from rowlock import Cancel, Context, Partial, Retry, Skip, Snooze, State

ODD = st.one_of(TEXTS, NUMBERS, st.floats(), st.binary(max_size=3), st.none(), HUGE, st.just(Decimal("1.5")))
VALUES = st.one_of(json_values(), DEEP, MAPPINGS, st.binary(max_size=3), st.just(object()), st.just({1, "a"}))


class Named(Exception):
    """Its class may be called anything."""


def raising(name: str, text: object) -> Exception:
    """Python takes any name for a class that has no NUL and is UTF-8."""
    error: Exception = type(name.replace("\0", "").encode(errors="replace").decode() or "E", (Named,), {})(text)
    return error


class Panic(BaseException):
    """Outside Exception, as what native extensions and green threads raise."""


FOREIGN = st.one_of(
    st.builds(Panic, ODD),
    st.builds(SystemExit, ODD),
    st.builds(GeneratorExit, ODD),
    st.builds(lambda text: BaseExceptionGroup("several", [Panic(text), ValueError(text)]), ODD),
)


SAID = st.one_of(
    st.tuples(st.just("progress"), ODD, ODD, ODD),
    st.tuples(st.just("phase"), ODD, ODD, ODD),
    st.tuples(st.just("log"), TEXTS, NUMBERS, ODD),
    st.tuples(st.just("item"), TEXTS, TEXTS, st.sampled_from(["done", "skip", "fail"])),
    st.tuples(st.just("checkpoint"), VALUES, st.none(), st.none()),
)
ENDS = st.one_of(
    st.tuples(st.just("return"), VALUES),
    st.tuples(st.just("raise"), st.builds(raising, TEXTS, ODD)),
    st.tuples(st.just("raise"), FOREIGN),
    st.tuples(st.just("raise"), st.builds(Skip, ODD)),
    st.tuples(st.just("return"), st.builds(Partial, VALUES, st.lists(ODD, max_size=2))),
    st.tuples(st.just("return"), st.builds(Cancel, ODD)),
    st.tuples(st.just("snooze"), SPANS),
)


async def say(ctx: Context, what: str, first: Any, second: Any, third: Any) -> None:  # noqa: ANN401 - anything
    match what:
        case "progress":
            await ctx.progress(first, second, third)
        case "phase":
            async with ctx.phase(first, second) as phase:
                await phase.advance(third)
        case "log":
            ctx.log.log(second if second > 0 else 20, "%s", first)
            ctx.log.info(first, third)
        case "item":
            async with ctx.item(first):
                if third == "skip":
                    raise Skip(second)
                if third == "fail":
                    raise ValueError(second)
        case "checkpoint":
            await ctx.checkpoint.save(first)
        case _:
            raise AssertionError(what)


Script = tuple[list[tuple[Any, ...]], tuple[str, Any]]


@pytest.mark.timeout(PATIENCE)
def test_a_job_ends_whatever_its_handler_says_and_its_neighbours_pay_nothing(bench: Bench) -> None:
    scripts: dict[int, Script] = {}

    @bench.app.job(retry=Retry(attempts=1))
    async def odd(ctx: Context, number: int) -> Any:  # noqa: ANN401 - anything
        said, (how, what) = scripts[number]
        for one in said:
            await say(ctx, *one)
        if how == "raise":
            raise what
        if how == "snooze":
            Snooze(what)  # a wrong duration is told here; a right one would take its time
            return None
        return what

    @bench.app.job(retry=Retry(attempts=1))
    async def sane(ctx: Context) -> str:
        await ctx.progress(1, 2, "half")
        await ctx.checkpoint.save({"a": 1})
        return str(await ctx.checkpoint.load())

    async def run(number: int) -> None:
        strange = await odd.enqueue(number)
        neighbour = await sane.enqueue()
        assert await neighbour.wait(timeout=20) == "{'a': 1}"
        job = await bench.app.jobs.wait(strange.id, timeout=20)
        assert job.is_final
        assert job.state in (State.COMPLETED, State.COMPLETED_WITH_ERRORS, State.FAILED, State.CANCELLED)
        if job.state is State.FAILED:
            assert (job.errors or {}).get("reason")
        await bench.shown(job.id)
        said = scripts[number][0]
        if said and all(one[0] == "log" for one in said):
            assert await bench.app.jobs.logs(job.id)

    numbers = iter(range(10**9))

    @tried(100)
    @given(st.tuples(st.lists(SAID, max_size=3), ENDS))
    @example(([("progress", 1, 2, 5)], ("return", None)))
    @example(([("progress", 10**400, None, None)], ("return", None)))
    @example(([("progress", Decimal(1), None, "x\0\ud800")], ("return", None)))
    @example(([("phase", "a\0\ud800", 10, 1), ("item", "b", "c", "done")], ("return", None)))
    @example(([("item", "a\0\ud800", "c\0", "skip")], ("return", None)))
    @example(([("log", "a\0\ud800", 2**40, "x")], ("return", None)))
    @example(([("checkpoint", nested(300), None, None)], ("return", None)))
    @example(([("checkpoint", "\ud800", None, None)], ("return", None)))
    @example(([], ("raise", raising("a b\n", "\ud800\0"))))
    @example(([], ("raise", Panic("\ud800\0"))))
    @example(([], ("raise", SystemExit(3))))
    @example(([], ("return", nested(250))))
    @example(([], ("return", Partial({"a": "\ud800"}, ["\0"]))))
    def one(script: Script) -> None:
        number = next(numbers)
        scripts[number] = script
        bench.run(run(number))

    with working(bench):
        one()
