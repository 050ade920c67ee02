"""The caller, API tokens and the audit."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from rowlock.api.schemas import fields
from rowlock.api.schemas.base import Answer, Body, doc
from rowlock.api.schemas.fields import INSTANT, Duration, Text
from rowlock.model.access import AuditCheck, BrokenSeal, Entry, Grant, Principal, Role, SealedEntry, Token

_PERMISSIONS = ["jobs:read", "jobs:submit"]
_SCOPED = ["jobs:read", "jobs:submit@kind=report.*"]
_TOKEN = "rowlock_4f2c…"  # noqa: S105 - an example
Roles = Annotated[list[str], doc("Roles.", ["operator"])]


class MeAnswer(Answer):
    """The caller and its permissions."""

    subject: Annotated[str, doc("Who calls.", "ada@example.com")]
    display: Annotated[str, doc("Name for a screen.", "Ada Lovelace")]
    kind: Annotated[str, doc("user, token or system.", "user")]
    tenant: fields.TenantOrNull
    roles: Roles
    permissions: Annotated[list[str], doc("Permissions that the caller holds.", _PERMISSIONS)]
    login: Annotated[
        Literal["token", "oidc"] | None,
        doc("How the caller logged in: by an API token, or at the identity provider; null: in another way.", "oidc"),
    ]

    @classmethod
    def of(cls, principal: Principal, *, in_session: bool = False) -> MeAnswer:
        """From the desk's value. in_session: the caller sent the cookie of a session."""
        by_provider = in_session and principal.kind == "user" and not principal.is_anonymous
        return cls(
            login="token" if principal.token is not None else "oidc" if by_provider else None,
            subject=principal.subject,
            display=principal.name,
            kind=principal.kind,
            tenant=principal.tenant,
            roles=list(principal.roles),
            permissions=sorted(principal.permissions),
        )


class GrantAnswer(Answer):
    """A role that was given to a subject."""

    subject: Annotated[str, doc("Who holds the role.", "ada@example.com")]
    granted_at: Annotated[datetime, doc("When it was given.", INSTANT)]
    granted_by: Annotated[str | None, doc("Who gave it; null: unknown.", "root")]


class RoleAnswer(Answer):
    """A name for permissions, and who holds it."""

    name: Annotated[str, doc("Name of the role.", "operator")]
    permissions: Annotated[list[str], doc("Permissions that it gives.", _PERMISSIONS)]
    grants: Annotated[list[GrantAnswer], doc("Subjects to whom it was given here, by name; 1,000 at most in all.")]

    @classmethod
    def of(cls, role: Role, grants: Iterable[Grant]) -> RoleAnswer:
        """From the desk's values. grants: of any role."""
        own = [GrantAnswer.model_validate(each, from_attributes=True) for each in grants if each.role == role.name]
        return cls(name=role.name, permissions=sorted(role.permissions), grants=own)


class RolesAnswer(Answer):
    """Roles."""

    items: Annotated[list[RoleAnswer], doc("Every role, by name.")]


class NewGrant(Body):
    """A subject that gets a role."""

    subject: Annotated[
        Text, doc("Who gets it, as the host, the identity provider or a token names them.", "ada@example.com")
    ]


class LogIn(Body):
    """An API token, exchanged for a session cookie."""

    token: Annotated[str, doc("The token as it was shown when it was created.", _TOKEN, min_length=1, max_length=500)]


class OIDCLoginAnswer(Answer):
    """The login at an identity provider."""

    label: Annotated[str, doc("Text of the button.", "Single sign-on")]
    url: Annotated[str, doc("Where the button leads, below the prefix of the API.", "auth/login/oidc")]


class LoginsAnswer(Answer):
    """How people log in to this server."""

    token: Annotated[bool, doc("Whether POST /auth/login takes tokens.", True)]
    oidc: Annotated[OIDCLoginAnswer | None, doc("Login at an identity provider; null: none.")]


class ProviderLogoutAnswer(Answer):
    """The session here has ended."""

    url: Annotated[
        str | None,
        doc(
            "Where the browser ends its session at the identity provider; null: it offers none.",
            "https://id.example/out",
        ),
    ]


class TokenAnswer(Answer):
    """An API token without its text."""

    id: Annotated[str, doc("Id of the token.", "4f2c81d0")]
    name: Annotated[str, doc("Name of the token.", "ci")]
    subject: Annotated[str, doc("Subject that it acts as.", "token:ci")]
    tenant: fields.TenantOrNull
    permissions: Annotated[list[str], doc("Permissions that it carries itself.", _PERMISSIONS)]
    roles: Roles
    created_at: fields.CreatedAt
    created_by: Annotated[str | None, doc("Subject that created it; null: unknown.", "ada@example.com")]
    expires_at: Annotated[datetime | None, doc("When it expires; null: never.", INSTANT)]
    last_used_at: Annotated[datetime | None, doc("When it was last used; null: never.", INSTANT)]
    revoked_at: Annotated[datetime | None, doc("When it was revoked; null: it is valid.", None)]

    @classmethod
    def of(cls, token: Token, **more: object) -> TokenAnswer:
        """From the desk's value. more: fields of a subclass."""
        values = {name: getattr(token, name) for name in TokenAnswer.model_fields}
        return cls.model_validate({**values, "permissions": sorted(token.permissions), **more})


class NewTokenAnswer(TokenAnswer):
    """A token right after it was created."""

    text: Annotated[str, doc("The token itself: shown this once and stored nowhere.", _TOKEN)]


class TokensAnswer(Answer):
    """Every token."""

    items: Annotated[list[TokenAnswer], doc("Tokens, newest first, revoked ones included.")]


class NewToken(Body):
    """A token to create; it carries no more than its creator holds. Only `name` is required."""

    name: Annotated[Text, doc("Name of the token.", "ci")]
    permissions: Annotated[
        list[Text], doc("Permissions that it carries itself; some with a scope.", _SCOPED, max_length=100)
    ] = Field(default_factory=list)
    roles: Annotated[list[Text], doc("Roles that it has.", ["operator"], max_length=100)] = Field(default_factory=list)
    subject: Annotated[Text | None, doc("Subject that it acts as; null: made of its name.", "deploys")] = None
    tenant: Annotated[Text | None, doc("Tenant that it belongs to; null: that of the caller.", "acme")] = None
    expires_in: Annotated[
        Duration | Literal["never"] | None,
        doc("How long it is valid, or never to let it expire; null: 90 days.", "30d"),
    ] = None


class Rotation(Body):
    """How a token gets a new secret."""

    overlap: Annotated[Duration, doc("How long the old secret is still accepted.", "1h")] = 86400.0
    expires_in: Annotated[
        Duration | Literal["never"] | None,
        doc("How long the token is valid from now on, or never to let it expire; null: as long as before.", "30d"),
    ] = None


class AuditEntryAnswer(Answer):
    """One recorded change: who made it, when, and to what."""

    id: Annotated[str, doc("Id of the entry.", "913")]
    at: Annotated[datetime, doc("When the change was made.", INSTANT)]
    subject: Annotated[str, doc("Who made it.", "ada@example.com")]
    kind: Annotated[str, doc("user, token or system.", "user")]
    acting_for: Annotated[str | None, doc("Subject in whose name it was made; null: their own.", None)]
    tenant: fields.TenantOrNull
    action: Annotated[str, doc("What was done.", "lane.set")]
    target: Annotated[str, doc("What was changed, as job:ID, lane:NAME or token:ID.", "lane:reports")]
    before: Annotated[dict[str, Any] | None, doc("The changed fields before; null: nothing was there.", {"slots": 2})]
    after: Annotated[dict[str, Any] | None, doc("The changed fields after; null: it was removed.", {"slots": 4})]
    note: fields.NoteOrNull
    request_id: Annotated[str | None, doc("Id of the request; null: it came by another way.", "7d1f0c")]
    address: Annotated[str | None, doc("Address of the client; null: unknown.", "10.0.0.7")]

    @classmethod
    def of(cls, entry: Entry) -> AuditEntryAnswer:
        """From the desk's value."""
        values = {name: getattr(entry, name) for name in cls.model_fields}
        return cls.model_validate({**values, "id": str(entry.id)})


class SealedEntryAnswer(Answer):
    """A sealed entry: `hash` is SHA-256 of `previous`, in hexadecimal, followed by `sealed_text`."""

    n: Annotated[int, doc("Place in the chain.", 41)]
    previous: Annotated[str, doc("Hash of the seal before it; empty: it is the first one.", "9f86d0…")]
    hash: Annotated[str, doc("Hash of this seal.", "60303a…")]
    sealed_text: Annotated[str, doc("The text that was hashed.", "41|913|…")]
    entry: Annotated[AuditEntryAnswer, doc("The entry.")]

    @classmethod
    def of(cls, sealed: SealedEntry) -> SealedEntryAnswer:
        """From the desk's value."""
        return cls(
            n=sealed.n,
            previous=sealed.previous,
            hash=sealed.hash,
            sealed_text=sealed.sealed_text,
            entry=AuditEntryAnswer.of(sealed.entry),
        )


class AuditExportAnswer(Answer):
    """A page of sealed entries."""

    items: Annotated[list[SealedEntryAnswer], doc("Sealed entries in the order of the chain, the oldest first.")]
    next_cursor: fields.NextCursor


class BrokenSealAnswer(Answer):
    """The first place where the chain does not hold."""

    n: Annotated[int, doc("Place in the chain.", 41)]
    entry_id: Annotated[str | None, doc("Id of the entry; null: it is gone.", "913")]
    reason: Annotated[str, doc("What is wrong.", "its line was removed")]

    @classmethod
    def of(cls, broken: BrokenSeal) -> BrokenSealAnswer:
        """From the desk's value."""
        return cls(n=broken.n, entry_id=str(broken.entry_id) if broken.entry_id else None, reason=broken.reason)


class AuditCheckAnswer(Answer):
    """What a check of a stretch of the chain found."""

    lines: Annotated[int, doc("Entries that were checked.", 1000)]
    head: Annotated[str | None, doc("Last seal that was checked, as PLACE:HASH; null: there is none.", "41:60303a…")]
    more: Annotated[bool, doc("Whether the check stopped at its limit; go on with `after` set to `head`.", False)]
    broken: Annotated[BrokenSealAnswer | None, doc("The first seal that does not hold; null: all of them hold.", None)]

    @classmethod
    def of(cls, check: AuditCheck) -> AuditCheckAnswer:
        """From the desk's value."""
        broken = None if check.broken is None else BrokenSealAnswer.of(check.broken)
        head = f"{check.last}:{check.head}" if check.last else None
        return cls(lines=check.lines, head=head, more=check.more, broken=broken)


class AuditAnswer(Answer):
    """A page of the audit."""

    items: Annotated[list[AuditEntryAnswer], doc("Entries, newest first.")]
    next_cursor: fields.NextCursor
