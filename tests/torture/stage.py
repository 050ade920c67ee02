"""The application under torture for the command line; the environment configures it."""

from __future__ import annotations

import os

from tests.torture.jobs import make

from rowlock.settings import Settings

settings = Settings.from_env(os.environ)
app = make(settings.database_url or "", settings=settings)
