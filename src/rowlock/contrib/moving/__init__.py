"""Moving in from another queue: its decorators and calls, with Rowlock behind them.

One module for each queue: celery.py, procrastinate.py, arq.py and rq.py. A module of tasks runs on Rowlock once its
import line has changed; the other package is not needed. These modules have the names of the packages that they stand
for. procrastinate_jobs.py moves jobs that wait in the other queue. To have Celery or arq workers run Rowlock's jobs is
another thing: see `rowlock/delivery`. Start with rq.py. Imported by programs that move, and by `rowlock move`.
"""

from __future__ import annotations
