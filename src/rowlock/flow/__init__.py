"""The life of a job, one shelf per stage.

A worker's code reads best in the order in which a job meets it:

1.  **kinds**: a job's kind is declared: `declare.py` checks the options of `@app.job`, `signature.py` reads the
    function's parameters, `codec.py` encodes arguments and results. The result is a `Handler`.
2.  **enqueue**: a call becomes a row: options and arguments are prepared, lane policy, gates and rates are looked up,
    the `Producer` writes the row on its own connection or in the caller's transaction, and wakes a worker.
3.  **claim**: a worker takes rows: `claimer.py` asks the database for as many due jobs as its lanes have free slots;
    `cursors.py` remembers where each (kind, priority, share) pair starts, so that finished rows are never read again.
4.  **run**: a claimed row becomes a `RunningAttempt` (`attempt.py`). `middleware.py` and `inject.py` wrap the handler,
    `verdict.py` decides the outcome from what it returned or raised.
5.  **executors**: where the handler runs: on the event loop, in a thread (`threads.py`) or in a child process
    (`process_pool.py`, with `child_handle.py` on the worker's side of the pipe and `child_main.py` on the other).
6.  **progress**: what the handler reports meanwhile. `Context` passes every call to the attempt's `AttemptIO`, which
    changes its `ProgressReport`; about once a second the `Reporter` writes a snapshot of each changed report.
7.  **locks**: `ctx.lock` and `app.lock`: one holder per key over all processes.
8.  **finish**: the outcome becomes one fenced write, in batches; children, gates and hooks are released with it.

Two shelves put the stages together:

-   **worker**: one worker process: lanes and slots, the claim loop, the heartbeat, starting and draining.
-   **supervise**: `rowlock worker --processes N`: several worker processes and the one that watches them.

Every write of a running job carries its claim (job id and fence). A write with an old fence changes nothing and raises
`ClaimLost`; that is why two workers can never both finish a job.

Start with kinds/handler.py, or with the stage in question. Imports go down only, in the order that pyproject.toml lists
under "Imports inside flow only go down": supervise, worker, finish, executors, run, progress, claim, enqueue, locks,
kinds. flow may import telemetry, bridge, store, settings and model; imported by upkeep, delivery, webhooks, compose,
the application and the doors.
"""

from __future__ import annotations
