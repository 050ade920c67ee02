"""The revisions."""

from __future__ import annotations
