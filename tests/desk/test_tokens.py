"""Tokens, sessions and roles: what they are worth, and for how long."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rowlock import Forbidden, InvalidOption, Permission, Principal, WrongState
from rowlock.desk import identity
from rowlock.errors import NotAuthenticated, RoleNotFound, TokenNotFound, TooManyAttempts
from rowlock.model import token_text
from rowlock.model.access import ALL, TOKEN_LIFETIME

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.desk.conftest import Desk

    from rowlock import Rowlock

MANAGER = Principal("ada", "acme", frozenset({Permission.TOKENS_MANAGE, Permission.READ}))


async def worth(app: Rowlock, text: str) -> set[str]:
    return set((await app.identity.by_token(text)).permissions)


async def test_a_token_is_shown_once_and_kept_as_a_hash(desk: Desk) -> None:
    made = await desk.app.tokens.create("ci", roles=["user"], permissions=["jobs:cancel"], tenant="acme", by="root")
    who = await desk.app.identity.by_token(made.text, address="192.0.2.1")
    assert (who.subject, who.tenant, who.kind, who.display, who.roles) == ("token:ci", "acme", "token", "ci", ("user",))
    assert who.permissions == {"jobs:read", "jobs:submit", "jobs:cancel"}
    everything = await desk.store.value("SELECT jsonb_agg(to_jsonb(t))::text FROM {s}.tokens t")
    everything += await desk.store.value("SELECT jsonb_agg(to_jsonb(a))::text FROM {s}.audit a")
    assert made.text.rpartition("_")[2] not in everything
    assert made.text not in repr(made)
    (listed,) = await desk.app.tokens.list()
    assert (listed.id, listed.created_by) == (made.token.id, "root")


async def test_a_tokens_roles_are_those_of_today(app: Rowlock) -> None:
    made = await app.tokens.create("ci", roles=["user"])
    await app.roles.set("user", ["jobs:read"])
    assert await worth(app, made.text) == {"jobs:read"}


@pytest.mark.parametrize("end", ["revoked", "expired", "mistyped", "another's secret"])
async def test_a_token_that_does_not_hold_is_refused(desk: Desk, end: str) -> None:
    app = desk.app
    made = await app.tokens.create("ci", roles=["user"], expires_in="1h")
    text = made.text
    if end == "revoked":
        await app.tokens.revoke(made.token.id)
    elif end == "expired":
        await desk.store.execute("UPDATE {s}.tokens SET expires_at = now() - interval '1 s'")
    elif end == "mistyped":
        text = text[:-1] + ("0" if text[-1] != "0" else "1")
    else:
        stolen, parts = token_text.make()
        await desk.store.execute("UPDATE {s}.tokens SET id = $1", parts.id)
        text = stolen
    with pytest.raises(NotAuthenticated, match="not valid"):
        await app.identity.by_token(text)


async def test_the_last_use_is_written_once_a_minute(desk: Desk) -> None:
    made = await desk.app.tokens.create("ci", roles=["user"])

    async def version() -> object:
        await desk.app.identity.by_token(made.text)
        return await desk.store.value("SELECT xmin::text || last_used_at FROM {s}.tokens")

    first = await version()
    assert first is not None
    assert await version() == first
    await desk.store.execute("UPDATE {s}.tokens SET last_used_at = now() - interval '61 s'")
    assert await version() != first


def forged(text: str) -> str:
    """A token with the id of another and a secret of its own: for a stranger who has seen the id in a list."""
    prefix, token_id, _ = text.split("_")
    body = f"{prefix}_{token_id}_{token_text.make()[0].split('_')[2]}"[:-6]
    return body + token_text._check(body)


async def test_guesses_are_counted_for_all_processes_and_lock_nobody_out(
    desk: Desk, make_app: Callable[..., Rowlock]
) -> None:
    made = await desk.app.tokens.create("ci", roles=["user"])
    wrong = forged(made.text)
    doors = [desk.app, make_app()]
    for n in range(identity.MOST):
        with pytest.raises(NotAuthenticated, match="not valid"):
            await doors[n % 2].identity.by_token(wrong, address="192.0.2.1")
    for door in doors:
        with pytest.raises(TooManyAttempts) as refused:
            await door.identity.by_token(wrong, address="192.0.2.1")
        assert 0 < refused.value.retry_after <= 300
        await door.identity.by_token(made.text, address="192.0.2.1")  # its holder, from the same address
    with pytest.raises(NotAuthenticated, match="not valid"):
        await doors[1].identity.by_token(wrong, address="192.0.2.2")
    await desk.store.execute("UPDATE {s}.login_failures SET since = since - interval '5 min'")
    with pytest.raises(NotAuthenticated, match="not valid"):
        await doors[1].identity.by_token(wrong, address="192.0.2.1")


async def test_all_addresses_of_one_ipv6_network_count_as_one(desk: Desk) -> None:
    made = await desk.app.tokens.create("ci", roles=["user"])
    for n in range(identity.MOST):
        with pytest.raises(NotAuthenticated, match="not valid"):
            await desk.app.identity.by_token(forged(made.text), address=f"2001:db8:0:1::{n:x}")
    with pytest.raises(TooManyAttempts):
        await desk.app.identity.by_token(forged(made.text), address="2001:db8:0:1:ffff::1")
    with pytest.raises(NotAuthenticated, match="not valid"):
        await desk.app.identity.by_token(forged(made.text), address="2001:db8:0:2::1")


async def test_an_address_that_fails_with_ever_new_tokens_fills_no_table(desk: Desk) -> None:
    await desk.store.execute("INSERT INTO {s}.login_failures VALUES ('192.0.2.1', $1, now())", identity.MOST_ALTOGETHER)
    made = await desk.app.tokens.create("ci", roles=["user"])
    for text in (token_text.make()[0], "rlk_nonsense"):
        with pytest.raises(TooManyAttempts):
            await desk.app.identity.by_token(text, address="192.0.2.1")
    assert await desk.store.value("SELECT count(*) FROM {s}.login_failures") == 1
    await desk.app.identity.by_token(made.text, address="192.0.2.1")  # the right one is heard


async def test_a_session_is_worth_what_its_token_is_worth(desk: Desk) -> None:
    app = desk.app
    made = await app.tokens.create("ada", roles=["user"], subject="ada")
    cookie, who = await app.identity.log_in(made.text)
    assert (who.subject, cookie not in await desk.store.value("SELECT jsonb_agg(s)::text FROM {s}.sessions s")) == (
        "ada",
        True,
    )
    found = await app.identity.by_session(cookie)
    assert found is not None
    assert (found.subject, found.kind, found.permissions) == ("ada", "user", who.permissions)
    assert await app.identity.by_session("another") is None
    await app.tokens.revoke(made.token.id)
    assert await app.identity.by_session(cookie) is None


@pytest.mark.parametrize(
    ("column", "kept", "ended"), [("seen_at", "479 min", "481 min"), ("created_at", "1439 min", "1441 min")]
)
async def test_a_session_ends_when_idle_or_old(desk: Desk, column: str, kept: str, ended: str) -> None:
    app = desk.app
    cookie, _ = await app.identity.log_in((await app.tokens.create("ada", roles=["user"])).text)
    for ago, there in ((kept, True), (ended, False)):
        await desk.store.execute(f"UPDATE {{s}}.sessions SET {column} = now() - interval '{ago}'")
        assert (await app.identity.by_session(cookie) is not None) is there


async def test_logging_out_ends_the_session(app: Rowlock) -> None:
    cookie, _ = await app.identity.log_in((await app.tokens.create("ada", roles=["user"])).text)
    assert await app.identity.log_out(cookie)
    assert await app.identity.by_session(cookie) is None
    assert not await app.identity.log_out(cookie)


MORE_THAN_ONE_HAS: list[Callable[[Rowlock], Awaitable[object]]] = [
    lambda app: app.desk(MANAGER).tokens.create("x", permissions=["jobs:cancel"]),
    lambda app: app.desk(MANAGER).tokens.create("x", roles=["operator"]),
    lambda app: app.desk(MANAGER).tokens.create("x", permissions=["jobs:read"], tenant="globex"),
    lambda app: app.desk(MANAGER).tokens.create("x", permissions=["jobs:read"], subject="grace"),
    lambda app: app.desk(MANAGER).roles.set("mine", ["jobs:read", "jobs:cancel"]),
    lambda app: app.desk(MANAGER).roles.set("operator", ["jobs:read"]),
    lambda app: app.desk(MANAGER).roles.grant("ada", "platform_admin"),
    lambda app: app.desk(MANAGER).roles.revoke("root", "platform_admin"),
]


@pytest.mark.parametrize("grasp", range(len(MORE_THAN_ONE_HAS)))
async def test_nobody_gives_or_takes_what_they_do_not_hold(app: Rowlock, grasp: int) -> None:
    await app.roles.grant("root", "platform_admin")
    with pytest.raises(Forbidden):
        await MORE_THAN_ONE_HAS[grasp](app)
    assert await app.tokens.list() == []
    assert (await app.roles.grants())[0].subject == "root"


async def test_tokens_belong_to_their_makers_tenant(app: Rowlock) -> None:
    own = (await app.desk(MANAGER).tokens.create("mine", permissions=["jobs:read"])).token
    other = (await app.tokens.create("theirs", roles=["user"], tenant="globex")).token
    assert (own.subject, own.tenant) == ("ada", "acme")
    manager = app.desk(MANAGER).tokens
    assert [token.id for token in await manager.list()] == [own.id]
    with pytest.raises(TokenNotFound):
        await manager.revoke(other.id)
    assert (await manager.revoke(own.id)).revoked_at is not None


async def test_a_token_needs_a_worth_and_known_names(app: Rowlock) -> None:
    with pytest.raises(InvalidOption, match="at least one"):
        await app.tokens.create("ci")
    with pytest.raises(InvalidOption, match="no permission 'jobs:fly'"):
        await app.tokens.create("ci", permissions=["jobs:fly"])
    with pytest.raises(RoleNotFound, match="Did you mean 'operator'"):
        await app.tokens.create("ci", roles=["oprator"])


async def test_roles_are_data(app: Rowlock) -> None:
    await app.roles.set("auditor", ["audit:read", "jobs:read_all"])
    await app.roles.grant("grace", "auditor")
    await app.roles.grant("grace", "user", by="root")
    grace = await app.identity.of("grace", roles=["no such role"], tenant="acme", permissions=[Permission.RETRY])
    assert grace.permissions == {"audit:read", "jobs:read_all", "jobs:read", "jobs:submit", "jobs:retry"}
    assert (grace.roles, grace.tenant) == (("auditor", "user"), "acme")
    await app.roles.revoke("grace", "user")
    with pytest.raises(WrongState, match="was not given"):
        await app.roles.revoke("grace", "user")
    await app.roles.delete("auditor")
    await app.roles.set("auditor", ["audit:read"])  # a new one, which nobody was given
    assert (await app.identity.of("grace")).permissions == frozenset()
    with pytest.raises(WrongState, match="stays"):
        await app.roles.delete("user")


async def test_a_permission_of_newer_code_is_passed_over(desk: Desk) -> None:
    await desk.store.execute("UPDATE {s}.roles SET permissions = '{jobs:read,jobs:dance}' WHERE name = 'user'")
    assert (await desk.app.identity.of("ada", roles=["user"])).permissions == {"jobs:read"}
    assert [role.name for role in await desk.app.desk(replace(MANAGER, permissions=ALL)).roles.list()]


async def test_a_token_expires_after_ninety_days_unless_its_maker_says_otherwise(app: Rowlock) -> None:
    usual = (await app.tokens.create("usual", roles=["user"])).token
    assert usual.expires_at is not None
    assert usual.expires_at - usual.created_at == TOKEN_LIFETIME
    assert (await app.tokens.create("ever", roles=["user"], expires_in="never")).token.expires_at is None


async def test_a_rotated_token_has_a_new_secret_and_the_old_one_for_the_overlap(desk: Desk) -> None:
    app = desk.app
    made = await app.tokens.create("ci", roles=["user"], expires_in="30 days")
    fresh = await app.tokens.rotate("ci", overlap="1h")
    assert (fresh.token.id, fresh.text == made.text) == (made.token.id, False)
    assert await worth(app, made.text) == await worth(app, fresh.text) == {"jobs:read", "jobs:submit"}
    await desk.store.execute("UPDATE {s}.tokens SET previous_until = now() - interval '1 s'")
    assert await worth(app, fresh.text) == {"jobs:read", "jobs:submit"}
    with pytest.raises(NotAuthenticated):
        await worth(app, made.text)
    again = await app.tokens.rotate(made.token.id, overlap="1h", expires_in="never")
    assert again.token.expires_at is None
    await app.tokens.revoke(made.token.id)
    for text in (fresh.text, again.text):
        with pytest.raises(NotAuthenticated):
            await worth(app, text)
    with pytest.raises(WrongState, match="was revoked and stays so"):
        await app.tokens.rotate("ci")
    actions = [entry.action for entry in await app.audit.list(target=f"token:{made.token.id}")]
    assert actions.count("token.rotate") == 2


async def test_a_stronger_token_is_neither_revoked_nor_rotated(app: Rowlock) -> None:
    strong = await app.tokens.create("strong", roles=["platform_admin"], tenant="acme")
    weak = app.desk(MANAGER)
    for order in (weak.tokens.revoke(strong.token.id), weak.tokens.rotate(strong.token.id)):
        with pytest.raises(Forbidden, match="can neither give nor take it"):
            await order
    assert await worth(app, strong.text) == ALL
    own = await weak.tokens.create("own", permissions=["jobs:read"])
    assert (await weak.tokens.revoke(own.token.id)).revoked_at is not None


async def test_a_token_does_not_get_a_role_back_that_was_made_anew(app: Rowlock) -> None:
    await app.roles.set("mine", ["jobs:read"])
    made = await app.tokens.create("ci", roles=["mine"], permissions=["jobs:submit"])
    await app.roles.delete("mine")
    await app.roles.set("mine", ["jobs:read", "jobs:cancel"])
    assert await worth(app, made.text) == {"jobs:submit"}
