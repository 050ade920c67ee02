"""manage.py rowlock …: Rowlock's command line for the project's application."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from rowlock import cli
from rowlock.contrib.django.application import PROJECT

_DJANGOS: Final = ("--settings", "--pythonpath")
"""Options that Django has read already."""


class Command(BaseCommand):
    """Rowlock's command line: worker, jobs, lanes, schema, serve and so on."""

    help = "Rowlock's command line for this project: manage.py rowlock worker, manage.py rowlock jobs ls, …"
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Take every word as it is."""
        parser.add_argument("words", nargs=argparse.REMAINDER, help="a command of Rowlock and its options")

    def run_from_argv(self, argv: list[str]) -> None:
        """Pass all options on; Django's parser would take some of them for its own."""
        try:
            _run(_without_djangos(argv[2:]))
        finally:
            connections.close_all()

    def handle(self, *_: object, words: list[str], **__: Any) -> None:  # noqa: ANN401 - Django's options
        """Run for call_command("rowlock", "jobs", "ls")."""
        try:
            _run(words)
        except SystemExit as end:
            if end.code not in (None, 0):
                message = f"rowlock {' '.join(words)} ended with the exit code {end.code}."
                raise CommandError(message, returncode=end.code) from end


def _run(words: list[str]) -> None:
    # In the environment, so that processes which the command starts find the application, too.
    os.environ.setdefault("ROWLOCK_APP", f"{PROJECT.module}:{PROJECT.attribute}")
    if words[:1] == ["serve"]:
        os.environ.setdefault("ROWLOCK_AUTH", "rowlock.contrib.django.asgi:authenticators")
    before, sys.argv = sys.argv, ["rowlock", *words]
    try:
        cli.main()
    finally:
        sys.argv = before


def _without_djangos(words: list[str]) -> list[str]:
    left: list[str] = []
    given = iter(words)
    for word in given:
        name, equals, _ = word.partition("=")
        if name not in _DJANGOS:
            left.append(word)
        elif not equals:
            next(given, None)
    return left
