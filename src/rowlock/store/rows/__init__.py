"""Rows to values of the model, secrets redacted: jobs, schedules, workflows and followed jobs.

Imported by desk and flow; imports the model. Start with jobs.py.
"""

from __future__ import annotations
