"""The dashboard with hot reload: make ui-dev. Starts a demo server and Vite before it, and prints the link.

ROWLOCK_API=http://127.0.0.1:8000 names a running server to use instead; log in with its token.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import build_ui

ROOT: Final = Path(__file__).resolve().parent.parent
PORT: Final = 5173


def main() -> int:
    """Run both until Ctrl-C."""
    build_ui.install()
    port = free_port(PORT)
    api, server = os.environ.get("ROWLOCK_API"), None
    if api is None:
        token, behind = secrets.token_urlsafe(32), free_port(0)
        api = f"http://127.0.0.1:{behind}"
        command = [sys.executable, "-m", "rowlock", "demo", "--serve", "--port", str(behind)]
        server = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"ROWLOCK_SERVE_TOKEN": token})  # noqa: S603 - ours
        sys.stdout.write(f"once the demo has played: http://127.0.0.1:{port}/api/v1/auth/local?token={token}\n")
    else:
        sys.stdout.write(f"http://127.0.0.1:{port}/ shows {api}\n")
    sys.stdout.flush()
    os.environ["ROWLOCK_API"] = api
    try:
        build_ui.npm(ROOT, "run", "dev", "--", "--host", "127.0.0.1", "--port", str(port), "--strictPort")
    except (build_ui.UiNotBuilt, KeyboardInterrupt):
        return 1
    finally:
        if server is not None:
            server.send_signal(signal.SIGTERM)
            server.wait()
    return 0


def free_port(wanted: int) -> int:
    """This port of this machine, or any free one where it is taken."""
    for number in (wanted, 0):
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", number))
            except OSError:
                continue
            return int(tried.getsockname()[1])
    raise SystemExit("no port of this machine is free")


if __name__ == "__main__":
    sys.exit(main())
