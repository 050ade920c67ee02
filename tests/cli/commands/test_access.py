from __future__ import annotations

import getpass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

    from rowlock import Rowlock


async def test_a_token_is_made_listed_and_revoked(cli: Cli, app: Rowlock) -> None:
    made = await cli("tokens", "create", "ci", "--role", "user", "--tenant", "acme", "--expires-in", "90 days")
    assert "not shown again" in made.err
    text = made.out.strip()
    who = await app.identity.by_token(text)
    assert (who.subject, who.tenant, sorted(who.permissions)) == ("token:ci", "acme", ["jobs:read", "jobs:submit"])
    (listed,) = (await cli("tokens", "ls", "--json")).json
    assert (listed["name"], listed["roles"], listed["state"]) == ("ci", ["user"], "valid")
    assert text not in str(listed)
    revoked = await cli("tokens", "revoke", listed["id"])
    assert "revoked" in revoked.out
    unknown = await cli("tokens", "revoke", "nothing")
    assert (unknown.code, "no token" in unknown.err) == (1, True)
    wrong = await cli("tokens", "create", "ci", "--permission", "jobs:fly")
    assert (wrong.code, "jobs:read" in wrong.err) == (2, True)


async def test_roles_are_set_and_granted(cli: Cli, app: Rowlock) -> None:
    await cli("roles", "set", "auditor", "audit:read", "jobs:read_all")
    (granted,) = (await cli("roles", "grant", "grace", "auditor", "--json")).json
    assert granted == {"name": "auditor", "permissions": ["audit:read", "jobs:read_all"], "granted_to": ["grace"]}
    assert (await app.identity.of("grace")).roles == ("auditor",)
    names = [line.split()[0] for line in (await cli("roles", "ls")).out.splitlines()]
    assert names == ["ROLE", "auditor", "operator", "platform_admin", "user"]
    assert (await cli("roles", "revoke", "grace", "auditor", "--json")).json[0]["granted_to"] == []
    assert (await cli("roles", "rm", "user")).code == 1
    missing = await cli("roles", "grant", "grace", "auditr")
    assert (missing.code, "Did you mean 'auditor'" in missing.err) == (1, True)


async def test_the_audit_tells_what_the_command_line_did(cli: Cli) -> None:
    job = await cli.enqueue("greet", name="Ada")
    await cli("jobs", "cancel", job, "--by", "ada", "--note", "wrong name")
    await cli("lanes", "set", "bulk", "--create", "--slots", "3")
    lines = (await cli("audit", "ls", "--job", job, "--json")).json
    assert [(line["action"], line["acting_for"], line["note"]) for line in lines] == [
        ("job.cancel", "ada", "wrong name"),
        ("job.submit", None, None),
    ]
    (who,) = {line["subject"] for line in (await cli("audit", "ls", "--action", "lane.set", "--json")).json}
    assert who == getpass.getuser()
    table = (await cli("audit", "ls", "--within", "1h", "--action", "lane.set")).out
    assert "lane:bulk" in table
    assert '{"slots": 10}' in table
    assert '{"slots": 3}' in table
    assert (await cli("audit", "ls", "--target", "lane:none")).out == "Nothing was changed.\n"
