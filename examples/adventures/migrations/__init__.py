"""Every change of the database, the tables of the jobs included."""

from __future__ import annotations
