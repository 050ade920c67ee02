"""Match: does a stored job look like the one a test expects, and if not, how do they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError
from typing_extensions import override

from rowlock.errors import InvalidArguments, InvalidOption
from rowlock.flow.kinds.signature import EMPTY
from rowlock.model.job import Job
from rowlock.model.lane import DEFAULT_LANE
from rowlock.model.spelling.similar_names import closest
from rowlock.model.times.duration import duration, humanise
from rowlock.store.rows import jobs as rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.flow.kinds.handler import Handler
    from rowlock.model.options import Span
    from rowlock.store.rows.jobs import Row

_TOLERANCE: Final = timedelta(seconds=1)
_SHOWN: Final = 10
"""Jobs listed in a failure."""
_ALIASES: Final = {"run_at": "run_after", "gate": "gate_key"}
_OPTIONS: Final = frozenset(field.name for field in fields(Job)) | {"run_in", *_ALIASES}


class near:  # noqa: N801 - reads like a value: options={"run_at": near("1h")}
    """Equals every moment that is at most `within` away: from a moment, or from so long after now."""

    def __init__(self, moment: datetime | Span, within: Span = "5s") -> None:
        self._within = duration(within, "within")
        self._moment = moment if isinstance(moment, datetime) else datetime.now(UTC) + duration(moment, "near")

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, datetime) and abs(other - self._moment) <= self._within

    @override
    def __hash__(self) -> int:
        return hash((self._moment, self._within))

    @override
    def __repr__(self) -> str:
        return f"within {humanise(self._within)} of {self._moment:%Y-%m-%d %H:%M:%S%z}"


@dataclass(frozen=True, slots=True)
class EnqueuedJob:
    """A stored job, its arguments as the handler would get them (defaults filled in)."""

    job: Job
    args: Mapping[str, object]

    @classmethod
    def of(cls, row: Row, handler: Handler) -> EnqueuedJob:
        """Read one row."""
        job = rows.job_of(row)
        defaults = {
            n: item.default for n, item in handler.codec.signature.arguments.items() if item.default is not EMPTY
        }
        try:
            decoded = handler.codec.decode(row["args"])
        except InvalidArguments:
            # Written by an older or newer handler; what is stored can still be compared.
            decoded = dict(job.args)
        return cls(job, defaults | decoded)


class Expectation:
    """Arguments and options a test expects of a job of one kind; what it does not name may be anything."""

    def __init__(self, handler: Handler, args: Mapping[str, object], options: Mapping[str, object]) -> None:
        self._handler, self._args, self._options = handler, args, options
        known = handler.codec.signature.arguments
        for name in args:
            if name not in known:
                call = f"{handler.name}{handler.codec.signature.text}"
                raise InvalidArguments(f"There is no argument {name!r} in {call}.{_did_you_mean(name, known)}")
        for name in options:
            if name not in _OPTIONS:
                raise InvalidOption(f"A job has no option {name!r} to look at.{_did_you_mean(name, _OPTIONS)}")

    @override
    def __str__(self) -> str:
        parts = [f"{name}={value!r}" for name, value in (*self._args.items(), *self._options.items())]
        return f"{self._handler.name} job" + (f" with {', '.join(parts)}" if parts else "")

    def differences(self, found: EnqueuedJob) -> list[str]:
        """One line per expectation that is not met."""
        lines = []
        for name, expected in self._args.items():
            if name not in found.args:
                lines.append(f"{name}: expected {expected!r}, got nothing")
            elif not self._fits(name, expected, found.args[name]):
                lines.append(f"{name}: expected {expected!r}, got {found.args[name]!r}")
        for name, expected in self._options.items():
            actual = self._option(name, found.job)
            if not _option_fits(name, expected, actual):
                lines.append(f"{name}: expected {expected!r}, got {actual!r}")
        return lines

    def _fits(self, name: str, expected: Any, actual: object) -> bool:  # noqa: ANN401 - values, matchers and predicates
        if _fits(expected, actual):
            return True
        annotation = self._handler.codec.signature.arguments[name].annotation
        try:
            # As enqueue() would read it: "…" for a UUID, a dict for a model, a text for a secret.
            return bool(TypeAdapter[Any](annotation).validate_python(expected) == actual)
        except ValidationError:
            return False

    def _option(self, name: str, job: Job) -> object:
        if name == "run_in":
            return job.run_after - job.created_at
        if name == "lane":
            return job.lane or self._handler.kind.lane or DEFAULT_LANE.name
        if name == "unique_key" and job.unique_key is not None:
            return job.unique_key.partition(":")[2]
        return getattr(job, _ALIASES.get(name, name))


def _option_fits(name: str, expected: Any, actual: object) -> bool:  # noqa: ANN401 - values, matchers and predicates
    if name == "run_in" and isinstance(actual, timedelta) and isinstance(expected, (str, int, float, timedelta)):
        return abs(actual - duration(expected, "run_in")) <= _TOLERANCE
    if name in ("refs", "meta") and isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return all(key in actual and _fits(value, actual[key]) for key, value in expected.items())
    if name == "tags" and isinstance(expected, (list, tuple, set)) and isinstance(actual, (list, tuple)):
        return set(expected) <= set(actual)
    return _fits(expected, actual)


def _fits(expected: Any, actual: object) -> bool:  # noqa: ANN401 - values, matchers and predicates
    if bool(expected == actual):
        return True
    if isinstance(expected, type):
        return isinstance(actual, expected)
    return isinstance(expected, Callable) and bool(expected(actual))  # type: ignore[arg-type]  # collections.abc.Callable


def failure(expectation: Expectation, wanted: str, found: Sequence[EnqueuedJob], others: Mapping[str, int]) -> str:
    """The message of a failed assertion: the expectation, the nearest job with its differences, and the other jobs."""
    lines = [wanted]
    judged = sorted(((expectation.differences(one), one) for one in found), key=lambda pair: len(pair[0]))
    missed = [pair for pair in judged if pair[0]]
    if missed and len(missed) == len(judged):
        differences, nearest = missed[0]
        lines.append(f"Nearest, {nearest.job.public_id}:")
        lines += [f"    {line}" for line in differences]
    if found:
        lines.append("Jobs of this kind:")
        lines += [f"    {_shown(one.job)}" for one in found[:_SHOWN]]
        lines += [f"    … and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    else:
        lines.append("There is no job of this kind. One enqueued in a transaction is seen after its commit.")
    if others:
        lines.append("Jobs of other kinds: " + ", ".join(f"{kind} {n}" for kind, n in sorted(others.items())))
    return "\n".join(lines)


def _shown(job: Job) -> str:
    args = ", ".join(f"{name}={value!r}" for name, value in job.args.items())
    wait = job.run_after - datetime.now(UTC)
    due = f" in {humanise(wait)}" if not job.is_final and wait > _TOLERANCE else ""
    return f"{job.public_id}  {job.state}{due}  {args}"


def _did_you_mean(name: str, known: Mapping[str, object] | frozenset[str]) -> str:
    near_names = closest(name, sorted(known), n=1)
    hint = f" Did you mean {near_names[0]!r}?" if near_names else ""
    return f"{hint} There are {', '.join(sorted(known)) or 'none'}."
