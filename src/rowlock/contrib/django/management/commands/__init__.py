"""One module per command of `manage.py`. Start with rowlock.py, the only one. Imported by Django alone."""

from __future__ import annotations
