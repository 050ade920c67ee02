"""Documentation hosting for organisations: FastAPI, seven kinds of background jobs, Arq and Redis as their carrier."""

from __future__ import annotations
