"""Claim: how a worker picks the next jobs from the queue.

Start with claimer.py, which turns free slots into one batch claim. cursors.py keeps where each pair's queue begins, so
that a claim never reads finished rows. Beside them: saturation.py (lanes with more jobs than slots), fairness.py (debts
of fair lanes), due_timer.py (scheduled jobs), db_clock.py (the database's time) and in_flight.py (claims without an
answer yet). The statements are in store/sql/claim.sql. Imported by flow.worker and upkeep; imports enqueue, model and
store alone.
"""

from __future__ import annotations
