"""What a worker must be able to do for a job is stored where code that knows nothing of it finds no version to read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rowlock import Context, Rate, Rowlock, chain
from rowlock.errors import UnreadableArguments
from rowlock.flow.kinds.codec import Codec
from rowlock.model.kind import Kind
from rowlock.model.stored_args import skills_of, version_of, with_skills

if TYPE_CHECKING:
    import asyncpg

    Sql = asyncpg.Connection[asyncpg.Record]


async def report(org: int) -> None: ...


def codec(**says: Any) -> Codec:  # noqa: ANN401 - the kind's own
    return Codec.of(report, context_types=(Context,), kind=Kind("report", **says), limit=1000)


def readable_by_version_2(args: dict[str, object]) -> bool:
    """How the first release looks for a version; 0 is one to which no upgrade leads."""
    version = args.get("$version", 1)
    return isinstance(version, int)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("{}", '{"$version":[1,"rate"]}'),
        ('{"org":7}', '{"$version":[1,"rate"],"org":7}'),
        ('{"$version":3}', '{"$version":[3,"rate"]}'),
        ('{"$version":3,"org":7}', '{"$version":[3,"rate"],"org":7}'),
        ('{"$version":[3,"output"],"org":7}', '{"$version":[3,"rate"],"org":7}'),
    ],
)
def test_skills_stand_beside_the_version(text: str, stored: str) -> None:
    assert with_skills(text, "rate") == stored
    assert version_of(json.loads(stored)) == version_of(json.loads(text))
    assert skills_of(json.loads(stored)) == ["rate"]
    assert with_skills(text) == text


@pytest.mark.parametrize("version", [1, 2])
def test_known_skills_are_no_part_of_the_arguments(version: int) -> None:
    made = codec(version=version)
    assert made.decode(with_skills(made.encode((), {"org": 7}), "rate", "output")) == {"org": 7}


def test_a_job_that_takes_an_unknown_skill_waits_for_newer_code() -> None:
    with pytest.raises(UnreadableArguments, match="supports teleport, which this code does not") as caught:
        codec().decode('{"$version":[1,"rate","teleport"],"org":7}')
    assert caught.value.cause == "takes teleport"


async def test_jobs_with_a_rate_or_results_of_others_are_left_to_those_who_know(app: Rowlock, sql: Sql) -> None:
    @app.job
    async def plain(n: int) -> int:
        return n

    @app.job(rate=Rate(100, "1s"))
    async def limited(n: int) -> int:
        return n

    await plain.enqueue(1)
    first = await limited.enqueue(2)
    await limited.enqueue_many([{"n": 3}])
    started = await chain(plain, plain, limited).enqueue(4)
    await app.jobs.edit(first.id, args={"n": 5})
    rows = [json.loads(row["args"]) for row in await sql.fetch("SELECT args FROM jobs ORDER BY id")]
    assert [skills_of(args) for args in rows] == [[], ["rate"], ["rate"], [], ["output"], ["rate", "output"]]
    assert [readable_by_version_2(args) for args in rows] == [True, False, False, True, False, False]
    assert (await app.jobs.get(first.id)).args == {"n": 5}
    async with app.worker():
        assert await started.wait(timeout=20) == 4
        assert await first.wait(timeout=20) == 5
