"""Ontology generation in web pods: Flask and gunicorn, a queue of one lane, a worker with one slot in each pod."""

from __future__ import annotations
