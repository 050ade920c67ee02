"""Kind: the stable name of what to do, and the defaults of its jobs, which a call may override."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from rowlock.errors import ConfigurationError
from rowlock.model.approval import Approval
from rowlock.model.keys import is_key, shown
from rowlock.model.rate import Rate, checked_weight, rates_of
from rowlock.model.retry import Retry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rowlock.model.hook import Hook
    from rowlock.model.rate import Rated

OnWorkerLost = Literal["retry", "fail", "hold"]
Executor = Literal["loop", "thread", "process"]
"""Where a handler runs: coroutines on the loop, functions in a thread, either of them in a child process on request."""
UnknownArgs = Literal["refuse", "ignore"]
"""Stored arguments that the code does not know: refuse (leave the job to another worker) or ignore them."""
Scope = Literal["live", "waiting"]
OnConflict = Literal["reject", "keep", "replace", "debounce"]
_MOST_PLACES: Final = 1_000_000_000
# A colon separates kind and key in a unique key, so a kind has none.
_NAME: Final = re.compile(r"[A-Za-z_][\w.\-/]{0,199}")


@dataclass(frozen=True, slots=True)
class Gate:
    """A concurrency key with a limit: at most `limit` jobs of the key run at once, over all workers."""

    key: str
    """A text of 1 to 1000 bytes; jobs with the same key share the gate."""
    limit: int = 1
    """Jobs that may run at once; 0 stops the key."""
    fifo: bool = False
    """Whether jobs of the key start strictly in order."""

    def __post_init__(self) -> None:
        whole = isinstance(self.limit, int) and not isinstance(self.limit, bool) and 0 <= self.limit <= _MOST_PLACES
        if not is_key(self.key) or self.key.startswith("lane:") or not whole:
            message = (
                "A gate needs a key (a text of 1 to 1000 bytes, not starting with 'lane:') and a limit from 0 to "
                f"{_MOST_PLACES:,}, got {shown(self.key)} and {shown(self.limit)}."
            )
            raise ConfigurationError(message)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind as the decorator declares it."""

    name: str
    lane: str | None = None
    priority: int = 0
    retry: Retry = field(default_factory=Retry)
    timeout: timedelta | None = None
    executor: Executor = "loop"
    memory: int | None = None
    """Bytes a child process may use for one job; None: no limit."""
    expires_in: timedelta | None = None
    max_age: timedelta | None = None
    on_worker_lost: OnWorkerLost = "retry"
    approval: bool | Approval = False
    gate: Gate | Callable[..., Gate | str] | str | None = None
    refs: Callable[..., Mapping[str, object]] | None = None
    retention: Mapping[str, timedelta] | None = None
    """State (or '*') to how long a finished job stays."""
    hooks: Mapping[str, Hook] = field(default_factory=dict)
    """By event: on_success, on_failure, on_exhausted."""
    version: int = 1
    """The version of its arguments; stored with each job when it is above 1."""
    unknown_args: UnknownArgs = "refuse"
    aliases: tuple[str, ...] = ()
    """Earlier names, the oldest first."""
    rate: Rated | Callable[..., Rated] | None = None
    """How often its jobs may start, or a function of the arguments that returns it."""
    weight: int = 1
    """How much of its rates one job uses."""
    fair: bool = False
    """Whether its jobs are kept apart by tenant, so that a fair lane can serve tenants in turn."""
    logs: int | None = None
    """The level from which log records of its jobs are stored with them; None: the worker's setting."""

    def __post_init__(self) -> None:
        if not isinstance(self.version, int) or self.version < 1:
            message = f"{self.name}: version counts the shapes of the arguments from 1 on; got {self.version!r}."
            raise ConfigurationError(message)
        if self.unknown_args not in ("refuse", "ignore"):
            message = f'{self.name}: unknown_args must be "refuse" or "ignore"; got {self.unknown_args!r}.'
            raise ConfigurationError(message)
        if isinstance(self.aliases, str):
            message = f"{self.name}: aliases is a sequence of names; write aliases=({self.aliases!r},)."
            raise ConfigurationError(message)
        if self.rate is not None and not callable(self.rate):
            checked_weight(self.weight, rates_of(self.rate, {}, self.name))
        object.__setattr__(self, "aliases", tuple(map(checked_name, self.aliases)))
        if self.name in self.aliases or len(set(self.aliases)) < len(self.aliases):
            message = f"{self.name}: aliases are the names it had before, each once; got {', '.join(self.aliases)}."
            raise ConfigurationError(message)

    @property
    def scope(self) -> str:
        """The name under which its keys are unique: its first one, shared by code before and after a rename."""
        return self.aliases[0] if self.aliases else self.name

    @property
    def own_approval(self) -> bool:
        """Whether submitters may approve their own jobs: the kind says four_eyes=False."""
        return isinstance(self.approval, Approval) and self.approval.four_eyes is False

    def defaults(self) -> dict[str, object] | None:
        """What a process without the code needs to submit jobs of the kind; None: only the code can do it."""
        if self.refs is not None or callable(self.gate) or callable(self.rate):
            return None
        gate = Gate(self.gate) if isinstance(self.gate, str) else self.gate
        return {
            "priority": self.priority,
            "max_attempts": self.retry.attempts,
            "expires_in": None if self.expires_in is None else self.expires_in.total_seconds(),
            "max_age": None if self.max_age is None else self.max_age.total_seconds(),
            "approval": self.approval if isinstance(self.approval, bool) else self.approval.stored,
            "gate": None if gate is None else [gate.key, gate.limit, gate.fifo],
            "version": self.version,
            "scope": self.scope,
            **self._limits(),
        }

    def _limits(self) -> dict[str, object]:
        if self.rate is None and not self.fair:
            return {}
        rates = rates_of(self.rate, {}, self.scope)
        return {
            "rates": [json.loads(rate.stored) | {"key": rate.key} for rate in rates],
            "weight": self.weight,
            "fair": self.fair,
        }

    @classmethod
    def from_defaults(cls, name: str, defaults: Mapping[str, Any]) -> Kind:
        """The kind as far as defaults() describes it."""
        return cls(
            name,
            priority=defaults["priority"],
            retry=Retry(attempts=defaults["max_attempts"]),
            expires_in=_seconds(defaults["expires_in"]),
            max_age=_seconds(defaults["max_age"]),
            approval=Approval(*defaults["approval"])
            if isinstance(defaults["approval"], list)
            else defaults["approval"],
            gate=None if defaults["gate"] is None else Gate(*defaults["gate"]),
            version=defaults["version"],
            rate=tuple(map(Rate.from_mapping, defaults.get("rates", ()))) or None,
            weight=defaults.get("weight", 1),
            fair=defaults.get("fair", False),
            aliases=() if defaults["scope"] == name else (defaults["scope"],),
        )


def _seconds(value: float | None) -> timedelta | None:
    return None if value is None else timedelta(seconds=value)


def checked_name(name: str) -> str:
    """Return the kind's name if it can be stored and shown."""
    if not _NAME.fullmatch(name):
        message = (
            f"A kind is named with letters, digits, and . _ - / (at most 200, starting with a letter); got {name!r}."
        )
        raise ConfigurationError(message)
    return name
