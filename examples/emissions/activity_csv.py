"""Activity data as people send it: a CSV file with date, site, activity, quantity and unit."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

COLUMNS: Final = ("date", "site", "activity", "quantity", "unit")
LARGEST: Final = Decimal(10) ** 12
"""Above this a quantity is a slip of the pen."""


@dataclass(frozen=True)
class Activity:
    """One line: so much of an activity, on a day, at a site."""

    file: str
    line: int
    day: date
    site: str
    activity: str
    quantity: Decimal
    unit: str

    @property
    def place(self) -> str:
        """Where a person finds it."""
        return f"{self.file}, line {self.line}"


class NotReadable(ValueError):
    """A file of which no line can be read."""


class BadLine(ValueError):
    """One line that cannot be read."""


@dataclass
class ActivityFile:
    """What was read of a file, and what of it could not be."""

    activities: list[Activity] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    """A message per bad line, with its number."""


def check_header(text: str) -> None:
    """Raise NotReadable unless the first line names every column."""
    _reader(text)


def read(name: str, text: str) -> ActivityFile:
    """Read every line; bad ones are rejected one by one."""
    found = ActivityFile()
    reader = _reader(text)
    for row in reader:
        line = reader.line_num
        try:
            found.activities.append(_activity(name, line, row))
        except BadLine as error:
            found.rejected.append(f"{name}, line {line}: {error}")
    return found


def _reader(text: str) -> csv.DictReader[str]:
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""), skipinitialspace=True)
    names = [(name or "").strip().casefold() for name in reader.fieldnames or ()]
    if missing := [column for column in COLUMNS if column not in names]:
        message = (
            f"The first line must name the columns {', '.join(COLUMNS)}, separated by commas. "
            f"Missing: {', '.join(missing)}."
        )
        raise NotReadable(message)
    reader.fieldnames = names
    return reader


def _activity(file: str, line: int, row: Mapping[str | None, str | list[str] | None]) -> Activity:
    if None in row:
        message = "it has more values than there are columns; write 1234.5, without a comma"
        raise BadLine(message)
    values = {column: str(row.get(column) or "").strip() for column in COLUMNS}
    if empty := [column for column in COLUMNS if not values[column]]:
        message = f"no value for {', '.join(empty)}"
        raise BadLine(message)
    day, quantity = _day(values["date"]), _quantity(values["quantity"])
    return Activity(file, line, day, values["site"], values["activity"].casefold(), quantity, values["unit"])


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        message = f"{text!r} is not a date such as 2025-03-31"
        raise BadLine(message) from None


def _quantity(text: str) -> Decimal:
    try:
        quantity = Decimal(text)
    except InvalidOperation:
        message = f"{text!r} is not a number such as 1234.5"
        raise BadLine(message) from None
    if not quantity.is_finite() or not 0 <= quantity <= LARGEST:
        message = f"the quantity {text} is not between 0 and {LARGEST:,}"
        raise BadLine(message)
    return quantity
