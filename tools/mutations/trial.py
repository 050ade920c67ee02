"""Trials: each mutation in a scratch copy of its own, several at once if asked, and what came of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, assert_never

from mutations.mutation import Mutation, MutationDoesNotApply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

RED: Final = 1
"""pytest's exit code for tests that ran and failed."""
LIMIT: Final = 600
"""Seconds for each named test, with its share of starting and ending pytest; pytest's own limits are shorter."""
NOTICED: Final = "noticed"


@dataclass(frozen=True, slots=True)
class Noticed:
    """The first test that turned red, and the end of pytest's line about it."""

    test: str
    reason: str


@dataclass(frozen=True, slots=True)
class Survived:
    """Every named test stayed green."""


@dataclass(frozen=True, slots=True)
class Unclear:
    """The mutation was not tried properly: it does not apply, or pytest broke off."""

    why: str


Verdict = Noticed | Survived | Unclear


@dataclass(frozen=True, slots=True)
class Trial:
    """One mutation, what came of it, and how many seconds it took."""

    mutation: Mutation
    verdict: Verdict
    seconds: float

    def line(self) -> str:
        """As it is printed while the others go on."""
        return f"{self.mutation.name:<55} {self.seconds:5.1f} s  {_said(self.verdict)}\n"

    def record(self) -> str:
        """As it is kept in a log: verdict, name, seconds, and why, between tabs."""
        match self.verdict:
            case Noticed(test, reason):
                fields = (NOTICED, f"{test} {reason}")
            case Survived():
                fields = ("survived", "")
            case Unclear(why):
                fields = ("unclear", why)
            case _:
                assert_never(self.verdict)
        why = " ".join(fields[1].split())[:300]
        return f"{fields[0]}\t{self.mutation.name}\t{self.seconds:.1f}\t{why}\n"


def _said(verdict: Verdict) -> str:
    match verdict:
        case Noticed(test, _):
            return f"noticed by {test}"
        case Survived():
            return "SURVIVED"
        case Unclear(why):
            return f"UNCLEAR: {why.splitlines()[0]}"
        case _:
            assert_never(verdict)


class Runner(Protocol):
    """Runs tests."""

    def __call__(self, root: Path, tests: Sequence[str], source: Path, /, *options: str) -> tuple[int, str]:
        """Run them against that src; returns pytest's exit code and its output."""


def run_tests(root: Path, tests: Sequence[str], source: Path, /, *options: str) -> tuple[int, str]:
    """Run tests in a pytest of their own."""
    # Its plugin takes a second to import.
    unused = () if any("test_openapi" in test for test in tests) else ("-p", "no:schemathesis")
    environment = os.environ | {"PYTHONPATH": str(source), "COLUMNS": "300"}  # room for reasons in pytest's summary
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--timeout=120", *unused, *options, *tests]
    done = subprocess.run(  # noqa: S603 - our own tests
        command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT * len(tests)
    )
    return done.returncode, done.stdout + done.stderr


def attempt(root: Path, mutation: Mutation, run: Runner) -> Verdict:
    """Break a copy of src and run the named tests against it."""
    with tempfile.TemporaryDirectory(prefix="rowlock-mutation-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(root / "src", source)
        try:
            mutation.apply(source / "rowlock")
            code, output = run(root, mutation.tests, source, "-x")
        except (MutationDoesNotApply, subprocess.TimeoutExpired) as error:
            return Unclear(str(error))
    lines = output.splitlines()
    failed = [line for word in ("FAILED ", "ERROR tests") for line in lines if line.startswith(word)]
    if code == RED and failed:
        test, _, reason = failed[0].partition(" ")[2].partition(" - ")
        return Noticed(test.rpartition("::")[2], reason)
    return Survived() if code == 0 else Unclear(f"pytest ended with {code}\n{output[-3000:]}")


def trials(root: Path, chosen: Sequence[Mutation], at_once: int, run: Runner) -> Iterator[Trial]:
    """Try so many at a time; each is told as soon as it is over."""

    def tried(mutation: Mutation) -> Trial:
        began = time.monotonic()
        verdict = attempt(root, mutation, run)
        return Trial(mutation, verdict, time.monotonic() - began)

    with ThreadPoolExecutor(at_once) as executor:
        try:
            for future in as_completed([executor.submit(tried, mutation) for mutation in chosen]):
                yield future.result()
        except BaseException:
            # Otherwise Ctrl-C would wait for every mutation that has not begun.
            executor.shutdown(wait=False, cancel_futures=True)
            raise


def noticed_before(log: Path | None) -> frozenset[str]:
    """Names of the mutations that a log of an earlier run calls noticed."""
    if log is None or not log.exists():
        return frozenset()
    rows = (line.split("\t") for line in log.read_text(encoding="utf-8").splitlines())
    return frozenset(row[1] for row in rows if row[0] == NOTICED)


def try_all(
    root: Path,
    chosen: Sequence[Mutation],
    say: Callable[[str], object],
    *,
    at_once: int = 1,
    log: Path | None = None,
    run: Runner = run_tests,
) -> int:
    """Run the tests as they are, then once for each mutation; returns the exit code, 0: each was noticed.

    What the log calls noticed is left out, and each verdict is added to it.
    """
    before = noticed_before(log)
    left = [mutation for mutation in chosen if mutation.name not in before]
    if left and not _green(root, left, say, run):
        return 1
    done: list[Trial] = []
    for trial in trials(root, left, at_once, run):
        done.append(trial)
        say(trial.line())
        if log is not None:
            with log.open("a", encoding="utf-8") as file:
                file.write(trial.record())
    return _summed_up(done, len(chosen) - len(left), say)


def _green(root: Path, chosen: Sequence[Mutation], say: Callable[[str], object], run: Runner) -> bool:
    tests = tuple(dict.fromkeys(test for mutation in chosen for test in mutation.tests))
    code, output = run(root, tests, root / "src", "-n", "2")
    if code:
        say(f"red before anything was broken:\n{output[-3000:]}\n")
    return code == 0


def _summed_up(done: Sequence[Trial], skipped: int, say: Callable[[str], object]) -> int:
    survived = [trial.mutation.name for trial in done if isinstance(trial.verdict, Survived)]
    unclear = [trial for trial in done if isinstance(trial.verdict, Unclear)]
    for trial in unclear:
        say(f"\n{trial.mutation.name}: {trial.verdict.why if isinstance(trial.verdict, Unclear) else ''}\n")
    say("".join(f"survived: {name}\n" for name in survived))
    say("".join(f"unclear: {trial.mutation.name}\n" for trial in unclear))
    earlier = f", and {skipped} in an earlier run" if skipped else ""
    say(f"{len(done) - len(survived) - len(unclear)} of {len(done)} mutations were noticed{earlier}\n")
    return 1 if survived or unclear else 0
