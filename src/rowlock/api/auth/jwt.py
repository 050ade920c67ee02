"""JWT bearers: signatures of an identity provider, checked with the keys it publishes."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
import warnings
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from rowlock.api.auth.bearer import bearer
from rowlock.errors import ConfigurationError, MissingExtra, NotAuthenticated

try:
    from joserfc import jws, jwt
    from joserfc.errors import InvalidKeyIdError, JoseError, SecurityWarning
    from joserfc.jwk import KeySet
except ModuleNotFoundError as error:
    raise MissingExtra("joserfc", "server") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.requests import HTTPConnection

    from rowlock.app import Rowlock
    from rowlock.model.access import Principal

ALGORITHMS: Final = ("RS256", "ES256", "EdDSA", "Ed25519")
"""Signatures with a public key. A shared secret, or none, is never taken."""
LEEWAY: Final = 30
"""Seconds by which the clocks may differ."""
_FRESH: Final = 600.0
"""Seconds for which fetched keys are used without a look."""
_AGAIN: Final = 30.0
"""Seconds between two fetches that an unknown key or a failure asks for: nobody makes us hammer the provider."""
_PATIENCE: Final = 5.0
_LARGEST: Final = 1_000_000
_DOTS: Final = 2
_NOT_VALID: Final = "This bearer is not valid here: {}."


class JWTAuth:
    """Knows the bearers of one issuer.

    roles: what the issuer calls a role, to the name of ours; others of its roles count for nothing. Roles granted to
    the subject in the database count too. roles_claim may lead inside: realm_access.roles. clock: the time, in seconds
    since 1970, by which bearers are judged.
    """

    def __init__(
        self,
        app: Rowlock,
        *,
        issuer: str,
        audience: str | Sequence[str],
        jwks_url: str,
        roles: Mapping[str, str] | None = None,
        roles_claim: str = "roles",
        tenant_claim: str | None = None,
        subject_claim: str = "sub",
        name_claim: str = "name",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._app, self._issuer, self._roles = app, issuer, dict(roles or {})
        self._claims = {"roles": roles_claim, "tenant": tenant_claim, "subject": subject_claim, "name": name_claim}
        audiences = [audience] if isinstance(audience, str) else list(audience)
        self._registry = jwt.JWTClaimsRegistry(
            now=lambda: int(clock()),
            leeway=LEEWAY,
            iss={"essential": True, "value": issuer},
            aud={"essential": True, "values": audiences},
            exp={"essential": True},
        )
        self._keys = Keys(jwks_url)

    async def authenticate(self, connection: HTTPConnection) -> Principal | None:
        """Who signed in at the issuer; None when another's bearer, or none, was sent."""
        text = bearer(connection)
        if text is None or text.count(".") != _DOTS or _issuer_of(text) != self._issuer:
            return None
        claims = await self._verified(text)
        subject = self._claim(claims, "subject")
        if not isinstance(subject, str) or not subject:
            raise NotAuthenticated(_NOT_VALID.format(f"it has no {self._claims['subject']}"))
        tenant, name, said = (self._claim(claims, what) for what in ("tenant", "name", "roles"))
        if self._claims["tenant"] is not None and (not isinstance(tenant, str) or not tenant):
            # Without it, somebody of a tenant would count as somebody of none.
            raise NotAuthenticated(_NOT_VALID.format(f"it has no {self._claims['tenant']}"))
        names = [said] if isinstance(said, str) else said if isinstance(said, list) else []
        return await self._app.identity.of(
            subject,
            roles=[self._roles[each] for each in names if isinstance(each, str) and each in self._roles],
            tenant=tenant if isinstance(tenant, str) else None,
            display=name if isinstance(name, str) else None,
        )

    async def _verified(self, text: str) -> dict[str, Any]:
        try:
            try:
                claims = _decoded(text, await self._keys.current())
            except InvalidKeyIdError:
                # The provider may have changed its keys since we looked.
                claims = _decoded(text, await self._keys.newer())
            self._registry.validate(claims)
        except (JoseError, ValueError, TypeError) as error:
            why = getattr(error, "description", None) or str(error) or type(error).__name__
            raise NotAuthenticated(_NOT_VALID.format(why.rstrip("."))) from None
        return claims

    def _claim(self, claims: Mapping[str, Any], what: str) -> object:
        path = self._claims[what]
        if path is None:
            return None
        # A claim may have dots in its very name, as those with a URL for a namespace do.
        if path in claims:
            return claims[path]
        value: object = claims
        for step in path.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        return value


class Keys:
    """The provider's public keys: fetched off the event loop, kept, and looked at again when one is missing."""

    def __init__(self, url: str, fetch: Callable[[str], bytes] | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1")):
            message = f"jwks_url must begin with https:// (http:// for this machine only); got {url!r}."
            raise ConfigurationError(message)
        self._url, self._fetch = url, fetch or _download
        self._set: KeySet | None = None
        self._fetched = self._tried = float("-inf")
        self._lock = asyncio.Lock()

    async def current(self) -> KeySet:
        """The keys as last fetched, or fetched now."""
        if self._set is None or time.monotonic() - self._fetched > _FRESH:
            await self._renew()
        return self._held()

    async def newer(self) -> KeySet:
        """The keys fetched anew, unless that was done a moment ago."""
        await self._renew()
        return self._held()

    def _held(self) -> KeySet:
        if self._set is None:
            raise NotAuthenticated("Bearers cannot be checked now: the keys of the identity provider do not come.")
        return self._set

    async def _renew(self) -> None:
        asked = time.monotonic()
        async with self._lock:
            # Whoever waited here finds what the one before them fetched.
            if self._tried >= asked or asked - self._tried < _AGAIN:
                return
            self._tried = time.monotonic()
            try:
                text = await asyncio.to_thread(self._fetch, self._url)
                self._set = KeySet.import_key_set(json.loads(text))
                self._fetched = time.monotonic()
            except (OSError, ValueError, KeyError, TypeError, JoseError):
                # Those we have stay good; without any, nobody is let in.
                return


def _decoded(text: str, keys: KeySet) -> dict[str, Any]:
    with warnings.catch_warnings():
        # Of EdDSA: providers still call Ed25519 so.
        warnings.simplefilter("ignore", SecurityWarning)
        return jwt.decode(text, keys, algorithms=list(ALGORITHMS)).claims


def _issuer_of(text: str) -> object:
    """Whom a bearer names as its issuer, before anything of it is believed."""
    try:
        claims = json.loads(jws.extract_compact(text.encode()).payload)
    except (JoseError, ValueError, TypeError):
        return None
    return claims.get("iss") if isinstance(claims, dict) else None


def _download(url: str) -> bytes:
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - https, checked above
    with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:  # noqa: S310 - as above
        text: bytes = answer.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        message = "too many keys"
        raise ValueError(message)
    return text
