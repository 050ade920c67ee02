"""The typed verbs of a job's life, one module per stage: enqueue, claim, progress, finish, and workers beside them.

Each verb runs one statement of the sql file of the same stage. Parameters and answers have types here, so that flow
never names a statement or a column of an answer by string. Start with claim.py. Imported by flow, upkeep and desk;
imports only the store's executor and the model.
"""

from __future__ import annotations
