"""A knowledge graph: approval, lanes in the database, projection in child processes, ten routes and two permissions."""

from __future__ import annotations
