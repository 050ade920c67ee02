"""Settings: read from ROWLOCK_* variables or given to Rowlock(...), and checked once."""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self, cast

from rowlock.errors import ConfigurationError, InvalidOption
from rowlock.model.lane import Lane
from rowlock.model.progress import log_level
from rowlock.model.rate import Rate
from rowlock.model.retention import rules_from_text
from rowlock.model.size import size
from rowlock.model.spelling.renamed import RENAMED_LANE_FIELDS, current_names
from rowlock.model.times.duration import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_ON = frozenset({"1", "on", "true", "yes"})
_OFF = frozenset({"0", "off", "false", "no"})
_LANE = re.compile(r"[\w.*-]+")
_TOKEN = re.compile(r"[A-Za-z0-9._~+-]{16,200}")
_LONGEST_VERSION = 100
_LONGEST_INSTANCE = 40
INSTANCE_COLOURS = ("grey", "blue", "green", "amber", "red", "purple")
"""Names, not codes: each is readable in both themes of the dashboard."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of an application. Sizes are in bytes."""

    database_url: str | None = field(default=None, repr=False)
    """None: the embedded PostgreSQL in data_dir."""
    direct_url: str | None = field(default=None, repr=False)
    """Connection for LISTEN and locks, where database_url leads through a transaction pooler."""
    replica_url: str | None = field(default=None, repr=False)
    """Streaming replica on which the desk's searches and statistics are read. None: on the primary."""
    replica_lag: timedelta = timedelta(seconds=10)
    """A replica that is further behind is not read until it has caught up."""
    schema: str = "rowlock"
    data_dir: str = ".rowlock"
    worker: bool = True
    """False: app.worker() and app.start_worker() do nothing."""
    listen: bool = True
    """False: polling only."""
    pooled: bool = False
    """True: database_url leads through PgBouncer in transaction mode; no prepared statements, no session settings."""
    lanes: tuple[Lane, ...] = ()
    """Lanes that a starting worker creates if they are absent."""
    args_limit: int = 1_000_000
    result_limit: int = 1_000_000
    shutdown_after: timedelta = timedelta(seconds=25)
    stop_patience: timedelta = timedelta(seconds=10)
    """Time for a cancelled handler to end. Then its slot counts as stuck, or its child process is killed."""
    lag_limit: timedelta = timedelta(seconds=1)
    """A worker logs that its event loop is blocked after this time."""
    blocked_limit: timedelta | None = timedelta(seconds=60)
    """A supervised worker process whose event loop is blocked for this long is replaced. None: never."""
    processes: int = 0
    """Worker processes that `rowlock worker` starts under a supervisor; 0: it is the worker itself."""
    max_jobs: int | None = None
    """Jobs after which a worker process is replaced."""
    max_memory: int | None = None
    """Resident bytes above which a worker process is replaced."""
    max_stuck: int | None = 5
    """Stuck slots, held by handlers that do not stop when cancelled, at which a worker process is replaced."""
    max_losses: int = 3
    child_jobs: int = 100
    """Jobs after which a child process is replaced."""
    child_memory: int | None = None
    """Resident bytes above which an idle child process is replaced."""
    retention: tuple[tuple[str, timedelta], ...] = ()
    """Pairs of a final state, or *, and how long such jobs of all kinds are kept. None given: 7 days for all."""
    audit_keep: timedelta | None = timedelta(days=365)
    """Retention of audit entries. None: for ever."""
    job_logs: int = 20
    """Lowest level of log records that are stored with their job: 20 is INFO; 1000 stores none."""

    webhook_networks: tuple[str, ...] = ()
    """Private networks that webhooks may be sent to, such as 10.0.0.0/8; public addresses always may."""
    webhook_http: bool = False
    """True: webhooks may be sent over http, too."""
    app_version: str | None = None
    """Version of the application, which workers register under. None: that of Rowlock."""
    instance: str | None = None
    """Name of this installation, such as production: shown in the dashboard's top bar and titles."""
    instance_colour: str = "grey"
    """One of INSTANCE_COLOURS: what the name is shown on."""
    serve_token: str | None = None
    """Token of a server without authentication. None: every start makes one and prints it."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and CIDR networks of proxies whose X-Forwarded-For and X-Forwarded-Proto count."""
    require_if_match: bool = True
    """False: a change of a lane, schedule or job over REST needs no If-Match; one that is sent counts all the same."""
    allow_origins: tuple[str, ...] = ()
    """Origins whose pages may use embed tokens, such as https://app.example.com."""
    oidc_issuer: str | None = None
    """Identity provider at which people log in, such as https://id.example.com/realms/acme. None: none."""
    oidc_client_id: str = "rowlock"
    """Name under which the identity provider knows the server."""
    oidc_client_secret: str | None = field(default=None, repr=False)
    """None: a public client, protected by PKCE alone."""
    oidc_redirect_url: str | None = None
    """Address of /auth/callback as the identity provider knows it. None: by the Host header of the request."""
    oidc_roles: tuple[tuple[str, str], ...] = ()
    """Pairs: a role of the identity provider, and the role of Rowlock that it stands for."""
    oidc_roles_claim: str = "roles"
    oidc_tenant_claim: str | None = None
    oidc_subject_claim: str = "sub"
    oidc_scopes: tuple[str, ...] = ("openid", "profile", "email")
    oidc_label: str = "Single sign-on"
    """Text of the login button."""
    serve_header_timeout: timedelta = timedelta(seconds=10)
    """Time in which the request line and headers must come."""
    serve_body_timeout: timedelta = timedelta(seconds=30)
    """Time in which the body must come."""
    serve_idle_timeout: timedelta = timedelta(seconds=15)
    """Time after which a connection without a request is closed."""
    serve_send_timeout: timedelta = timedelta(seconds=60)
    """Time after which a client that does not read its answer is disconnected."""
    serve_connections: int = 800
    """Open connections of one server."""
    serve_connections_per_address: int = 250
    """Open connections of one address; trusted proxies are exempt."""
    serve_streams: int = 400
    """Open streams of one server, and as many with embed tokens."""
    serve_streams_per_caller: int = 50
    """Open streams of one principal and token, or of one embed token."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read the ROWLOCK_* variables; unset ones keep their default."""
        read = cls()
        for name, (attribute, parse) in _VARIABLES.items():
            text = environ.get(name, "").strip()
            if text:
                try:
                    read = replace(read, **{attribute: cast("Any", parse(text))})
                except (ValueError, InvalidOption) as error:
                    message = f"{name} cannot be read: {error} (it is {text!r})"
                    raise ConfigurationError(message) from error
        return read


def _flag(text: str) -> bool:
    if text.lower() in _ON | _OFF:
        return text.lower() in _ON
    message = "expected on or off"
    raise ValueError(message)


def _bytes(text: str) -> int:
    size = int(text)
    if size <= 0:
        message = "expected a positive number of bytes"
        raise ValueError(message)
    return size


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        message = "expected a number, 0 or more"
        raise ValueError(message)
    return number


def _positive(text: str) -> int:
    number = int(text)
    if number <= 0:
        message = "expected a number, 1 or more"
        raise ValueError(message)
    return number


def _app_version(text: str) -> str:
    if not text.isprintable() or len(text) > _LONGEST_VERSION:
        message = f"expected at most {_LONGEST_VERSION} printable characters, such as 2026.11.3 or a commit"
        raise ValueError(message)
    return text


def _instance(text: str) -> str:
    if not text.isprintable() or len(text) > _LONGEST_INSTANCE:
        message = f"expected at most {_LONGEST_INSTANCE} printable characters, such as production"
        raise ValueError(message)
    return text


def _instance_colour(text: str) -> str:
    if text.lower() not in INSTANCE_COLOURS:
        message = f"expected one of {', '.join(INSTANCE_COLOURS)}"
        raise ValueError(message)
    return text.lower()


def _serve_token(text: str) -> str:
    if not _TOKEN.fullmatch(text):
        message = "expected 16 to 200 letters, digits and . _ ~ + -, from a random generator"
        # The value itself must not appear in the error.
        raise ConfigurationError(f"ROWLOCK_SERVE_TOKEN cannot be read: {message}.")
    return text


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def role_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Roles of an identity provider and what they stand for here: admins=platform_admin,staff=operator."""
    pairs = [part.rpartition("=") for part in _listed(text)]
    if any(not theirs or not ours for theirs, _, ours in pairs):
        message = "expected role=role pairs such as admins=platform_admin,staff=operator"
        raise ValueError(message)
    return tuple((theirs.strip(), ours.strip()) for theirs, _, ours in pairs)


def _networks(text: str) -> tuple[str, ...]:
    networks = tuple(part.strip() for part in text.split(",") if part.strip())
    for each in networks:
        ipaddress.ip_network(each)
    return networks


def _timeout_of(name: str) -> Callable[[str], timedelta]:
    def parse(text: str) -> timedelta:
        found = duration(text, name=name)
        if not found:
            message = "expected a time above 0"
            raise ValueError(message)
        return found

    return parse


def _limit_of(parse: Callable[[str], object]) -> Callable[[str], object]:
    """A parser that reads off or 0 as None, which means no limit, and everything else with `parse`."""
    return lambda text: None if text.lower() in _OFF else parse(text)


def lanes_from_text(text: str) -> tuple[Lane, ...]:
    """Read lanes as `name:kinds=a|b,slots=2;other:slots=1` or as a JSON list of objects."""
    entries = json.loads(text) if text.startswith("[") else [_entry(part) for part in text.split(";") if part.strip()]
    return tuple(_lane(entry) for entry in entries)


def _entry(part: str) -> dict[str, object]:
    name, _, rest = part.strip().partition(":")
    entry: dict[str, object] = {"name": name}
    for pair in filter(None, (p.strip() for p in rest.split(","))):
        key, equals, value = pair.partition("=")
        if not equals:
            message = f"expected key=value in lane {name!r}, got {pair!r}"
            raise ValueError(message)
        entry[key.strip()] = value.strip()
    return entry


def _lane(entry: object) -> Lane:
    if not isinstance(entry, dict) or not _LANE.fullmatch(str(entry.get("name", ""))):
        message = f"expected a lane with a name of letters, digits, . _ and -, got {entry!r}"
        raise ValueError(message)
    values: dict[str, object] = {}
    for key, value in current_names(entry, RENAMED_LANE_FIELDS).items():
        if key not in _LANE_FIELDS:
            message = f"lane {entry['name']!r} has no setting {key!r}; known are {', '.join(sorted(_LANE_FIELDS))}"
            raise ValueError(message)
        values[key] = _LANE_FIELDS[key](value)
    return Lane(**values)  # type: ignore[arg-type]  # each parser below fits its field


def _kinds(value: object) -> tuple[str, ...]:
    parts = value.split("|") if isinstance(value, str) else cast("list[object]", value)
    return tuple(str(part).strip() for part in parts if str(part).strip())


def _order(value: object) -> str:
    if value not in ("fast", "strict", "fair"):
        message = f"expected order fast, strict or fair, got {value!r}"
        raise ValueError(message)
    return str(value)


def _interval(value: object) -> timedelta:
    return duration(cast("str | float", value), name="interval")


_LANE_FIELDS: dict[str, Callable[[object], object]] = {
    "name": str,
    "kinds": _kinds,
    "slots": lambda value: int(str(value)),
    "max_total": lambda value: int(str(value)),
    "order": _order,
    "poll_interval": _interval,
    "heartbeat_timeout": _interval,
    "progress_timeout": _interval,
    "rate": lambda value: Rate.parse(str(value)),
    "aging_interval": _interval,
}

_VARIABLES: dict[str, tuple[str, Callable[[str], object]]] = {
    "ROWLOCK_DATABASE_URL": ("database_url", str),
    "ROWLOCK_DIRECT_URL": ("direct_url", str),
    "ROWLOCK_REPLICA_URL": ("replica_url", str),
    "ROWLOCK_REPLICA_LAG": ("replica_lag", lambda text: duration(text, name="ROWLOCK_REPLICA_LAG")),
    "ROWLOCK_SCHEMA": ("schema", str),
    "ROWLOCK_DATA_DIR": ("data_dir", str),
    "ROWLOCK_WORKER": ("worker", _flag),
    "ROWLOCK_LISTEN": ("listen", _flag),
    "ROWLOCK_POOLED": ("pooled", _flag),
    "ROWLOCK_LANES": ("lanes", lanes_from_text),
    "ROWLOCK_ARGS_LIMIT": ("args_limit", _bytes),
    "ROWLOCK_RESULT_LIMIT": ("result_limit", _bytes),
    "ROWLOCK_SHUTDOWN_AFTER": ("shutdown_after", lambda text: duration(text, name="ROWLOCK_SHUTDOWN_AFTER")),
    "ROWLOCK_STOP_PATIENCE": ("stop_patience", lambda text: duration(text, name="ROWLOCK_STOP_PATIENCE")),
    "ROWLOCK_CHILD_JOBS": ("child_jobs", _bytes),
    "ROWLOCK_CHILD_MEMORY": ("child_memory", lambda text: size(text, "ROWLOCK_CHILD_MEMORY")),
    "ROWLOCK_LAG_LIMIT": ("lag_limit", lambda text: duration(text, name="ROWLOCK_LAG_LIMIT")),
    "ROWLOCK_BLOCKED_LIMIT": ("blocked_limit", _limit_of(lambda text: duration(text, name="ROWLOCK_BLOCKED_LIMIT"))),
    "ROWLOCK_PROCESSES": ("processes", _count),
    "ROWLOCK_MAX_JOBS": ("max_jobs", _limit_of(_count)),
    "ROWLOCK_MAX_MEMORY": ("max_memory", _limit_of(lambda text: size(text, "ROWLOCK_MAX_MEMORY"))),
    "ROWLOCK_MAX_STUCK": ("max_stuck", _limit_of(_count)),
    "ROWLOCK_RETENTION": ("retention", rules_from_text),
    "ROWLOCK_AUDIT_KEEP": ("audit_keep", _limit_of(lambda text: duration(text, name="ROWLOCK_AUDIT_KEEP"))),
    "ROWLOCK_WEBHOOK_NETWORKS": ("webhook_networks", _networks),
    "ROWLOCK_WEBHOOK_HTTP": ("webhook_http", _flag),
    "ROWLOCK_APP_VERSION": ("app_version", _app_version),
    "ROWLOCK_INSTANCE": ("instance", _instance),
    "ROWLOCK_INSTANCE_COLOUR": ("instance_colour", _instance_colour),
    "ROWLOCK_SERVE_TOKEN": ("serve_token", _serve_token),
    "ROWLOCK_TRUSTED_PROXIES": ("trusted_proxies", _networks),
    "ROWLOCK_REQUIRE_IF_MATCH": ("require_if_match", _flag),
    "ROWLOCK_ALLOW_ORIGINS": ("allow_origins", _listed),
    "ROWLOCK_OIDC_ISSUER": ("oidc_issuer", str),
    "ROWLOCK_OIDC_CLIENT_ID": ("oidc_client_id", str),
    "ROWLOCK_OIDC_CLIENT_SECRET": ("oidc_client_secret", str),
    "ROWLOCK_OIDC_REDIRECT_URL": ("oidc_redirect_url", str),
    "ROWLOCK_OIDC_ROLES": ("oidc_roles", role_pairs),
    "ROWLOCK_OIDC_ROLES_CLAIM": ("oidc_roles_claim", str),
    "ROWLOCK_OIDC_TENANT_CLAIM": ("oidc_tenant_claim", str),
    "ROWLOCK_OIDC_SUBJECT_CLAIM": ("oidc_subject_claim", str),
    "ROWLOCK_OIDC_SCOPES": ("oidc_scopes", _listed),
    "ROWLOCK_OIDC_LABEL": ("oidc_label", str),
    "ROWLOCK_SERVE_HEADER_TIMEOUT": ("serve_header_timeout", _timeout_of("ROWLOCK_SERVE_HEADER_TIMEOUT")),
    "ROWLOCK_SERVE_BODY_TIMEOUT": ("serve_body_timeout", _timeout_of("ROWLOCK_SERVE_BODY_TIMEOUT")),
    "ROWLOCK_SERVE_IDLE_TIMEOUT": ("serve_idle_timeout", _timeout_of("ROWLOCK_SERVE_IDLE_TIMEOUT")),
    "ROWLOCK_SERVE_SEND_TIMEOUT": ("serve_send_timeout", _timeout_of("ROWLOCK_SERVE_SEND_TIMEOUT")),
    "ROWLOCK_SERVE_CONNECTIONS": ("serve_connections", _positive),
    "ROWLOCK_SERVE_CONNECTIONS_PER_ADDRESS": ("serve_connections_per_address", _positive),
    "ROWLOCK_SERVE_STREAMS": ("serve_streams", _positive),
    "ROWLOCK_SERVE_STREAMS_PER_CALLER": ("serve_streams_per_caller", _positive),
    "ROWLOCK_JOB_LOGS": ("job_logs", lambda text: log_level(text, "ROWLOCK_JOB_LOGS")),
}
