"""The typed verbs of a job's life, one module per stage: enqueue, wake, claim, progress, finish; workers and held_rows.

Each verb runs one statement of the sql file of the same name, except for a few that a test lists: they are about rates,
workflows or approval. Parameters and answers have types here, so that flow never names a statement or a column of an
answer by string. Start with claim.py. Imported by flow, upkeep and desk;
imports only the store's executor and the model.
"""

from __future__ import annotations
