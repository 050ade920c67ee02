"""The stage of a run: servers, environments, databases, driver processes, and our part of the machine's time."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench import machine, probe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.environments import Environment
    from bench.roster import Subject
    from bench.server import Server

ROOT: Final = Path(__file__).parents[1]
_GRACE: Final = 10.0
"""Seconds a worker has to end by itself."""
_PATIENCE: Final = 300.0
"""Seconds for one call of a driver."""
_START: Final = 60.0
"""Seconds until the first job must have started."""


class Failed(Exception):
    """A measurement that did not happen, and why."""


@dataclass
class Stage:
    """Everything a measurement needs."""

    server: Server
    folder: Path
    environments: Mapping[str, Environment]
    redis: tuple[int, int] = (0, 0)
    """Port and process id."""
    patience: float = 10.0
    """Seconds to wait for a quiet machine before each measurement."""
    keeps: bool = False
    """Whether databases stay until the server goes: dropping one costs a checkpoint."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _templates: dict[tuple[str, int], str] = field(default_factory=dict)

    def own_time(self) -> float:
        """Core-seconds of our servers, workers and ourselves."""
        workers = machine.trees_time(process.pid for process in self._processes)
        redis = machine.processor_time(self.redis[1]) if self.redis[1] else 0.0
        times = os.times()  # drivers and workers that have ended are in it as well
        ended = times.children_user + times.children_system
        return time.process_time() + self.server.processor_time() + redis + workers + ended

    def quiet(self) -> None:
        """Wait for a quiet machine, for a limited time."""
        machine.wait_until_quiet(self.own_time, self.patience)

    @contextlib.contextmanager
    def play(
        self,
        subject: Subject,
        *,
        slots: int | None = None,
        like: Play | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Iterator[Play]:
        """A fresh database with the subject's tables; dropped afterwards.

        like: a copy of that play's database instead; extra: becomes BENCH_… for the driver.
        """
        play = Play(
            self,
            subject,
            self._tag(subject),
            slots or subject.slots,
            {f"BENCH_{k.upper()}": str(v) for k, v in (extra or {}).items()},
        )
        if like is not None:
            self._create(play.tag, f"{like.tag} STRATEGY file_copy")  # gigabytes need not pass through the WAL
        else:
            self._create(play.tag, self._installed(play))
        try:
            yield play
        finally:
            play.stop()
            play.forget()
            if not self.keeps:
                with self.server.connect() as connection:
                    connection.execute(f"DROP DATABASE IF EXISTS {play.tag} WITH (FORCE)")

    def _tag(self, subject: Subject) -> str:
        return f"{subject.module}{next(self._numbers)}"

    def _create(self, tag: str, template: str) -> None:
        with self.server.connect() as connection:
            connection.execute(f"CREATE DATABASE {tag} TEMPLATE {template}")

    def _installed(self, play: Play) -> str:
        """A database with the subject's tables, made once: some take half a minute to install."""
        key = play.subject.name, play.slots
        if play.subject.store != "PostgreSQL":
            play.call("install")
            return "template1"
        if key not in self._templates:
            first = replace(play, tag=self._tag(play.subject))
            self._create(first.tag, "template1")
            first.call("install")
            self._templates[key] = first.tag
        return self._templates[key]

    def start(self, command: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
        """Start a process that counts as ours."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._processes.append(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End a process of ours and everything below it."""
        below = machine.tree(process.pid)
        process.terminate()
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            for pid in below:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
        self._processes.remove(process)


@dataclass
class Play:
    """One subject in one database."""

    stage: Stage
    subject: Subject
    tag: str
    slots: int
    extra: dict[str, str]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """What the driver is told."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("ROWLOCK_", "BENCH_", "PG"))}
        return (
            kept
            | self.extra
            | {
                "BENCH_URL": self.stage.server.at(self.tag),
                "BENCH_REDIS": str(self.stage.redis[0]),
                "BENCH_SLOTS": str(self.slots),
                "BENCH_RUN": str(self.stage.folder),
                "BENCH_TAG": self.tag,
                "PYTHONPATH": str(ROOT),
            }
        )

    def call(self, verb: str, *arguments: str, module: str = "bench.driver") -> dict[str, Any]:
        """Have the driver do one thing and answer."""
        name = [self.subject.module] if module == "bench.driver" else []
        command = [self.stage.environments[self.subject.name].python, "-m", module, *name, verb, *arguments]
        try:
            answer = subprocess.run(
                command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False, timeout=_PATIENCE
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"{verb} took more than {_PATIENCE:.0f} s") from None
        if answer.returncode != 0:
            raise Failed(f"{verb} failed: {_last_words(answer.stderr)}")
        return dict(json.loads(answer.stdout.splitlines()[-1]))

    def work(self, count: int = 1) -> None:
        """Start worker processes."""
        command = [self.stage.environments[self.subject.name].python, "-m", "bench.driver", self.subject.module, "work"]
        for _ in range(count):
            self.workers.append(self.stage.start(command, self.environment, self.log))

    @property
    def log(self) -> Path:
        """What the workers print."""
        return self.stage.folder / f"{self.tag}.log"

    @property
    def pids(self) -> list[int]:
        """Of the workers and everything below them."""
        return [pid for worker in self.workers for pid in machine.tree(worker.pid)]

    def stop(self) -> None:
        """End the workers."""
        while self.workers:
            self.stage.end(self.workers.pop())

    def count(self) -> probe.Count:
        """Handlers started so far."""
        return probe.read(self.stage.folder, self.tag)

    def forget(self) -> None:
        """Count from zero again."""
        for path in self.stage.folder.glob(f"{self.tag}.*"):
            path.unlink()

    def wait_for_first(self) -> probe.Count:
        """Until the first handler has started."""
        deadline = time.monotonic() + _START
        while not (count := self.count()).hits:
            self.check_alive()
            if time.monotonic() > deadline:
                raise Failed(f"no job started in {_START:.0f} s: {_last_words(self.log.read_text())}")
            time.sleep(0.005)
        return count

    def awaken(self, workers: int = 1) -> None:
        """Start workers and wait until they run what is enqueued; some hear only of what comes after their start."""
        self.work(workers)
        deadline = time.monotonic() + _START
        while not self.count().hits:
            self.check_alive()
            if time.monotonic() > deadline:
                raise Failed(f"no job started in {_START:.0f} s: {_last_words(self.log.read_text())}")
            self.call("enqueue", "--jobs", "1", "--together", "1")
            until = time.monotonic() + 1
            while not self.count().hits and time.monotonic() < until:
                time.sleep(0.02)

    def check_alive(self) -> None:
        """Refuse to go on without workers."""
        if all(worker.poll() is not None for worker in self.workers):
            raise Failed(f"the workers ended: {_last_words(self.log.read_text())}")

    def settle(self) -> None:
        """Fresh statistics and a checkpoint, so that neither falls into the measurement."""
        with self.stage.server.connect(self.tag) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "without a word"
