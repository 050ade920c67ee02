"""Mutation: one thing to break, and the tests that must notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MIGRATIONS = Path(__file__).parents[2] / "src/rowlock/store/migrations"


def migration(topic: str) -> str:
    """The file of the migration with that topic, whatever its number is."""
    (found,) = MIGRATIONS.glob(f"*_{topic}.up.sql")
    return f"store/migrations/{found.name}"


class MutationDoesNotApply(Exception):
    """The text to break is not there, or not as often as expected."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """What to break, and where that must be noticed. count: how often the text occurs; 0: once or more."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    count: int = 1

    def apply(self, package: Path) -> None:
        """Break the copy; fails when the text to break is not there any more."""
        path = package / self.file
        text = path.read_text(encoding="utf-8")
        found = text.count(self.old)
        if found == 0 or (self.count and found != self.count):
            message = f"{self.name}: expected {self.count or 'some'} of {self.old!r} in {self.file}, found {found}"
            raise MutationDoesNotApply(message)
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")
