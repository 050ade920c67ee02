from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock import Retry, Rowlock, Workflow

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

    from rowlock import Started


async def orders(app: Rowlock) -> Started[object]:
    @app.job
    async def pick(n: int) -> int:
        return n

    @app.job(retry=Retry(attempts=1))
    async def pack(ns: list[int]) -> int:
        raise ValueError(ns)

    @app.job
    async def ship(n: int) -> None: ...

    flow = Workflow("orders")
    picked = [flow.add(pick.step(n)) for n in range(2)]
    packed = flow.add(pack.step([one.output for one in picked]))
    flow.add(ship.step(packed.output))
    flow.add("complain", ship.step(1), after=[packed], when="failure")
    many = Workflow("many")
    for n in range(30):
        many.add(pick.step(n))
    await many.enqueue()
    return await flow.enqueue()


async def test_workflows_are_shown_and_ordered(cli: Cli, app: Rowlock) -> None:
    started = await orders(app)
    listed = await cli("workflows", "ls")
    head, first, second = listed.out.splitlines()
    assert head.split() == ["ID", "NAME", "STATE", "STEPS", "OPEN", "FAILED", "CREATED", "ENDED"]
    assert first.split()[:5] == [started.public_id, "orders", "running", "5", "5"]
    assert second.split()[1] == "many"
    shown = (await cli("workflows", "show", started.public_id)).out
    rows = shown.partition("\n\n")[2].splitlines()
    assert [row.rstrip().partition("  queued")[0].partition("  blocked")[0].rstrip() for row in rows[1:]] == [
        "pick",
        "pick-2",
        "  pack",
        "    ship",
        "    complain",
    ]
    assert "after pick, pick-2" in rows[3]
    assert "on failure" in rows[5]
    many = (await cli("workflows", "ls", "--name", "many", "--json")).json
    together = (await cli("workflows", "show", many[0]["id"])).out
    assert "pick … pick-30" in together
    assert "30 queued" in together
    async with app.worker():
        watched = await cli("workflows", "watch", started.public_id)
    assert (watched.code, watched.out.splitlines()[-1]) == (0, f"{started.public_id} orders: completed_with_errors")
    assert "pack: " in watched.out
    record = (await cli("workflows", "show", started.public_id, "--json")).json
    assert [step["name"] for step in record["nodes"]] == ["pick", "pick-2", "pack", "ship", "complain"]
    assert record["edges"][0] == {"upstream": "pick", "downstream": "pack", "needs": "success", "met": True}
    retried = await cli("workflows", "retry", started.public_id, "--from", "pack")
    assert retried.out.splitlines()[1].split()[2] == "running"
    cancelled = await cli("workflows", "cancel", started.public_id, "--note", "enough", "--json")
    assert cancelled.json[0]["state"] == "cancelled"
    assert (await cli("workflows", "watch", started.public_id)).code == 1
    again = await cli("workflows", "cancel", started.public_id)
    assert (again.code, "it is cancelled" in again.err) == (1, True)
    mistyped = await cli("workflows", "show", started.public_id[:-1] + "*")
    assert (mistyped.code, "is not a workflow id" in mistyped.err) == (2, True)
    assert (await cli("jobs", "rm", str(started.jobs["pick"]))).code == 0
    assert "\npack" in (await cli("workflows", "show", started.public_id)).out.replace("\n  pack", "\npack")
    job = await cli("jobs", "show", str(started.jobs["pack"]))
    assert f"workflow {started.public_id}, step pack" in " ".join(job.out.split())


async def test_a_signal_from_the_terminal(cli: Cli, app: Rowlock) -> None:
    started = await orders(app)
    job = str(started.jobs["pack"])
    sent = await cli("jobs", "signal", job, "go", "--payload", '{"ok": true}')
    assert (sent.code, sent.err) == (0, "")
    twice = await cli("jobs", "signal", job, "go")
    assert (twice.code, "the first one counts" in twice.err) == (0, True)
    wrong = await cli("jobs", "signal", job, "go", "--payload", "{ok}")
    assert (wrong.code, "--payload takes JSON" in wrong.err) == (2, True)
