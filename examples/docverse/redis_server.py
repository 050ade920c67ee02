"""`python -m examples.docverse.redis_server --port 8105`: a redis-server that keeps nothing on disk."""

from __future__ import annotations

import argparse
import os
import shutil
import sys


def main() -> None:
    """Become the redis-server of this machine."""
    parser = argparse.ArgumentParser(description="A redis-server without persistence, on this machine only.")
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    program = shutil.which("redis-server")
    if program is None:
        sys.exit("There is no redis-server on this machine.")
    words = ("--port", str(options.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
    os.execv(program, (program, *words))  # noqa: S606 - found above


if __name__ == "__main__":
    main()
