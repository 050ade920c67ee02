"""Webhook: an endpoint of another system that is sent a signed message when a job reaches a state."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import SplitResult, urlsplit

from rowlock.errors import InvalidOption
from rowlock.model.state import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from rowlock.model.job import Job

KIND: Final = "rowlock.webhook"
"""The kind of deliveries. Applications cannot declare it."""
LANE: Final = "webhooks"
"""The lane of deliveries, made with the first webhook."""
STATES: Final = (State.PENDING, *(state for state in State if state.is_final))
"""States that a webhook can ask for. The others are passed through many times, and are followed with a stream."""
INCLUDES: Final = ("args", "result", "errors", "meta")
"""Parts of a job that are sent only if the webhook asks for them."""
STREAK: Final = 10
"""Deliveries given up in a row after which a webhook is disabled."""
AT_ONCE: Final = 4
"""Deliveries of one webhook that run at once, over all workers: the limit of its gate when it is made."""
OVERLAP: Final = timedelta(days=1)
"""How long the old secret signs as well after a rotation."""
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - the prefix, not a secret
TEST_EVENT: Final = "webhook.test"
_LONGEST_URL: Final = 2000
_LONGEST_KIND: Final = 200
_LONGEST_DESCRIPTION: Final = 500
_MOST_KINDS: Final = 100

Include = Literal["args", "result", "errors", "meta"]
Health = Literal["new", "healthy", "failing", "disabled"]


@dataclass(frozen=True, slots=True)
class Webhook:
    """An endpoint as it may be shown: without its secrets."""

    id: int
    url: str
    kinds: tuple[str, ...]
    """Names of kinds, or their beginning and a *."""
    states: tuple[State, ...]
    tenant: str | None
    """Only jobs of this tenant; None: jobs of all."""
    include: tuple[Include, ...]
    description: str | None
    enabled: bool
    disabled_reason: str | None
    """Why deliveries disabled it; None: a person did, or it is enabled."""
    version: int
    created_at: datetime
    created_by: str | None
    updated_at: datetime
    delivered_at: datetime | None
    """When a delivery was last accepted, to ten seconds."""
    failed_at: datetime | None
    """When an attempt last failed."""
    last_error: str | None
    failures: int
    """Attempts that failed in a row."""
    given_up: int
    """Deliveries given up in a row; STREAK of them disable the webhook."""

    @property
    def health(self) -> Health:
        """Disabled, failing (the last attempt failed), healthy, or new (nothing was sent yet)."""
        if not self.enabled:
            return "disabled"
        if self.failures:
            return "failing"
        return "healthy" if self.delivered_at is not None else "new"


@dataclass(frozen=True, slots=True)
class NewWebhook:
    """A webhook with a secret that was just made. secret: shown once; it is what receivers verify with."""

    webhook: Webhook
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """A delivery: the job that sends one message to one endpoint."""

    job: Job
    webhook_id: int
    event: str
    about: str | None
    """Public id of the job that it tells of; None: a test."""
    status: int | None
    """Status of the answer that accepted it; None: none has yet."""
    error: str | None


def event_name(state: str | None) -> str:
    """The type of the message: job.completed, or webhook.test without a state."""
    return TEST_EVENT if state is None else f"job.{state}"


def secret_text(secret: bytes) -> str:
    """A secret as receivers take it: whsec_ and base64."""
    return SECRET_PREFIX + base64.b64encode(secret).decode()


def parse_secret(text: str) -> bytes:
    """The bytes of a whsec_ text; InvalidOption never quotes it."""
    try:
        found = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if not text.startswith(SECRET_PREFIX) or not 24 <= len(found) <= 64:  # noqa: PLR2004 - the range of Standard Webhooks
        message = "A webhook's secret is whsec_ and 24 to 64 random bytes in base64; leave it out to have one made."
        raise InvalidOption(message)
    return found


def signature(secrets: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The header webhook-signature of Standard Webhooks: one v1 signature per secret, separated by spaces."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digests = (hmac.new(secret, signed, hashlib.sha256).digest() for secret in secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def split_url(url: str) -> SplitResult:
    """The parts of an endpoint's URL; InvalidOption says what an endpoint may be."""
    parts = None
    if isinstance(url, str) and 0 < len(url) <= _LONGEST_URL and url.isascii() and url.isprintable() and " " not in url:
        try:
            parts = urlsplit(url)
            fits = parts.scheme in ("https", "http") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            fits = False
        if fits and parts is not None and parts.username is None and not parts.fragment and "\\" not in url:
            return parts
    message = (
        f"An endpoint is a URL such as https://example.com/hooks, of at most {_LONGEST_URL} ASCII characters, without "
        f"a user name or fragment; got {str(url)[:200]!r}."
    )
    raise InvalidOption(message)


def checked_kinds(kinds: Iterable[str]) -> list[str]:
    """Patterns of kinds: names, or their beginning and a *; at least one."""
    found = [kinds] if isinstance(kinds, str) else list(dict.fromkeys(kinds))
    for one in found:
        if not one or len(one) > _LONGEST_KIND or "*" in one[:-1] or not one.isprintable():
            message = f"A kind is a name, or its beginning and a *, as in report.*; got {one[:_LONGEST_KIND]!r}."
            raise InvalidOption(message)
    if not 1 <= len(found) <= _MOST_KINDS:
        message = f"A webhook names 1 to {_MOST_KINDS} kinds, or * for all; got {len(found)}."
        raise InvalidOption(message)
    return found


def checked_states(states: Iterable[str]) -> list[str]:
    """States of STATES, at least one, in the order of a job's life."""
    asked = {states} if isinstance(states, str) else set(states)
    unknown = sorted(asked.difference(STATES))
    if unknown or not asked:
        got = ", ".join(unknown) or "none"
        message = f"A webhook asks for one or more of the states {', '.join(STATES)}; got {got}."
        raise InvalidOption(message)
    return [state for state in STATES if state in asked]


def checked_include(include: Iterable[str]) -> list[str]:
    """Parts of INCLUDES, in that order."""
    asked = {include} if isinstance(include, str) else set(include)
    unknown = sorted(asked.difference(INCLUDES))
    if unknown:
        message = f"A webhook can include {', '.join(INCLUDES)}; got {', '.join(unknown)}."
        raise InvalidOption(message)
    return [part for part in INCLUDES if part in asked]


def checked_description(description: str) -> str:
    """A line about the endpoint."""
    if len(description) > _LONGEST_DESCRIPTION or not description.isprintable():
        message = f"A description has at most {_LONGEST_DESCRIPTION} printable characters."
        raise InvalidOption(message)
    return description
