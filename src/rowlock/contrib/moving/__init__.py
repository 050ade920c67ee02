"""Moving in from another queue: its decorators and calls, with Rowlock behind them.

One module for each queue: Celery, Procrastinate, arq and RQ. A module of tasks runs on Rowlock once its import line has
changed; the other package is not needed. These modules have the names of the packages that they stand for. To have
Celery or arq workers run Rowlock's jobs is another thing: see `rowlock/delivery`.
"""

from __future__ import annotations
