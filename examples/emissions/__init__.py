"""Greenhouse gas emissions from activity data: a pipeline of four steps inside FastAPI pods, and later under Celery."""

from __future__ import annotations
