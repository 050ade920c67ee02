"""Step 29 of Rowlock's schema. Written by tools/django_migrations.py."""

from __future__ import annotations

from rowlock.contrib.django.schema_step import step_migration

Migration = step_migration(29, after="0028_webhooks")
