"""Commands of `manage.py`, where Django looks for them. Start with commands/rowlock.py. Imported by Django alone."""

from __future__ import annotations
