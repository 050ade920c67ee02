"""Plain values and rules about them: nothing here waits, logs, or knows a database.

    the job         job, state (TRANSITIONS), outcome, failure, hook, progress, stored_args, released_jobs
    declaring it    kind, options, keys, retry, approval, rate (and gates), workflow
    when it runs    schedule; times/: cron, window, duration, written_time
    where it runs   lane, queue_pair, notify_messages (LISTEN/NOTIFY), workload, tenant_share, lock
    asking for it   search, page, count, explanation, operation, event, feed, doctor_finding
    who asks        access, token_text
    texts           ids, redact, size, newer_than, json_output, problem and problem_codes (errors for programs)
    names           spelling/: similar_names ("Did you mean …?"), renamed, keyword_options

May import errors and other modules of this room. Imported by every other room. Start with state.py and job.py.
"""

from __future__ import annotations
