"""Finish: the last write of an attempt.

Start with finisher.py, which turns an outcome into a write and sends writes in fenced batches; hook jobs, places of
gates and released workflow steps travel in the same statements (store/sql/finish.sql). set_aside_writes.py keeps the
writes that the database refuses, and tries them again. Imported by flow.worker; imports model and store.
"""

from __future__ import annotations
