"""One migration per step of the schema, written by a tool, and one for the models.

Start with 0001_initial.py. Imported by Django alone.
"""

from __future__ import annotations
