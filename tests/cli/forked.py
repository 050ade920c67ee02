"""Commands without the second that a Python takes to import them: a process that has done so forks for each.

    python -m tests.cli.forked SOCKET

Every command is still a process of its own, with its own folder, environment, standard streams and exit code. Commands
that tests talk to while they run are started the long way, by Cli.start().
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT: Final = Path(__file__).parents[2]
_LONGEST: Final = 1 << 20


class Forks:
    """The process that forks, from outside."""

    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "forks")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self._path)
            listener.listen(64)
            words = [sys.executable, "-m", "tests.cli.forked", str(listener.fileno())]
            self._process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])

    def run(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], fed: str | None
    ) -> tuple[int, str, str]:
        """`rowlock arguments` in that folder; exit code, output, errors."""
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
            socket.socket(socket.AF_UNIX) as asked,
        ):
            given.write((fed or "").encode())
            given.seek(0)
            asked.connect(self._path)
            order = json.dumps([list(arguments), str(folder), dict(environment)]).encode()
            socket.send_fds(asked, [len(order).to_bytes(4, "big")], [given.fileno(), out.fileno(), err.fileno()])
            asked.sendall(order)
            code = int(asked.makefile().read())
            out.seek(0), err.seek(0)
            return code, out.read().decode(), err.read().decode()

    def close(self) -> None:
        self._process.communicate(timeout=20)


def serve(listener: socket.socket) -> None:
    """Until the process that started this one closes its end of standard input."""
    from rich import console, table, text  # noqa: F401, PLC0415 - what commands import when they run

    from rowlock.cli.root import build  # noqa: PLC0415 - as above
    from rowlock.desk import jobs, lanes, operation_driver, schedules, stats, workflows  # noqa: F401, PLC0415 - as above
    from rowlock.desk.explain import explain  # noqa: F401, PLC0415 - as above
    from rowlock.flow.kinds import pydantic_schema  # noqa: F401, PLC0415 - as above
    from rowlock.store import embedded  # noqa: F401, PLC0415 - as above

    build()

    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    import selectors  # noqa: PLC0415

    ready = selectors.DefaultSelector()
    ready.register(listener, selectors.EVENT_READ)
    ready.register(sys.stdin, selectors.EVENT_READ)
    while True:
        events = [key.fileobj for key, _ in ready.select()]
        if listener not in events:
            return
        asked, _ = listener.accept()
        if os.fork() == 0:
            _attend(asked)
        asked.close()


def _attend(asked: socket.socket) -> NoReturn:
    """Fork once more, to wait for the command and tell its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, fds, _, _ = socket.recv_fds(asked, 4, 3)
    order, wanted = b"", int.from_bytes(size, "big")
    while len(order) < wanted:
        order += asked.recv(_LONGEST)
    pid = os.fork()
    if pid == 0:
        asked.close()
        arguments, folder, environment = json.loads(order)
        _become(arguments, folder, environment, fds)
    _, status = os.waitpid(pid, 0)
    asked.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _become(arguments: list[str], folder: str, environment: dict[str, str], fds: list[int]) -> NoReturn:
    for n, fd in enumerate(fds):
        os.dup2(fd, n)
        os.close(fd)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv, sys.path[0], tempfile.tempdir = ["rowlock", *arguments], folder, None
    sys.stdin, sys.stdout, sys.stderr = (open(n, mode, encoding="utf-8") for n, mode in enumerate("rww"))  # noqa: SIM115, PTH123 - they stay open
    random.seed()
    code = 1
    try:
        from rowlock.cli import main  # noqa: PLC0415 - imported long ago

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter would
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
