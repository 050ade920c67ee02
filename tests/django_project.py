"""The example project of tests/contrib/django in this process. Django can be set up once per process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

EXAMPLE = Path(__file__).parent / "contrib" / "django" / "example"
SUITE = EXAMPLE.parent / "suite"
"""What tests of other packages need that are re-pointed at Rowlock."""
SETTINGS = "DJANGO_SETTINGS_MODULE"


def set_up() -> None:
    """Set Django up with the settings of the example; a second call does nothing.

    The environment stays as it was: Celery in a process of another test would look for the example's settings.
    """
    if str(EXAMPLE) not in sys.path:
        sys.path.insert(0, str(EXAMPLE))
    import django  # noqa: PLC0415 - only tests with Django need it

    before = dict(os.environ)
    os.environ[SETTINGS] = "shop.settings"
    try:
        django.setup()
    finally:
        for name in (SETTINGS, "TZ"):
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]
        time.tzset()


def environment(database_url: str, **more: str) -> Mapping[str, str]:
    """The environment of a process that runs the example's manage.py."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("ROWLOCK_")}
    return {**own, "EXAMPLE_DATABASE_URL": database_url, SETTINGS: "shop.settings", **more}


def entry_of(database_url: str) -> dict[str, Any]:
    """NAME, HOST, PORT and USER as settings.DATABASES has them."""
    from shop.settings import database_entry  # noqa: PLC0415 - the example's, on the path after set_up()

    entry: dict[str, Any] = database_entry(database_url)
    return entry


def downloaded(package: str, version: str, stem: str) -> Path:
    """The source distribution of a package, in .tools/."""
    root = Path(__file__).parents[1]
    folder = root / ".tools"
    folder.mkdir(exist_ok=True)
    name = f"{stem}-{version}.tar.gz"
    if not (folder / name).exists():
        uv = next((path for path in (root / ".uv/bin/uv",) if path.exists()), "uv")
        wanted = ["--no-deps", "--no-binary", ":all:", f"{package}=={version}"]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder), *wanted]
        if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
            # An environment of uv has no pip.
            command = [str(uv), "tool", "run", "--python", sys.executable, *command[2:]]
        subprocess.run(command, check=True)
    return folder / name
