"""Upgrades: bring arguments that older code stored to the version this code reads, one version at a time."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from rowlock.errors import ConfigurationError, UnreadableArguments

Upgrade: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns the arguments of one version into those of the next: JSON values by name; secrets as text, bytes as bytes."""
U = TypeVar("U", bound=Upgrade)


class Upgrades:
    """The present version of a kind's arguments, and the functions that upgrade older ones."""

    __slots__ = ("_kind", "_steps", "version")

    def __init__(self, kind: str, version: int) -> None:
        self._kind, self.version = kind, version
        self._steps: dict[int, Upgrade] = {}

    def add(self, from_version: int, function: U) -> U:
        """Add the function that upgrades from this version to the next."""
        if not 1 <= from_version < self.version:
            message = (
                f"{self._kind}: its arguments have version {self.version}, so an upgrade starts from 1 to "
                f"{self.version - 1}; got from_version={from_version}. Raise version= of the job first."
            )
            raise ConfigurationError(message)
        if inspect.iscoroutinefunction(function):
            message = f"{self._kind}: an upgrade only turns one dict into another; write it with def, not async def."
            raise ConfigurationError(message)
        there = self._steps.get(from_version)
        if there is not None and there.__qualname__ != function.__qualname__:
            message = (
                f"{self._kind}: the upgrade from version {from_version} is declared twice, by "
                f"{there.__qualname__} and {function.__qualname__}. Keep one of them."
            )
            raise ConfigurationError(message)
        self._steps[from_version] = function
        return function

    def apply(self, arguments: dict[str, Any], stored: int) -> dict[str, Any]:
        """Upgrade arguments from the stored version to the present one; UnreadableArguments if that is not possible."""
        if stored > self.version:
            message = (
                f"{self._kind}: the arguments have version {stored}, this code reads up to {self.version}. "
                "They wait for a worker with newer code."
            )
            raise UnreadableArguments(message, f"version {stored} is newer than {self.version}")
        for version in range(max(stored, 0), self.version):
            arguments = self._step(version, arguments)
        return arguments

    def _step(self, version: int, arguments: dict[str, Any]) -> dict[str, Any]:
        step = self._steps.get(version)
        if step is None:
            message = (
                f"{self._kind}: the arguments have version {version}, this code reads {self.version} and has no "
                f"upgrade from {version}. Declare it: @….upgrade(from_version={version})."
            )
            raise UnreadableArguments(message, f"no upgrade from version {version}")
        try:
            upgraded = step(arguments)
        except Exception as error:
            message = (
                f"{self._kind}: the upgrade of the arguments from version {version}, {step.__qualname__}, raised "
                f"{type(error).__name__}: {error}"
            )
            cause = f"upgrade from version {version}: {type(error).__name__}"
            raise UnreadableArguments(message, cause) from error
        if not isinstance(upgraded, dict):
            message = (
                f"{self._kind}: the upgrade of the arguments from version {version}, {step.__qualname__}, returned "
                f"{type(upgraded).__name__} instead of a dict. Does it end with return?"
            )
            raise UnreadableArguments(message, f"upgrade from version {version}: no dict")
        return upgraded
