from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

    from rowlock import Rowlock

RENAMED = """

@app.job("mail.greet", aliases=("send_greeting",), version=2)
async def send(name: str) -> None: ...
"""


async def test_the_old_name_of_a_kind_enqueues_the_new_one_and_says_so(cli: Cli, app: Rowlock) -> None:
    tasks = cli.folder / "tasks.py"
    tasks.write_text(tasks.read_text() + RENAMED)
    answer = await cli("enqueue", "send_greeting", "--app", "tasks:app", "--args", '{"name": "Ada"}')
    assert answer.code == 0
    assert "send_greeting is called mail.greet now" in answer.err
    public_id = answer.out.split()[0]
    assert (await app.jobs.get(public_id)).kind == "mail.greet"
    shown = await cli("jobs", "show", public_id)
    assert '{"name": "Ada"} (version 2)' in shown.out
    assert "$version" not in shown.out
