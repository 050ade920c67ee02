from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


async def offered(cli: Cli, line: str, **environment: str) -> list[str]:
    """What the shell would offer at the end of this line."""
    words = line.split(" ")
    asking = {"_ROWLOCK_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    answer = await cli(**asking, **environment)
    assert (answer.code, answer.err) == (0, "")
    return answer.out.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("rowlock do", ["doctor"]),
        ("rowlock jobs wa", ["watch"]),
        ("rowlock jobs ls --state c", ["cancelled", "completed", "completed_with_errors"]),
        ("rowlock enqueue --app tasks:app g", ["greet"]),
        ("rowlock jobs ls --kind e --app tasks:app --kind e", ["explode"]),
        ("rowlock enqueue greet --on-conflict re", ["reject", "replace"]),
        ("rowlock lanes set front --order s", ["strict"]),
    ],
)
async def test_words_that_are_known_are_offered(cli: Cli, line: str, words: list[str]) -> None:
    assert await offered(cli, line) == words


async def test_lanes_are_offered_from_the_database(cli: Cli) -> None:
    await cli("lanes", "set", "front", "--create", "--kinds", "greet")
    assert await offered(cli, "rowlock lanes drain f") == ["front"]
    assert await offered(cli, "rowlock worker --lanes front,f") == ["front,front"]


@pytest.mark.parametrize(
    "source", ["print('hello')\n1 / 0\n", "import time\ntime.sleep(60)\n", "raise SystemExit(3)\n"]
)
async def test_an_application_that_fails_talks_or_hangs_disturbs_nobody(cli: Cli, source: str) -> None:
    cli.folder.joinpath("odd.py").write_text(source)
    assert await offered(cli, "rowlock enqueue g", ROWLOCK_APP="odd:app") == []


async def test_a_database_that_is_away_or_none_at_all_disturbs_nobody(cli: Cli) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    assert await offered(cli, "rowlock lanes drain f", ROWLOCK_DATABASE_URL=nowhere) == []
    folder = cli.folder / "embedded"
    assert await offered(cli, "rowlock lanes drain f", ROWLOCK_DATABASE_URL="", ROWLOCK_DATA_DIR=str(folder)) == []
    assert not folder.exists()
