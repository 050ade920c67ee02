"""Deliveries, from the end of a job to a real receiver: what is sent, when and how often, and how endpoints fare."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from pydantic import SecretStr
from standardwebhooks import WebhookVerificationError
from tests.factories import Store, opened
from tests.waiting import eventually
from tests.webhook_receiver import LOOPBACK, Receiver, receiving

from rowlock import Retry, Rowlock
from rowlock.errors import ConfigurationError, DatabaseBusy, DatabaseUnreachable, WebhookFailed, WebhookRefused
from rowlock.model import webhook as model
from rowlock.settings import Settings
from rowlock.webhooks import handler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Sequence

    from rowlock.model.job import Claim
    from rowlock.model.webhook import Webhook, WebhookDelivery


class Stage:
    """An application with a worker, and a receiver."""

    def __init__(self, app: Rowlock, store: Store, receiver: Receiver) -> None:
        self.app, self.store, self.receiver = app, store, receiver

        @app.job("report.build")
        async def build(pages: int, password: SecretStr | None = None) -> dict[str, int]:  # noqa: ARG001 - stored
            return {"pages": pages}

        @app.job("report.fail", retry=Retry(attempts=1))
        async def fail() -> None:
            message = "no paper"
            raise OSError(message)

        @app.job
        async def other() -> None: ...

        @app.job(approval=True)
        async def pay() -> None: ...

        self.build, self.fail, self.other, self.pay = build, fail, other, pay

    async def add(self, **options: Any) -> tuple[Webhook, str]:  # noqa: ANN401 - those of add()
        made = await self.app.webhooks.add(options.pop("url", self.receiver.url), **options)
        return made.webhook, made.secret

    async def webhook(self) -> Webhook:
        (found,) = await self.app.webhooks.list()
        return found

    async def deliveries(self, state: str | None = None) -> Sequence[WebhookDelivery]:
        return await self.app.webhooks.deliveries((await self.webhook()).id, state=state)

    async def failing(self) -> Webhook:
        """The webhook, once an attempt has failed."""

        async def failed() -> bool:
            return bool((await self.webhook()).failures)

        await eventually(failed)
        return await self.webhook()

    async def hurry(self) -> None:
        """Let every waiting delivery be due."""
        await self.store.execute(
            "UPDATE {s}.jobs SET run_after = clock_timestamp() WHERE state = 'queued' AND run_after > clock_timestamp()"
        )
        self.app._producer.wakers.wake([((model.KIND, 0, 0), await self.store.clock() - timedelta(minutes=1))])


@pytest.fixture
async def stage(database_url: str) -> AsyncIterator[Stage]:
    settings = Settings(database_url=database_url, webhook_networks=LOOPBACK, webhook_http=True)
    async with receiving() as receiver, opened(database_url) as store:
        app = Rowlock(settings=settings)
        yield Stage(app, store, receiver)
        await app.close()


async def test_a_job_that_ends_is_told_to_the_endpoint_with_a_signature_that_the_official_package_verifies(
    stage: Stage,
) -> None:
    _, secret = await stage.add(kinds=["report.*"])
    async with stage.app.worker():
        job = await stage.build.options(tags=["nightly"], refs={"project": 7}).enqueue(pages=3)
        (message,) = await stage.receiver.received()
        body = message.verified_by(secret)
        assert (message.path, message.headers["content-type"]) == ("/hooks?from=rowlock", "application/json")
        assert body["type"] == "job.completed"
        told = body["data"]
        assert (told["id"], told["kind"], told["state"]) == (job.public_id, "report.build", "completed")
        assert (told["tags"], told["refs"], told["attempt"]) == (["nightly"], {"project": 7}, 1)
        assert told["finished_at"].endswith("Z")
        assert not {"args", "result", "errors", "meta"} & told.keys()
        (sent,) = await eventually(lambda: stage.deliveries("completed"))
        assert (sent.status, sent.about, sent.event) == (204, job.public_id, "job.completed")
        assert message.headers["webhook-id"] == sent.job.public_id
        assert (await stage.webhook()).health == "healthy"
    with pytest.raises(WebhookVerificationError):
        message.verified_by("whsec_" + "A" * 32)


async def test_only_the_chosen_kinds_states_and_tenants_are_told(stage: Stage) -> None:
    await stage.add(kinds=["report.*"], states=["failed"], tenant="acme")
    async with stage.app.worker():
        await (await stage.build.options(tenant="acme").enqueue(pages=1)).wait(timeout=30)
        await stage.other.options(tenant="acme").enqueue()
        await stage.fail.options(tenant="globex").enqueue()
        await stage.fail.enqueue()
        told = await stage.fail.options(tenant="acme").enqueue()
        (message,) = await stage.receiver.received()
        await eventually(lambda: stage.deliveries("completed"))
    assert (message.data["id"], message.data["tenant"]) == (told.public_id, "acme")
    assert await stage.store.value("SELECT count(*) FROM {s}.jobs WHERE kind = $1", model.KIND) == 1
    assert await stage.store.value("SELECT tenant FROM {s}.jobs WHERE kind = $1", model.KIND) == "acme"


async def test_args_result_and_errors_are_sent_when_asked_for_with_secrets_redacted(stage: Stage) -> None:
    await stage.add(include=["args", "result", "errors"])
    async with stage.app.worker():
        await stage.build.enqueue(pages=3, password=SecretStr("hunter22"))
        await stage.receiver.received()
        await stage.fail.enqueue()
        first, second = await stage.receiver.received(2)
    assert first.data["args"] == {"pages": 3, "password": "•••"}
    assert (first.data["result"], first.data["errors"]) == ({"pages": 3}, None)
    assert second.data["errors"]["message"] == "no paper"
    assert b"hunter22" not in first.body


async def test_a_part_that_is_too_large_is_left_out_and_named(stage: Stage) -> None:
    await stage.add(include=["args"])
    page = "x" * 70_000

    @stage.app.job
    async def large(text: str) -> None: ...

    async with stage.app.worker():
        await large.enqueue(page)
        (message,) = await stage.receiver.received()
    assert (message.data["args"], message.data["omitted"]) == (None, ["args"])


async def claimed(store: Store, worker: int | None = None) -> Claim:
    owner = await store.worker() if worker is None else worker
    (claim,) = await store.claim(owner, await store.enqueue("report.build"))
    return claim


async def end_by_cancel(stage: Stage) -> int:
    job = await stage.build.options(run_in="1h").enqueue(pages=1)
    await stage.app.jobs.cancel(job.id)
    return job.id


async def end_by_expiry(stage: Stage) -> int:
    job_id = await stage.store.enqueue("report.build", expires_in=timedelta(0))
    await stage.store.expire()
    return job_id


async def end_by_stop(stage: Stage) -> int:
    claim = await claimed(stage.store)
    await stage.app.jobs.stop(claim.job_id)
    return claim.job_id


async def end_by_reject(stage: Stage) -> int:
    job = await stage.pay.enqueue()
    await stage.app.jobs.reject(job.id)
    return job.id


async def end_by_rescue(stage: Stage) -> int:
    await stage.store.kind("report.build", "fail")
    worker = await stage.store.worker()
    claim = await claimed(stage.store, worker)
    await stage.store.silence(worker)
    await stage.store.rescue()
    return claim.job_id


async def end_by_hand(stage: Stage) -> int:
    job_id = await stage.store.enqueue("report.build")
    await stage.store.execute("UPDATE {s}.jobs SET state = 'cancelled', finished_at = now(), fence = fence + 1")
    return job_id


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (end_by_cancel, "cancelled"),
        (end_by_expiry, "expired"),
        (end_by_stop, "cancelled"),
        (end_by_reject, "cancelled"),
        (end_by_rescue, "failed"),
        (end_by_hand, "cancelled"),
    ],
)
async def test_an_end_that_no_worker_writes_is_told_too(stage: Stage, end: Any, state: str) -> None:  # noqa: ANN401 - one of the above
    await stage.add()
    job_id = await end(stage)
    (sent,) = await stage.deliveries()
    assert (sent.job.args["job"], sent.event) == (job_id, f"job.{state}")


async def test_an_end_that_is_rolled_back_or_refused_is_not_told(stage: Stage) -> None:
    await stage.add()
    claim = await claimed(stage.store)
    transaction = stage.store.connection.transaction()
    await transaction.start()
    await stage.store.complete(claim)
    await transaction.rollback()
    await stage.app.jobs.stop(claim.job_id)
    await stage.store.complete(claim)  # the late result of a job that was taken away
    (sent,) = await stage.deliveries()
    assert sent.event == "job.cancelled"


async def test_a_job_that_waits_for_approval_is_told_from_its_enqueue_on(stage: Stage) -> None:
    await stage.add(states=["pending"])
    job = await stage.pay.enqueue()
    (sent,) = await stage.deliveries()
    assert (sent.event, sent.about) == ("job.pending", job.public_id)
    await stage.app.jobs.approve(job.id)
    assert len(await stage.deliveries()) == 1


async def test_a_job_that_is_held_after_a_loss_is_told_as_pending(stage: Stage) -> None:
    await stage.add(states=["pending"])
    await stage.store.kind("report.build", "hold")
    worker = await stage.store.worker()
    claim = await claimed(stage.store, worker)
    await stage.store.silence(worker)
    await stage.store.rescue()
    (sent,) = await stage.deliveries()
    assert (sent.event, sent.job.args["job"]) == ("job.pending", claim.job_id)


async def test_deliveries_and_hooks_are_not_told_unless_a_pattern_names_the_hook(stage: Stage) -> None:
    await stage.add(kinds=["*"])

    @stage.build.on_success
    async def celebrate() -> None: ...

    async with stage.app.worker():
        await stage.build.enqueue(pages=1)
        await eventually(lambda: stage.store.value("SELECT count(*) = 3 FROM {s}.jobs WHERE finished_at IS NOT NULL"))
    assert [message.data["kind"] for message in stage.receiver.messages] == ["report.build"]
    await stage.app.webhooks.change((await stage.webhook()).id, kinds=["report.build/*"])
    async with stage.app.worker():
        await stage.build.enqueue(pages=1)
        await stage.receiver.received(2)
    assert stage.receiver.messages[1].data["kind"] == "report.build/on_success"


async def test_an_endpoint_that_fails_is_tried_again_with_the_same_message(stage: Stage) -> None:
    _, secret = await stage.add()
    stage.receiver.answers = ["500 Oops", "204 No Content"]
    async with stage.app.worker():
        await stage.build.enqueue(pages=1)
        await stage.receiver.received()
        webhook = await stage.failing()
        assert (webhook.health, webhook.failures, webhook.last_error) == ("failing", 1, "the endpoint answered 500")
        (sent,) = await eventually(lambda: stage.deliveries("queued"))
        assert sent.job.attempt == 1
        assert timedelta(seconds=3) < sent.job.run_after - sent.job.created_at < timedelta(minutes=1)
        await stage.hurry()
        first, second = await stage.receiver.received(2)
        (sent,) = await eventually(lambda: stage.deliveries("completed"))
    assert (sent.status, sent.job.attempt) == (204, 2)
    assert (first.headers["webhook-id"], first.body) == (second.headers["webhook-id"], second.body)
    second.verified_by(secret)
    assert (await stage.webhook()).health == "healthy"


SPOILED = {
    "held by another transaction": "SELECT 1 FROM {s}.webhooks FOR UPDATE",
    "refused by a trigger": """
        CREATE FUNCTION public.picky() RETURNS trigger LANGUAGE plpgsql
        AS $$BEGIN RAISE EXCEPTION 'not this one'; END $$;
        CREATE TRIGGER picky BEFORE UPDATE ON {s}.webhooks FOR EACH ROW EXECUTE FUNCTION public.picky();
        COMMIT; BEGIN
    """,
}


@pytest.mark.parametrize("fault", SPOILED)
async def test_a_message_is_sent_once_although_its_webhooks_row_cannot_be_written(
    stage: Stage, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    await stage.add()
    async with opened(stage.app.database().url) as other, other.connection.transaction():
        await other.execute(SPOILED[fault])
        async with stage.app.worker():
            jobs = [await stage.build.enqueue(pages=n) for n in range(3)]
            sent = await eventually(lambda: in_number(stage.deliveries("completed"), len(jobs)))
            assert [one.job.attempt for one in sent] == [1] * len(jobs)
            assert len(stage.receiver.messages) == len(jobs)
            assert "could not be written down" in caplog.text
            stage.receiver.answers = ["410 Gone"]
            await stage.other.enqueue()
            (left,) = await eventually(lambda: stage.deliveries("queued"))
            assert left.error is not None
            assert "the endpoint answered 410" in left.error, "the endpoint is to blame, not the row"


async def in_number(found: Awaitable[Sequence[WebhookDelivery]], n: int) -> Sequence[WebhookDelivery]:
    """The deliveries, if there are so many."""
    every = await found
    return every if len(every) == n else []


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (WebhookFailed("no answer"), True),
        (DatabaseUnreachable("away"), True),
        (DatabaseBusy("held", "55P03"), True),
        (asyncpg.CannotConnectNowError("starting"), True),
        (WebhookRefused("private"), False),
    ],
)
def test_trouble_with_the_database_is_no_reason_to_give_a_message_up(error: Exception, again: bool) -> None:
    assert (handler.RETRY.next_delay(1, error, random.Random(7)) is not None) == again  # noqa: S311 - no secret


async def test_an_endpoint_may_say_when_to_come_back(stage: Stage) -> None:
    await stage.add()
    stage.receiver.answers = ["429 Too Many Requests\r\nRetry-After: 600"]
    async with stage.app.worker():
        await stage.build.enqueue(pages=1)
        await stage.receiver.received()
        (sent,) = await eventually(lambda: stage.deliveries("queued"))
        await stage.failing()
    assert sent.job.run_after - sent.job.created_at > timedelta(minutes=9)


async def test_a_redirect_is_not_followed(stage: Stage) -> None:
    await stage.add()
    async with receiving() as elsewhere:
        stage.receiver.answers = [f"307 Temporary Redirect\r\nLocation: {elsewhere.url}"]
        async with stage.app.worker():
            await stage.build.enqueue(pages=1)
            webhook = await stage.failing()
        assert webhook.last_error == "the endpoint answered 307; redirects are not followed"
        assert not elsewhere.connections


async def test_an_endpoint_that_is_gone_is_disabled_at_once_and_the_audit_says_so(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    webhook, _ = await stage.add()
    stage.receiver.answers = ["410 Gone"]
    async with stage.app.worker():
        await stage.build.enqueue(pages=1)
        (sent,) = await eventually(lambda: stage.deliveries("cancelled"))
        assert "410 Gone" in str(sent.error)
        found = await stage.webhook()
        assert (found.health, found.disabled_reason) == ("disabled", "the endpoint answered 410 Gone")
        await (await stage.build.enqueue(pages=1)).wait(timeout=30)
    assert len(await stage.deliveries()) == 1
    entry = (await stage.app.audit.list(target=f"webhook:{webhook.id}"))[0]
    assert (entry.action, entry.subject) == ("webhook.disable", "system")
    assert f"rowlock webhooks set {webhook.id} --enable" in caplog.text


async def test_a_streak_of_deliveries_that_are_given_up_disables_the_endpoint(stage: Stage) -> None:
    await stage.add()
    await stage.store.execute("UPDATE {s}.webhooks SET given_up = $1", model.STREAK - 2)
    stage.receiver.answers = ["500 Oops"]

    async def give_up_one() -> Webhook:
        given_up = (await stage.webhook()).given_up
        await stage.store.execute(
            "INSERT INTO {s}.jobs (kind, max_attempts, args, refs) "
            "SELECT $1, 1, jsonb_build_object('webhook', w.id, 'at', now(), 'job', 1, 'kind', 'k', 'state', 'failed'), "
            "'{}' FROM {s}.webhooks w",
            model.KIND,
        )

        async def counted() -> bool:
            return (await stage.webhook()).given_up > given_up

        await eventually(counted)
        return await stage.webhook()

    async with stage.app.worker():
        assert (await give_up_one()).health == "failing"
        found = await give_up_one()
        assert (found.health, found.disabled_reason) == (
            "disabled",
            f"{model.STREAK} deliveries in a row were given up",
        )
    changed = await stage.app.webhooks.change(found.id, enabled=True)
    assert (changed.failures, changed.given_up, changed.disabled_reason) == (0, 0, None)


async def test_a_disabled_endpoint_is_told_nothing_while_another_is(stage: Stage) -> None:
    first, _ = await stage.add()
    second, _ = await stage.add()
    await stage.app.webhooks.change(first.id, enabled=False)
    await end_by_cancel(stage)
    assert await stage.app.webhooks.deliveries(first.id) == []
    assert len(await stage.app.webhooks.deliveries(second.id)) == 1


async def test_a_success_ends_the_streak(stage: Stage) -> None:
    await stage.add()
    await stage.store.execute("UPDATE {s}.webhooks SET given_up = $1, failures = 72", model.STREAK - 1)
    async with stage.app.worker():
        await stage.build.enqueue(pages=1)
        await eventually(lambda: stage.deliveries("completed"))
    assert (await stage.webhook()).given_up == 0


async def test_deliveries_to_a_disabled_or_removed_endpoint_end_as_cancelled(stage: Stage) -> None:
    first, _ = await stage.add()
    second, _ = await stage.add()
    await end_by_cancel(stage)
    await stage.app.webhooks.change(first.id, enabled=False)
    await stage.app.webhooks.remove(second.id)
    async with stage.app.worker():
        (sent,) = await eventually(lambda: stage.app.webhooks.deliveries(first.id, state="cancelled"))
        assert sent.error == f"webhook {first.id} is disabled"
        both = "SELECT count(*) = 2 FROM {s}.jobs WHERE kind = $1 AND state = 'cancelled'"
        await eventually(lambda: stage.store.value(both, model.KIND))
    assert not stage.receiver.messages
    assert await stage.store.value("SELECT count(*) FROM {s}.webhook_secrets") == 1


async def test_a_job_that_was_retried_meanwhile_is_told_as_it_was(stage: Stage) -> None:
    await stage.add(include=["result"])
    job = await stage.build.options(run_in="1h").enqueue(pages=1)
    await stage.app.jobs.cancel(job.id)
    await stage.app.jobs.retry(job.id)
    async with stage.app.worker():
        messages = await stage.receiver.received(2)
    told = {message.data["state"]: message.data for message in messages}
    assert told.keys() == {"cancelled", "completed"}
    assert (told["cancelled"]["id"], told["cancelled"]["result"]) == (job.public_id, None)
    assert told["completed"]["result"] == {"pages": 1}


async def test_a_job_that_was_deleted_meanwhile_is_told_with_what_the_event_says(stage: Stage) -> None:
    await stage.add()
    job = await stage.build.options(run_in="1h", tenant="acme").enqueue(pages=1)
    await stage.app.jobs.cancel(job.id)
    await stage.app.jobs.delete(job.id)
    async with stage.app.worker():
        (message,) = await stage.receiver.received()
    told = message.data
    assert (told["id"], told["kind"], told["state"]) == (job.public_id, "report.build", "cancelled")
    assert (told["tenant"], told["tags"]) == ("acme", [])


async def test_both_secrets_sign_while_one_replaces_the_other(stage: Stage) -> None:
    webhook, old = await stage.add()
    new = (await stage.app.webhooks.rotate(webhook.id, overlap="1h")).secret
    newest = (await stage.app.webhooks.rotate(webhook.id, overlap="0s")).secret
    async with stage.app.worker():
        await stage.build.enqueue(pages=1)
        (message,) = await stage.receiver.received()
    assert len(message.headers["webhook-signature"].split()) == 2
    message.verified_by(old)
    message.verified_by(newest)
    with pytest.raises(WebhookVerificationError):
        message.verified_by(new)


async def test_a_test_message_reaches_a_disabled_endpoint_and_is_not_tried_again(stage: Stage) -> None:
    webhook, secret = await stage.add()
    await stage.app.webhooks.change(webhook.id, enabled=False)
    async with stage.app.worker():
        sent = await stage.app.webhooks.test(webhook.id)
        assert (sent.event, sent.about, sent.job.max_attempts) == ("webhook.test", None, 1)
        (message,) = await stage.receiver.received()
        assert (await stage.app.jobs.wait(sent.job.id, timeout=30)).result == {"status": 204}
    assert message.verified_by(secret)["type"] == "webhook.test"


async def test_a_slow_endpoint_takes_its_own_places_only(stage: Stage) -> None:
    assert handler.RETRY.attempts == 8
    webhook, _ = await stage.add()
    assert (await stage.app.limits.gate(f"webhook:{webhook.id}")).limit == model.AT_ONCE
    await end_by_cancel(stage)
    (sent,) = await stage.deliveries()
    assert (sent.job.gate_key, sent.job.max_attempts) == (f"webhook:{webhook.id}", handler.RETRY.attempts)
    lane = await stage.app.lanes.get(model.LANE)
    assert (lane.kinds, lane.poll_interval) == ((model.KIND,), timedelta(seconds=1))


async def test_the_kind_of_deliveries_cannot_be_declared(stage: Stage) -> None:
    with pytest.raises(ConfigurationError, match="Rowlock's own"):

        @stage.app.job(model.KIND)
        async def mine() -> None: ...


async def test_without_webhooks_ends_write_nothing_more(stage: Stage) -> None:
    async with stage.app.worker():
        await (await stage.build.enqueue(pages=1)).wait(timeout=30)
        job = await stage.pay.enqueue()
        await stage.app.jobs.reject(job.id)
    assert await stage.store.value("SELECT count(*) FROM {s}.jobs") == 2
    assert [lane.name for lane in await stage.app.lanes.list()] == ["default"]
    assert model.KIND not in [
        row["name"] for row in await stage.store.connection.fetch("SELECT name FROM rowlock.kinds")
    ]
