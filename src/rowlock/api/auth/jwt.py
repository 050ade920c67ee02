"""JWT bearer tokens of an identity provider, verified with the keys that it publishes."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
import warnings
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from rowlock.api.auth.bearer import bearer
from rowlock.api.auth.claims import ClaimsMapping, MissingClaim
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
"""Signatures with a public key. A shared secret, or no signature, is never accepted."""
LEEWAY: Final = 30
"""Seconds by which the provider's clock may differ from ours."""
_FRESH: Final = 600.0
"""Seconds for which fetched keys are used before they are fetched again."""
_AGAIN: Final = 30.0
"""Least seconds between two fetches, so that unknown keys cannot make us flood the provider."""
_PATIENCE: Final = 5.0
_LARGEST: Final = 1_000_000
_DOTS: Final = 2
UNREADABLE: Final = (JoseError, ValueError, TypeError, RecursionError)
"""Raised while a forged token is read. RecursionError: its JSON is nested too deeply."""
_NOT_VALID: Final = "This bearer token is not valid here: {}."


class JWTAuth:
    """Authenticates by the tokens of one issuer.

    roles: maps role names of the issuer to ours; its other roles are ignored. Roles granted to the subject in the
    database count too. roles_claim may be a path: realm_access.roles. clock: seconds since 1970, for expiry.
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
        self._app, self._issuer = app, issuer
        self._mapping = ClaimsMapping(dict(roles or {}), roles_claim, tenant_claim, subject_claim, name_claim)
        audiences = [audience] if isinstance(audience, str) else list(audience)
        self._registry = jwt.JWTClaimsRegistry(
            now=lambda: int(clock()),
            leeway=LEEWAY,
            iss={"essential": True, "value": issuer},
            aud={"essential": True, "values": audiences},
            exp={"essential": True},
        )
        self._keys = ProviderKeys(jwks_url)

    async def authenticate(self, connection: HTTPConnection) -> Principal | None:
        """The principal of the token; None without a token of this issuer, NotAuthenticated when it is invalid."""
        text = bearer(connection)
        if text is None or text.count(".") != _DOTS or _issuer_of(text) != self._issuer:
            return None
        claims = await self._verified(text)
        try:
            person = self._mapping.person_of(claims)
        except MissingClaim as missing:
            raise NotAuthenticated(_NOT_VALID.format(f"it has no {missing}")) from None
        return await self._app.identity.of(
            person.subject, roles=person.roles, tenant=person.tenant, display=person.display
        )

    async def _verified(self, text: str) -> dict[str, Any]:
        try:
            try:
                claims = decoded(text, await self._keys.current())
            except InvalidKeyIdError:
                # The provider may have changed its keys since they were fetched.
                claims = decoded(text, await self._keys.newer())
            self._registry.validate(claims)
        except UNREADABLE as error:
            why = getattr(error, "description", None) or str(error) or type(error).__name__
            raise NotAuthenticated(_NOT_VALID.format(why.rstrip("."))) from None
        return claims


class ProviderKeys:
    """The provider's public keys: fetched in a thread, cached, and fetched again when one is missing."""

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
        """The cached keys, fetched now when they are old."""
        if self._set is None or time.monotonic() - self._fetched > _FRESH:
            await self._renew()
        return self._held()

    async def newer(self) -> KeySet:
        """The keys fetched anew, unless they were fetched a moment ago."""
        await self._renew()
        return self._held()

    def _held(self) -> KeySet:
        if self._set is None:
            raise NotAuthenticated(
                "Tokens cannot be verified now: the keys of the identity provider cannot be fetched. Try again later."
            )
        return self._set

    async def _renew(self) -> None:
        asked = time.monotonic()
        async with self._lock:
            # A caller that waited for the lock uses what the caller before it fetched.
            if self._tried >= asked or asked - self._tried < _AGAIN:
                return
            self._tried = time.monotonic()
            try:
                text = await asyncio.to_thread(self._fetch, self._url)
                self._set = KeySet.import_key_set(json.loads(text))
                self._fetched = time.monotonic()
            except (OSError, ValueError, KeyError, TypeError, JoseError):
                # The cached keys stay valid; without any, no caller is let in.
                return


def decoded(text: str, keys: KeySet) -> dict[str, Any]:
    """The claims of a token that one of these keys signed; JoseError, ValueError or TypeError for any other text."""
    with warnings.catch_warnings():
        # joserfc warns about the name EdDSA, which providers still use for Ed25519.
        warnings.simplefilter("ignore", SecurityWarning)
        return jwt.decode(text, keys, algorithms=list(ALGORITHMS)).claims


def _issuer_of(text: str) -> object:
    """The issuer that a token names, before it is verified."""
    try:
        claims = json.loads(jws.extract_compact(text.encode()).payload)
    except UNREADABLE:
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
