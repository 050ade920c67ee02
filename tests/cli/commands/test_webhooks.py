"""rowlock webhooks, as users type it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.webhook_receiver import LOOPBACK, receiving

from rowlock.settings import Settings

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

    from rowlock import Rowlock

URL = "https://example.com/hooks"


async def test_webhooks_are_added_listed_changed_and_removed(cli: Cli) -> None:
    assert "No webhooks. Add one: rowlock webhooks add URL" in (await cli("webhooks", "ls")).out
    made = await cli("webhooks", "add", URL, "--kind", "report.*", "--state", "failed", "--include", "errors")
    assert made.out.strip().startswith("whsec_")
    assert "keep it now: it is not shown again." in made.err
    (found,) = (await cli("webhooks", "ls", "--json")).json
    assert (found["id"], found["kinds"], found["states"], found["health"]) == ("1", ["report.*"], ["failed"], "new")
    assert "secret" not in found
    (found,) = (await cli("webhooks", "set", "1", "--disable", "--include-nothing", "--json")).json
    assert (found["health"], found["include"]) == ("disabled", [])
    rotated = (await cli("webhooks", "rotate", "1", "--overlap", "1h", "--json")).json
    assert rotated["secret"].startswith("whsec_")
    assert rotated["secret"] != made.out.strip()
    assert "No deliveries." in (await cli("webhooks", "deliveries", "1")).out
    assert (await cli("webhooks", "rm", "1", "--json")).json[0]["url"] == URL
    assert (await cli("webhooks", "ls", "--json")).json == []


async def test_a_test_message_is_waited_for(cli: Cli, app: Rowlock) -> None:
    app.repoint(Settings(app.settings.database_url, webhook_networks=LOOPBACK, webhook_http=True))
    async with receiving() as receiver:
        await app.webhooks.add(receiver.url)
        async with app.worker():
            sent = await cli("webhooks", "test", "1", "--json")
            assert (sent.code, sent.json[0]["status"], sent.json[0]["event"]) == (0, 204, "webhook.test")
            receiver.answers = ["500 Oops"]
            failed = await cli("webhooks", "test", "1")
            assert (failed.code, "the endpoint answered 500" in failed.out) == (1, True)


async def test_a_test_message_that_no_worker_sends_is_said_to_wait(cli: Cli, app: Rowlock) -> None:
    await app.webhooks.add(URL)
    waited = await cli("webhooks", "test", "1", "--timeout", "0.1")
    assert (waited.code, "rowlock jobs explain" in waited.err) == (1, True)


async def test_mistakes_are_explained(cli: Cli, app: Rowlock) -> None:
    await app.webhooks.add(URL)
    for words, code, message in (
        (["set", "7", "--disable"], 1, "There is no webhook 7"),
        (["set", "1"], 2, "Nothing to change"),
        (["set", "1", "--include", "args", "--include-nothing"], 2, "exclude each other"),
        (["add", "http://example.com"], 2, "https only"),
        (["add", "https://127.0.0.1/"], 2, "not a public address"),
        (["add", URL, "--state", "running"], 2, "one or more of the states"),
        (["add", URL, "--secret", "hunter22"], 2, "whsec_"),
        (["deliveries", "1", "--state", "lost"], 2, "lost"),
    ):
        answer = await cli("webhooks", *words)
        assert (answer.code, message in answer.err) == (code, True), answer.err
        assert "hunter22" not in answer.err
