"""app.webhooks: tenants, permissions, what is refused, and that secrets stay secret."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.factories import Store, opened

from rowlock import (
    Forbidden,
    InvalidOption,
    NewWebhook,
    Permission,
    Principal,
    Rowlock,
    State,
    WebhookNotFound,
    WebhookRefused,
    WrongState,
)
from rowlock.model import webhook as model
from rowlock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowlock.desk.webhooks import Webhooks

URL = "https://example.com/hooks"
MANAGES = frozenset({Permission.WEBHOOKS_MANAGE, Permission.READ})
EVERYWHERE = MANAGES | {Permission.READ_ALL}


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Rowlock]:
    async with Rowlock(database_url) as app:
        yield app


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with opened(database_url) as store:
        yield store


def webhooks_of(app: Rowlock, tenant: str | None, permissions: frozenset[Permission] = MANAGES) -> Webhooks:
    return app.desk(Principal("ada", tenant, permissions=permissions)).webhooks


async def test_what_is_added_is_listed_without_its_secret(app: Rowlock) -> None:
    made = await app.webhooks.add(URL, kinds=["report.*"], description="warehouse", by="ada")
    (found,) = await app.webhooks.list()
    assert found == made.webhook == await app.webhooks.get(found.id)
    assert (found.kinds, found.tenant, found.description, found.health) == (("report.*",), None, "warehouse", "new")
    assert found.states == tuple(state for state in State if state.is_final)
    assert model.parse_secret(made.secret)
    assert made.secret not in repr(made)


async def test_no_secret_reaches_the_audit(app: Rowlock) -> None:
    made = await app.webhooks.add(URL)
    number = made.webhook.id
    await app.webhooks.change(number, enabled=False)
    rotated = await app.webhooks.rotate(number)
    await app.webhooks.test(number)
    await app.webhooks.remove(number)
    entries = await app.audit.list(target=f"webhook:{number}")
    actions = ["webhook.remove", "webhook.test", "webhook.rotate", "webhook.set", "webhook.add"]
    assert [entry.action for entry in entries] == actions
    assert (entries[3].before or {})["enabled"] is True
    text = json.dumps([[entry.before, entry.after] for entry in entries], default=str)
    for secret in (made.secret, rotated.secret):
        assert secret.removeprefix("whsec_") not in text


async def test_a_secret_of_ones_own_is_used(app: Rowlock, store: Store) -> None:
    mine = model.secret_text(b"m" * 24)
    assert (await app.webhooks.add(URL, secret=mine)).secret == mine
    assert await store.value("SELECT secret FROM {s}.webhook_secrets") == b"m" * 24
    with pytest.raises(InvalidOption, match="24 to 64 random bytes"):
        await app.webhooks.add(URL, secret="hunter22")  # noqa: S106 - refused


async def test_a_tenant_sees_and_changes_its_own_webhooks_only(app: Rowlock) -> None:
    theirs = (await app.webhooks.add(URL, tenant="globex")).webhook.id
    of_all = (await app.webhooks.add(URL)).webhook.id
    acme = webhooks_of(app, "acme")
    own = (await acme.add(URL)).webhook
    assert own.tenant == "acme"
    assert [one.id for one in await acme.list()] == [own.id]
    for number in (theirs, of_all):
        for refused in (
            acme.get(number),
            acme.change(number, enabled=False),
            acme.remove(number),
            acme.rotate(number),
            acme.test(number),
            acme.deliveries(number),
        ):
            with pytest.raises(WebhookNotFound, match=f"There is no webhook {number}"):
                await refused
    assert [one.id for one in await webhooks_of(app, "acme", EVERYWHERE).list()] == [theirs, of_all, own.id]


async def test_jobs_of_others_take_the_permission_to_read_them(app: Rowlock) -> None:
    for tenant, asked in ((None, None), ("acme", "globex")):
        with pytest.raises(Forbidden, match="jobs:read_all"):
            await webhooks_of(app, tenant).add(URL, tenant=asked)
    with pytest.raises(Forbidden, match="jobs:read"):
        await webhooks_of(app, "acme", frozenset({Permission.WEBHOOKS_MANAGE})).add(URL)
    assert (await webhooks_of(app, None, EVERYWHERE).add(URL, tenant="globex")).webhook.tenant == "globex"
    assert (await webhooks_of(app, None, EVERYWHERE).add(URL)).webhook.tenant is None


async def test_deliveries_of_a_tenants_webhook_are_its_own_to_read(app: Rowlock, store: Store) -> None:
    number = (await app.webhooks.add(URL, tenant="acme")).webhook.id
    await store.cancel_waiting(await store.enqueue("k", tenant="acme"), await store.enqueue("k", tenant="globex"))
    (sent,) = await webhooks_of(app, "acme").deliveries(number)
    assert (sent.event, sent.webhook_id, sent.status, sent.error) == ("job.cancelled", number, None, None)
    assert await webhooks_of(app, "acme").deliveries(number, state="failed") == []


async def test_addresses_that_may_not_be_reached_are_refused_when_they_are_added(app: Rowlock) -> None:
    for url in ("http://example.com/", "https://127.0.0.1/", "https://[::1]/", "https://169.254.169.254/latest"):
        with pytest.raises(WebhookRefused):
            await app.webhooks.add(url)
    number = (await app.webhooks.add(URL)).webhook.id
    with pytest.raises(WebhookRefused):
        await app.webhooks.change(number, url="https://10.0.0.1/")
    app.repoint(Settings(app.settings.database_url, webhook_networks=("10.0.0.0/8",), webhook_http=True))
    assert (await app.webhooks.change(number, url="http://10.0.0.1/")).url == "http://10.0.0.1/"


async def test_a_change_leaves_the_rest_as_it_is(app: Rowlock) -> None:
    made = (await app.webhooks.add(URL, include=["result"], description="warehouse")).webhook
    after = await app.webhooks.change(made.id, kinds=["a", "b.*"], description="")
    assert (after.kinds, after.description, after.include, after.url) == (("a", "b.*"), None, ("result",), URL)
    assert (after.version, made.version) == (2, 1)
    assert await app.webhooks.change(made.id) == after
    assert (await app.webhooks.change(made.id, include=[])).include == ()


async def test_wrong_options_are_refused(app: Rowlock) -> None:
    cases: list[dict[str, list[str]]] = [{"kinds": []}, {"kinds": ["a*b"]}, {"states": ["running"]}, {"include": ["x"]}]
    for wrong in cases:
        with pytest.raises(InvalidOption):
            await app.webhooks.add(URL, **wrong)  # type: ignore[arg-type]  # lists of texts
    with pytest.raises(InvalidOption):
        await app.webhooks.add(URL, description="two\nlines")
    with pytest.raises(WebhookNotFound):
        await app.webhooks.change(7, enabled=True)
    assert not await app.webhooks.list()


async def test_there_are_a_hundred_at_most(app: Rowlock, store: Store) -> None:
    await store.execute(
        "INSERT INTO {s}.webhooks (url, kinds, states) "
        "SELECT 'https://x', '{*}', '{failed}' FROM generate_series(1, 100)"
    )
    with pytest.raises(WrongState, match="no more can be added"):
        await app.webhooks.add(URL)


async def test_the_lane_of_deliveries_is_made_once_and_stays_as_operators_left_it(app: Rowlock) -> None:
    await app.webhooks.add(URL)
    await app.lanes.set(model.LANE, slots=3)
    await app.lanes.create("elsewhere", kinds=[model.KIND])
    await app.webhooks.add(URL)
    found = {lane.name: lane for lane in await app.lanes.list()}
    assert (found[model.LANE].slots, found[model.LANE].kinds, found["elsewhere"].kinds) == (3, (), (model.KIND,))


async def test_blocking_code_has_the_same_methods(database_url: str) -> None:
    app = Rowlock(database_url)
    made = app.sync.webhooks.add(URL)
    assert isinstance(made, NewWebhook)
    assert app.sync.webhooks.list() == [made.webhook]
    assert app.sync.webhooks.deliveries(made.webhook.id) == []
    assert app.sync.webhooks.remove(made.webhook.id) == made.webhook
    await app.close()
