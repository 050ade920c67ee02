"""All twelve kinds, imported: what a worker and the web name as their application."""

from __future__ import annotations

from examples.knowledge_graph import interactive, maintenance, system
from examples.knowledge_graph.tasks import tasks

__all__ = ["interactive", "maintenance", "system", "tasks"]
