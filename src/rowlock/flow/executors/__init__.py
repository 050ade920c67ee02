"""Where blocking and untrusted handlers run: in threads and in child processes.

Start with process_pool.py (`ChildPool`). child_handle.py is the worker's side of one child process, child_main.py the
program that the child runs, child_messages.py what they send each other, message_pipe.py how. threads.py runs blocking
handlers; coroutine handlers need no executor and run on the loop (run.attempt.on_loop). It may import run, progress,
enqueue, locks and kinds; worker and supervise import it. child_handle.py is imported with the first child: few workers
have any.
"""

from __future__ import annotations
