"""app.webhooks: endpoints of other systems that are told when jobs reach a state."""

from __future__ import annotations

import secrets
from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from rowlock.desk import audit
from rowlock.desk.guard import TRUSTED, Guard, changes, reads
from rowlock.desk.visible_jobs import VisibleJobs
from rowlock.errors import WebhookNotFound, WrongState
from rowlock.model import ids
from rowlock.model import webhook as model
from rowlock.model.access import Permission
from rowlock.model.keys import checked_key
from rowlock.model.lane import Lane
from rowlock.model.notify_messages import LanesEdited, encode
from rowlock.model.state import State
from rowlock.model.times.duration import duration
from rowlock.model.webhook import NewWebhook, Webhook, WebhookDelivery
from rowlock.store import lanes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rowlock.desk.jobs import Jobs
    from rowlock.model.job import Job
    from rowlock.model.options import Span
    from rowlock.model.queue_pair import Wake
    from rowlock.model.webhook_rules import WebhookRules
    from rowlock.store.database import Database, Record
    from rowlock.store.executor import SqlSession


_MOST: Final = 100
"""Webhooks of one database: every statement that ends jobs reads them."""
_LISTED: Final = 1000
_POLL: Final = timedelta(seconds=1)
_KEPT: Final = {"completed": timedelta(days=1)}
"""How long accepted deliveries are kept; others are kept like any job."""


class Webhooks:
    """Webhooks: read, add, change, remove, test, rotate the secret, list deliveries.

    One of a tenant tells of its jobs alone. One without a tenant tells of all jobs, and takes jobs:read_all.
    """

    def __init__(
        self,
        database: Callable[[], Database],
        wake: Wake,
        jobs: Jobs,
        rules: Callable[[], WebhookRules],
        guard: Guard = TRUSTED,
    ) -> None:
        self._open, self._wake, self._jobs, self._rules, self._guard = database, wake, jobs, rules, guard

    @reads(Permission.WEBHOOKS_MANAGE)
    async def list(self) -> Sequence[Webhook]:
        """Every webhook that the principal may see, by id."""
        found = await self._open().fetch("webhooks", id=None, n=_LISTED, **self._guard.visibility)
        return [webhook_of(row) for row in found]

    @reads(Permission.WEBHOOKS_MANAGE)
    async def get(self, webhook_id: int) -> Webhook:
        """One webhook; WebhookNotFound: there is none, or it is not the principal's to see."""
        return await self._one(webhook_id)

    @changes(Permission.WEBHOOKS_MANAGE)
    async def add(
        self,
        url: str,
        *,
        kinds: Iterable[str] = ("*",),
        states: Iterable[str] = ("completed", "completed_with_errors", "failed", "cancelled", "expired"),
        tenant: str | None = None,
        include: Iterable[str] = (),
        description: str | None = None,
        secret: str | None = None,
        by: str | None = None,
    ) -> NewWebhook:
        """Send a signed POST to the URL whenever a job of these kinds reaches one of these states.

        kinds: names, or their beginning and a *. states: final ones, and pending (waits for approval).
        include: also "args", "result", "errors" or "meta" of the job; secret arguments are redacted.
        secret: whsec_…, made unless given; only the answer has it.
        """
        self._guard.demand(Permission.READ)
        key = model.parse_secret(secret) if secret is not None else secrets.token_bytes(32)
        values = {
            "url": self._url(url),
            "kinds": model.checked_kinds(kinds),
            "states": model.checked_states(states),
            "include": model.checked_include(include),
            "description": model.checked_description(description or "") or None,
            "tenant": self._tenant(tenant),
        }
        await self._prepare()
        async with self._open().transaction() as session:
            made = await session.fetch("webhook_add", **values, by_whom=self._guard.name_of(by), secret=key, most=_MOST)
            if not made:
                message = f"There are {_MOST} webhooks, and no more can be added. Remove one that is not needed."
                raise WrongState(message)
            webhook = webhook_of(made[0])
            await self._record(session, "webhook.add", webhook.id, after=_audit_fields(webhook), by=by)
        await self._open().fetch("register_gates", keys=[_gate(webhook.id)], limits=[model.AT_ONCE], fifos=[False])
        return NewWebhook(webhook, model.secret_text(key))

    @changes(Permission.WEBHOOKS_MANAGE)
    async def change(
        self,
        webhook_id: int,
        *,
        url: str | None = None,
        kinds: Iterable[str] | None = None,
        states: Iterable[str] | None = None,
        include: Iterable[str] | None = None,
        description: str | None = None,
        enabled: bool | None = None,
        by: str | None = None,
    ) -> Webhook:
        """Change what is given; jobs that end from now on are judged by it. Enabling forgets earlier failures.

        A call that changes nothing leaves the version as it is, and no trace in the audit.
        """
        self._guard.demand(Permission.READ)
        values = {
            "url": None if url is None else self._url(url),
            "kinds": None if kinds is None else model.checked_kinds(kinds),
            "states": None if states is None else model.checked_states(states),
            "include": None if include is None else model.checked_include(include),
            "description": None if description is None else model.checked_description(description),
            "enabled": enabled,
        }
        async with self._open().transaction() as session:
            before = await self._for_change(session, webhook_id)
            if not _differs(before, values):
                return before
            (row,) = await session.fetch("webhook_set", id=webhook_id, **values)
            after = webhook_of(row)
            await self._record(
                session, "webhook.set", webhook_id, before=_audit_fields(before), after=_audit_fields(after), by=by
            )
        return after

    @changes(Permission.WEBHOOKS_MANAGE)
    async def remove(self, webhook_id: int, *, by: str | None = None) -> Webhook:
        """Remove a webhook and its secrets; deliveries that still wait end as cancelled. Returns it as it was."""
        async with self._open().transaction() as session:
            before = await self._for_change(session, webhook_id)
            await session.fetch("webhook_delete", id=webhook_id)
            await self._record(session, "webhook.remove", webhook_id, before=_audit_fields(before), by=by)
        return before

    @changes(Permission.WEBHOOKS_MANAGE)
    async def rotate(
        self, webhook_id: int, *, overlap: Span = "1d", secret: str | None = None, by: str | None = None
    ) -> NewWebhook:
        """Give a webhook a new secret. For the overlap messages are signed with the old one as well.

        secret: whsec_…, made unless given; only the answer has it.
        """
        lasting = duration(overlap, "overlap")
        key = model.parse_secret(secret) if secret is not None else secrets.token_bytes(32)
        async with self._open().transaction() as session:
            webhook = await self._for_change(session, webhook_id)
            await session.fetch("webhook_rotate", id=webhook_id, overlap=lasting, secret=key)
            await self._record(session, "webhook.rotate", webhook_id, after={"overlap": lasting}, by=by)
        return NewWebhook(webhook, model.secret_text(key))

    @changes(Permission.WEBHOOKS_MANAGE)
    async def test(self, webhook_id: int, *, by: str | None = None) -> WebhookDelivery:
        """Send a message of the type webhook.test, once, also to a disabled webhook. A worker sends it."""
        async with self._open().transaction() as session:
            webhook = await self._for_change(session, webhook_id)
            by_whom = self._guard.name_of(by)
            (row,) = await session.fetch("webhook_test", id=webhook_id, kind=model.KIND, by_whom=by_whom)
            await self._record(session, "webhook.test", webhook_id, after={"url": webhook.url}, by=by)
        self._wake([((model.KIND, 0, 0), row["run_after"])])
        return delivery_of(await VisibleJobs(self._open, TRUSTED).one(row["id"]))

    @reads(Permission.WEBHOOKS_MANAGE)
    async def deliveries(
        self, webhook_id: int, *, state: State | str | None = None, limit: int = 50
    ) -> Sequence[WebhookDelivery]:
        """Deliveries of a webhook, the newest first; each is a job, and can be retried like one."""
        self._guard.demand(Permission.READ)
        await self._one(webhook_id)
        states = None if state is None else [state]
        found = await self._jobs.list(kind=model.KIND, refs={"webhook": str(webhook_id)}, states=states, limit=limit)
        return [delivery_of(job) for job in found]

    async def _one(self, webhook_id: int) -> Webhook:
        found = await self._open().fetch("webhooks", id=webhook_id, n=1, **self._guard.visibility)
        if not found:
            raise _not_found(webhook_id)
        return webhook_of(found[0])

    async def _for_change(self, session: SqlSession, webhook_id: int) -> Webhook:
        found = await session.fetch("webhook_for_change", id=webhook_id, **self._guard.visibility)
        if not found:
            raise _not_found(webhook_id)
        return webhook_of(found[0])

    def _url(self, url: str) -> str:
        parts = model.split_url(url)
        rules = self._rules()
        rules.check_scheme(parts.scheme)
        rules.check_host(parts.hostname or "")
        return url

    def _tenant(self, tenant: str | None) -> str | None:
        """The tenant of a new webhook: the principal's own, unless it sees the jobs of all."""
        own = self._guard.principal.tenant
        chosen = own if tenant is None else checked_key(tenant, "tenant")
        if chosen is None or chosen != own:
            self._guard.demand(Permission.READ_ALL)
        return chosen

    async def _prepare(self) -> None:
        """Make the lane of deliveries, and what a worker's start writes of other kinds, unless they are there."""
        async with self._open().transaction() as session:
            await lanes.add(session, Lane(model.LANE, poll_interval=_POLL))
            if await session.fetch("lane_hint", name=model.LANE, kind=model.KIND):
                payload = encode(LanesEdited())
                await session.fetch("notify", channel=session.channel, payload=payload)
            await session.fetch(
                "register_kinds",
                names=[model.KIND],
                on_worker_lost=["retry"],
                max_losses=[0],  # unlimited: a delivery is never why its worker died
                isolates=[False],
                hooks=[None],
                defaults=[None],
            )
            await session.fetch(
                "set_retention", kinds=[model.KIND] * len(_KEPT), states=list(_KEPT), keeps=list(_KEPT.values())
            )
        await self._open().fetch("register_pairs", kinds=[model.KIND], priorities=[0], shares=[0])

    async def _record(
        self,
        session: SqlSession,
        action: str,
        webhook_id: int,
        *,
        by: str | None,
        before: Mapping[str, object] | None = None,
        after: Mapping[str, object] | None = None,
    ) -> None:
        await audit.record(session, self._guard, action, f"webhook:{webhook_id}", before=before, after=after, by=by)


def webhook_of(row: Record) -> Webhook:
    """A Webhook from its columns."""
    names = {one.name for one in fields(Webhook)}
    values: dict[str, Any] = {name: value for name, value in row.items() if name in names}
    values |= {name: tuple(values[name]) for name in ("kinds", "include")}
    return Webhook(**values | {"states": tuple(map(State, values["states"]))})


def delivery_of(job: Job) -> WebhookDelivery:
    """A delivery from its job."""
    args: Mapping[str, Any] = job.args
    about, result = args.get("job"), job.result if isinstance(job.result, dict) else {}
    errors = job.errors or {}
    return WebhookDelivery(
        job=job,
        webhook_id=args["webhook"],
        event=model.event_name(args.get("state")),
        about=None if about is None else ids.encode(about),
        status=result.get("status"),
        error=None if not errors else str(errors.get("message") or errors.get("reason") or ""),
    )


def _audit_fields(webhook: Webhook) -> dict[str, object]:
    """What the audit tells of a webhook."""
    names = ("url", "tenant", "description", "enabled")
    lists = {name: list(getattr(webhook, name)) for name in ("kinds", "states", "include")}
    return {name: getattr(webhook, name) for name in names} | lists


def _differs(webhook: Webhook, values: Mapping[str, object]) -> bool:
    """Whether a change to these values, of which None leaves one as it is, would change anything."""
    is_now = {**_audit_fields(webhook), "description": webhook.description or ""}
    forgets = bool(values["enabled"]) and bool(webhook.failures or webhook.given_up)
    return forgets or any(value is not None and value != is_now[name] for name, value in values.items())


def _gate(webhook_id: int) -> str:
    return f"webhook:{webhook_id}"


def _not_found(webhook_id: int) -> WebhookNotFound:
    return WebhookNotFound(f"There is no webhook {webhook_id}, or it is another tenant's. See: rowlock webhooks ls")
