"""Upkeep: what has to be done from time to time for all workers together, such as rescuing jobs of dead workers.

A duty is a function: bounded, idempotent, with an interval in the database (table duties). rescue.py, expire.py,
prune.py and repair.py have the duties, duties.py lists them by name, duty.py is what each of them gets. The answer to a
worker's heartbeat names the duties that are due; duty_runner.py, one per worker, has the database elect one process for
each and runs it there. schedule_runner.py fires schedules. The statements are in store/sql/upkeep.sql.
Start with duty_runner.py. Imported by app, cli and testing; imports flow, desk, model and store.
"""

from __future__ import annotations
