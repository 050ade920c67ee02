"""Step 30 of Rowlock's schema. Written by tools/django_migrations.py."""

from __future__ import annotations

from rowlock.contrib.django.schema_step import step_migration

Migration = step_migration(30, after="0029_carriers")
