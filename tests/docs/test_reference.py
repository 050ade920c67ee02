"""The reference pages name every command, option and variable there is."""

from __future__ import annotations

import re
from pathlib import Path

import typer.main

from rowlock.cli.root import build
from rowlock.settings import _LANE_FIELDS, _VARIABLES

DOCS = Path(__file__).parents[2] / "docs" / "reference"


def options(command: object, path: str = "") -> dict[str, set[str]]:
    """Commands by their full name, with their long options."""
    inner = getattr(command, "commands", None)
    if inner is None:
        shown = [item for item in command.params if not getattr(item, "hidden", False)]  # type: ignore[attr-defined]
        names = {name for item in shown for name in item.opts if name.startswith("--")}
        return {path.strip(): names - {"--help"}}
    return {key: value for name, sub in inner.items() for key, value in options(sub, f"{path} {name}").items()}


def test_every_command_and_option_is_documented() -> None:
    page = (DOCS / "cli.md").read_text()
    sections = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE))
    common = sections["Options of every command"]
    found = options(typer.main.get_command(build()))
    assert len(found) > 15
    for command, names in found.items():
        first, *rest = command.split()
        (section,) = [text for title, text in sections.items() if title.split()[:2] == ["rowlock", first]]
        assert all(re.search(rf"`{word}\b", section) for word in rest), command
        missing = {name for name in names if f"`{name}" not in common + section and f" {name}" not in section}
        assert missing == set(), command


def test_every_variable_is_documented_and_no_other() -> None:
    page = (DOCS / "settings.md").read_text()
    assert re.findall(r"^\| `(ROWLOCK_\w+)`", page, re.MULTILINE) == list(_VARIABLES)
    assert {"name", *re.findall(r"^\| `([a-z_]+)`", page, re.MULTILINE)} == set(_LANE_FIELDS)
