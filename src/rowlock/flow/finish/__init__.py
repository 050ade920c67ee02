"""Finish: the last write of an attempt.

finisher.py turns an outcome into a write and sends writes in fenced batches; hook jobs, places of gates and released
workflow steps travel in the same statements (store/sql/finish.sql). Imported by flow.worker; imports model and store.
"""

from __future__ import annotations
