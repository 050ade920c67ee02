"""The factory: which queue carries the jobs, and where the other services are. The environment decides."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

from arq.connections import RedisSettings
from cryptography.fernet import Fernet, MultiFernet

from examples.docverse.services import Services, services_at
from rowlock.delivery.arq import ArqDelivery
from rowlock.delivery.inline import InlineDelivery
from rowlock.delivery.postgres import PostgresDelivery

if TYPE_CHECKING:
    from rowlock.delivery.backend import Delivery


def queue_backend() -> Delivery:
    """The QueueBackend. QUEUE_BACKEND: arq (with REDIS_URL), inline (in process), or postgres."""
    match os.environ.get("QUEUE_BACKEND", "postgres"):
        case "arq":
            redis = RedisSettings.from_dsn(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"))
            return ArqDelivery(redis, redeliver_after=os.environ.get("REDELIVER_AFTER", "60s"))
        case "inline":
            return InlineDelivery()
        case "postgres":
            return PostgresDelivery()
        case other:
            message = f"QUEUE_BACKEND is arq, inline or postgres; got {other!r}."
            raise ValueError(message)


@functools.cache
def services() -> Services:
    """Object store, CDN and GitHub."""
    return services_at(os.environ.get("SERVICES_URL", "http://127.0.0.1:8104"))


def credential_keys() -> MultiFernet:
    """The keys of stored credentials, the primary one first: CREDENTIAL_KEYS, separated by commas."""
    keys = os.environ.get("CREDENTIAL_KEYS", "")
    return MultiFernet([Fernet(key) for key in keys.split(",") if key] or [Fernet(Fernet.generate_key())])
