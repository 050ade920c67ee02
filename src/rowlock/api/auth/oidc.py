"""OIDCLogin: people log in at an identity provider (OpenID Connect, authorisation code with PKCE) and get a session."""

from __future__ import annotations

import hmac
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from rowlock.api.auth.claims import ClaimsMapping, MissingClaim
from rowlock.api.auth.jwt import LEEWAY, UNREADABLE, ProviderKeys, decoded
from rowlock.api.auth.login_attempt import ATTEMPT_SECONDS
from rowlock.api.problems import Problem
from rowlock.errors import ConfigurationError, MissingExtra, NotAuthenticated

try:
    # Not authlib's own clients: they are bound to releases of HTTP libraries, and warn about those of today.
    import httpx
    from authlib.oauth2.auth import ClientAuth
    from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
    from authlib.oauth2.rfc7636 import create_s256_code_challenge
    from joserfc.errors import InvalidKeyIdError
except ModuleNotFoundError as error:
    raise MissingExtra("authlib", "oidc") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rowlock.api.auth.claims import NamedPerson
    from rowlock.api.auth.login_attempt import LoginAttempt
    from rowlock.settings import Settings

_FRESH: Final = 600.0
"""Seconds for which the provider's description of itself is used."""
_PATIENCE: Final = 10.0
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_AGAIN: Final = "Log in again."


@dataclass(frozen=True, slots=True)
class ProviderMetadata:
    """What the identity provider says of itself at /.well-known/openid-configuration."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    end_session_endpoint: str | None
    names_itself: bool
    """Whether it adds its name to every answer (RFC 9207)."""


class OIDCLogin:
    """Logs people in by one issuer: RowlockAPI(auth=[TokenAuth(app), SessionAuth(app)], oidc=OIDCLogin(…)).

    roles, roles_claim, tenant_claim, subject_claim, name_claim: as of JWTAuth; roles granted in the database count too.
    client_secret None: a public client, which PKCE alone protects. redirect_url: the address of /auth/callback as the
    provider knows it; None: by the Host header. label: the text of the login button. clock: seconds since 1970.
    """

    def __init__(
        self,
        *,
        issuer: str,
        client_id: str,
        client_secret: str | None = None,
        redirect_url: str | None = None,
        roles: Mapping[str, str] | None = None,
        roles_claim: str = "roles",
        tenant_claim: str | None = None,
        subject_claim: str = "sub",
        name_claim: str = "name",
        scopes: Sequence[str] = ("openid", "profile", "email"),
        label: str = "Single sign-on",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.issuer, self.label, self.redirect_url = _checked_url(issuer, "issuer"), label, redirect_url
        if redirect_url is not None:
            _checked_url(redirect_url, "redirect_url")
        if "openid" not in scopes:
            message = f"OIDCLogin(scopes=…) needs openid; got {', '.join(scopes)}."
            raise ConfigurationError(message)
        self._client_id, self._client_secret, self._scope = client_id, client_secret, " ".join(scopes)
        self._mapping = ClaimsMapping(dict(roles or {}), roles_claim, tenant_claim, subject_claim, name_claim)
        self._clock = clock
        self._metadata: ProviderMetadata | None = None
        self._fetched = float("-inf")
        self._keys: ProviderKeys | None = None

    async def address(self, attempt: LoginAttempt, redirect_url: str) -> str:
        """Where the browser goes to log in."""
        metadata = await self.metadata()
        url = prepare_grant_uri(
            metadata.authorization_endpoint,
            self._client_id,
            "code",
            redirect_uri=redirect_url,
            scope=self._scope,
            state=attempt.state,
            nonce=attempt.nonce,
            code_challenge=create_s256_code_challenge(attempt.verifier),
            code_challenge_method="S256",
        )
        return str(url)

    async def finish(self, answer: Mapping[str, str], attempt: LoginAttempt | None, redirect_url: str) -> NamedPerson:
        """The person who logged in, by the answer that the browser brought from the provider.

        NotAuthenticated says why there is none; a Problem if the provider does not answer.
        """
        if attempt is None:
            raise NotAuthenticated(
                f"This browser has begun no login here, or longer than {ATTEMPT_SECONDS // 60} minutes ago. {_AGAIN}"
            )
        if not hmac.compare_digest(answer.get("state", "").encode(errors="replace"), attempt.state.encode()):
            raise NotAuthenticated(
                f"This answer belongs to another login: its state differs. Another tab may have begun one. {_AGAIN}"
            )
        metadata = await self.metadata()
        named = answer.get("iss")
        if (named is None and metadata.names_itself) or named not in (None, self.issuer):
            raise NotAuthenticated(f"The answer is from the issuer {named}, not from {self.issuer}. {_AGAIN}")
        if "error" in answer:
            why = ": ".join(answer[key][:200] for key in ("error", "error_description") if key in answer)
            raise NotAuthenticated(f"The identity provider refused the login ({why}). {_AGAIN}")
        if not answer.get("code"):
            raise NotAuthenticated(f"The answer of the identity provider has no code. {_AGAIN}")
        claims = await self._claims(await self._exchange(metadata, answer["code"], attempt, redirect_url), metadata)
        self._check(claims, attempt)
        try:
            return self._mapping.person_of(claims)
        except MissingClaim as missing:
            raise NotAuthenticated(
                f"The identity provider did not say the claim {missing} in its id token. Its administrator can add it, "
                "or the settings of this server can name another claim."
            ) from None

    async def logout_address(self, back_to: str) -> str | None:
        """Where the browser ends its session at the provider; None: it offers no such address, or does not answer."""
        try:
            metadata = await self.metadata()
        except Problem:
            return None
        if metadata.end_session_endpoint is None:
            return None
        query = urlencode({"client_id": self._client_id, "post_logout_redirect_uri": back_to})
        joint = "&" if "?" in metadata.end_session_endpoint else "?"
        return f"{metadata.end_session_endpoint}{joint}{query}"

    async def metadata(self) -> ProviderMetadata:
        """The provider's description of itself, fetched every ten minutes; the old one serves while it is away."""
        if self._metadata is None or time.monotonic() - self._fetched > _FRESH:
            try:
                self._metadata = await self._discover()
                self._fetched = time.monotonic()
            except Problem:
                if self._metadata is None:
                    raise
        return self._metadata

    async def _discover(self) -> ProviderMetadata:
        url = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            async with httpx.AsyncClient(timeout=_PATIENCE) as client:
                document = (await client.get(url)).raise_for_status().json()
            named = document["issuer"]
            login, exchange = (
                _checked_url(document[name], name) for name in ("authorization_endpoint", "token_endpoint")
            )
            keys, ending = _checked_url(document["jwks_uri"], "jwks_uri"), document.get("end_session_endpoint")
            if ending is not None:
                # A browser is sent there, so it may be no other kind of address.
                _checked_url(ending, "end_session_endpoint")
        except (httpx.HTTPError, ValueError, KeyError, TypeError, ConfigurationError) as error:
            raise _unavailable(f"{url} cannot be read: {type(error).__name__} {error}") from error
        if named != self.issuer:
            raise _unavailable(f"it calls itself {named!r}, and this server is set up for {self.issuer!r}")
        if self._keys is None or self._metadata is None or self._metadata.jwks_uri != keys:
            self._keys = ProviderKeys(keys)
        names_itself = document.get("authorization_response_iss_parameter_supported") is True
        return ProviderMetadata(login, exchange, keys, ending, names_itself)

    async def _exchange(self, metadata: ProviderMetadata, code: str, attempt: LoginAttempt, redirect_url: str) -> str:
        """The id token for the code, which the provider takes once."""
        body = prepare_token_request(
            "authorization_code", redirect_uri=redirect_url, code=code, code_verifier=attempt.verifier
        )
        method = "none" if self._client_secret is None else "client_secret_basic"
        form = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        client_auth = ClientAuth(self._client_id, self._client_secret, method)
        url, headers, body = client_auth.prepare("POST", metadata.token_endpoint, form, body)
        try:
            async with httpx.AsyncClient(timeout=_PATIENCE) as client:
                answer = (await client.post(url, headers=headers, content=body)).json()
            error = answer.get("error")
        except (httpx.HTTPError, ValueError, AttributeError) as trouble:
            raise _unavailable(f"its token endpoint failed: {type(trouble).__name__}") from trouble
        if error is not None:
            raise NotAuthenticated(
                f"The identity provider refused the code ({str(error)[:200]}): it was used before, has expired, or the "
                f"client's secret is wrong. {_AGAIN}"
            )
        text = answer.get("id_token")
        if not isinstance(text, str):
            raise _unavailable("its answer has no id token")
        return text

    async def _claims(self, text: str, metadata: ProviderMetadata) -> dict[str, Any]:
        """The claims of an id token that the provider signed."""
        keys = self._keys = self._keys or ProviderKeys(metadata.jwks_uri)
        try:
            try:
                return decoded(text, await keys.current())
            except InvalidKeyIdError:
                # The provider may have changed its keys since they were fetched.
                return decoded(text, await keys.newer())
        except UNREADABLE as error:
            why = getattr(error, "description", None) or str(error) or type(error).__name__
            raise NotAuthenticated(f"The id token is not valid: {why.rstrip('.')}. {_AGAIN}") from None

    def _check(self, claims: Mapping[str, Any], attempt: LoginAttempt) -> None:
        """Whether the id token is for this server and this login, and valid now."""
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if claims.get("iss") != self.issuer:
            raise NotAuthenticated(f"The id token is from {claims.get('iss')!r}, not from {self.issuer!r}. {_AGAIN}")
        if self._client_id not in audiences or (len(audiences) > 1 and claims.get("azp") != self._client_id):
            raise NotAuthenticated(f"The id token is for another application: {audience!r}. {_AGAIN}")
        if not hmac.compare_digest(str(claims.get("nonce")).encode(errors="replace"), attempt.nonce.encode()):
            raise NotAuthenticated(f"The id token belongs to another login: its nonce differs. {_AGAIN}")
        now = self._clock()
        expires, issued = (claims.get(name) for name in ("exp", "iat"))
        if not isinstance(expires, int | float) or not isinstance(issued, int | float):
            raise NotAuthenticated(f"The id token does not say when it was issued and expires. {_AGAIN}")
        if expires < now - LEEWAY:
            raise NotAuthenticated(
                f"The id token expired {now - expires:.0f} s ago. If that was just now, the clocks of this server and "
                f"of the identity provider differ. {_AGAIN}"
            )
        if issued > now + LEEWAY:
            raise NotAuthenticated(
                f"The id token was issued {issued - now:.0f} s in the future: the clock of this server is behind that "
                f"of the identity provider. {_AGAIN}"
            )


def configured_login(settings: Settings) -> OIDCLogin | None:
    """The login that ROWLOCK_OIDC_* describes; None: no issuer is set."""
    if settings.oidc_issuer is None:
        return None
    return OIDCLogin(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        client_secret=settings.oidc_client_secret,
        redirect_url=settings.oidc_redirect_url,
        roles=dict(settings.oidc_roles),
        roles_claim=settings.oidc_roles_claim,
        tenant_claim=settings.oidc_tenant_claim,
        subject_claim=settings.oidc_subject_claim,
        scopes=settings.oidc_scopes,
        label=settings.oidc_label,
    )


def _checked_url(url: str, name: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOCAL):
        message = f"{name} must begin with https:// (http:// for this machine only); got {url!r}."
        raise ConfigurationError(message)
    return url


def _unavailable(why: str) -> Problem:
    return Problem(
        "provider-unavailable",
        f"Nobody can log in at the identity provider now: {why}. Try again; API tokens work all the same.",
        headers={"Retry-After": "5"},
    )
