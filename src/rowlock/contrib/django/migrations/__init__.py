"""One migration per step of the schema, written by tools/django_migrations.py, and one for the models."""

from __future__ import annotations
