"""What happens to jobs, as it happens: the stream of one job, the feed of all, and waiting for an end.

job_poll.py and feed.py look at the database once for all that listen in one event loop (per_loop.py); stream.py and
watch.py are what a caller reads from. The API's streams and the command line's watch use them. Start with stream.py.
"""

from __future__ import annotations
