"""What happens to jobs, as it happens: waiting for an end, streams of one job, the feed of all jobs.

However many callers there are, each event loop has one LISTEN connection (waiting.py), one poll for followed jobs
(job_poll.py) and one for the feed (feed.py); streams_per_loop.py keeps them. stream.py hands out the events in order
and without gaps, watch.py is the simpler poll of the command line. Start with stream.py. Imported by the desk, the
application, the routes of streams and the command line.
"""

from __future__ import annotations
