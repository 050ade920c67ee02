"""Embed tokens: what one is worth, for how long, and how it ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rowlock import Forbidden, InvalidOption, JobNotFound, Permission, Principal
from rowlock.errors import NotAuthenticated
from rowlock.model.access import ALL, EMBED_LONGEST, FAILURES_WITHIN, SESSION_IDLE, SESSION_LONGEST

if TYPE_CHECKING:
    from tests.desk.conftest import Desk

    from rowlock import Rowlock


async def is_valid(app: Rowlock, text: str) -> bool:
    try:
        await app.identity.by_embed_token(text)
    except NotAuthenticated:
        return False
    return True


async def test_no_token_is_stored_and_every_process_accepts_it(desk: Desk) -> None:
    job = await desk.store.enqueue(tenant="acme", submitted_by="ada")
    made = await desk.app.tokens.for_job(job, expires="15m", show=["items"], cancel=True)
    checked = await desk.app.identity.by_embed_token(made.text)
    grant = checked.grant
    assert (grant.job, grant.subject, grant.tenant, grant.show) == (job, None, "acme", frozenset({"items"}))
    assert grant.may_cancel
    assert 0 < checked.seconds <= 15 * 60
    assert made.text not in repr(made)
    assert await desk.store.value("SELECT count(*) FROM {s}.tokens") == 0
    assert await desk.store.value("SELECT count(*) FROM {s}.embed_keys") == 1


async def test_processes_that_make_the_first_key_at_once_agree_on_it(desk: Desk) -> None:
    made = await asyncio.gather(*(desk.app.tokens.for_user(f"user{n}") for n in range(8)))
    assert [await is_valid(desk.app, each.text) for each in made] == [True] * 8
    assert await desk.store.value("SELECT count(*) FROM {s}.embed_keys") == 1


@pytest.mark.parametrize("expires", ["0s", "25h", -1, "soon"])
async def test_a_token_lives_for_a_day_at_most(desk: Desk, expires: str) -> None:
    with pytest.raises(InvalidOption, match="expires"):
        await desk.app.tokens.for_user("ada", expires=expires)


async def test_a_token_expires_by_the_databases_clock(desk: Desk) -> None:
    made = await desk.app.tokens.for_user("ada", expires="1ms")
    await desk.store.value("SELECT pg_sleep(0.01)")
    assert not await is_valid(desk.app, made.text)


async def test_a_revoked_person_is_out_and_gets_in_again_with_a_new_token(desk: Desk) -> None:
    app = desk.app
    job = await desk.store.enqueue()
    old = [
        await app.tokens.for_user("ada", tenant="acme"),
        await app.tokens.for_user("ada"),
        await app.tokens.for_job(job, user="ada"),
        await app.tokens.for_job(job),
    ]
    await app.tokens.revoke_for_user("ada", by="root")
    assert [await is_valid(app, each.text) for each in old] == [True, False, False, True]
    assert await is_valid(app, (await app.tokens.for_user("ada")).text)
    (entry,) = await app.audit.list(action="embed.revoke")
    assert entry.target == "user:ada"


async def test_tokens_of_a_job_are_revoked_with_it(desk: Desk) -> None:
    app = desk.app
    jobs = [await desk.store.enqueue(), await desk.store.enqueue()]
    old = [await app.tokens.for_job(job) for job in jobs]
    await app.tokens.revoke_for_job(jobs[0])
    await app.tokens.revoke_for_job(jobs[0])
    assert [await is_valid(app, each.text) for each in old] == [False, True]


async def test_a_rotated_key_is_accepted_for_the_overlap(desk: Desk) -> None:
    app = desk.app
    first = await app.tokens.for_user("ada")
    await app.tokens.rotate_embed_key()
    second = await app.tokens.for_user("ada")
    assert [await is_valid(app, each.text) for each in (first, second)] == [True, True]
    await app.tokens.rotate_embed_key(overlap="0s")
    assert [await is_valid(app, each.text) for each in (first, second)] == [False, False]
    assert await is_valid(app, (await app.tokens.for_user("ada")).text)
    assert len(await app.audit.list(action="embed.rotate_key")) == 2


async def test_a_month_old_key_signs_no_more(desk: Desk) -> None:
    app = desk.app
    first = await app.tokens.for_user("ada")
    await desk.store.execute("UPDATE {s}.embed_keys SET created_at = now() - interval '31 days'")
    second = await app.tokens.for_user("ada")
    assert [await is_valid(app, each.text) for each in (first, second)] == [True, True]
    keys = await desk.store.value("SELECT array_agg(expires_at IS NULL ORDER BY created_at) FROM {s}.embed_keys")
    assert keys == [False, True]


async def test_a_token_has_no_right_that_its_maker_lacks(desk: Desk) -> None:
    app = desk.app
    job = await desk.store.enqueue(tenant="acme", submitted_by="ada")
    held = frozenset({Permission.TOKENS_MANAGE, Permission.READ})
    ada = app.desk(Principal("ada", "acme", held)).tokens
    assert await is_valid(app, (await ada.for_job(job)).text)
    assert await is_valid(app, (await ada.for_user("ada")).text)
    with pytest.raises(Forbidden, match="jobs:cancel"):
        await ada.for_job(job, cancel=True)
    with pytest.raises(Forbidden, match="jobs:submit_as"):
        await ada.for_user("bob")
    with pytest.raises(Forbidden, match="jobs:read_all"):
        await ada.rotate_embed_key()
    with pytest.raises(JobNotFound):
        await app.desk(Principal("bo", "globex", held)).tokens.for_job(job)
    with pytest.raises(Forbidden, match="tokens:manage"):
        await app.desk(Principal("eve", permissions=ALL - {Permission.TOKENS_MANAGE})).tokens.for_job(job)


def test_blocking_code_makes_them_too(app: Rowlock) -> None:
    assert app.sync.tokens.for_user("ada", expires=60).text.startswith("rle_")


async def test_keys_and_revocations_go_when_no_token_can_need_them(desk: Desk) -> None:
    app = desk.app
    await app.tokens.for_user("ada")
    await app.tokens.rotate_embed_key(overlap="0s")
    kept = await app.tokens.for_user("ada")
    for person in ("bob", "cleo"):
        await app.tokens.revoke_for_user(person)
    await desk.store.execute(
        "UPDATE {s}.embed_revocations SET revoked_at = now() - interval '25 hours' WHERE target LIKE '%bob%'"
    )
    spans = {"idle": SESSION_IDLE, "longest": SESSION_LONGEST, "within": FAILURES_WITHIN}
    await desk.store.fetch("prune_access", **spans, longest_embed=EMBED_LONGEST)
    assert await desk.store.value("SELECT count(*) FROM {s}.embed_keys") == 1
    assert await desk.store.value("SELECT array_agg(target) FROM {s}.embed_revocations") == ['[null, "cleo"]']
    assert await is_valid(app, kept.text)
