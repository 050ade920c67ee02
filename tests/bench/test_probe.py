from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench import probe

ROOT = Path(__file__).parents[2]


def hits(folder: Path, code: str) -> None:
    environment = {**os.environ, "BENCH_RUN": str(folder), "BENCH_TAG": "t", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", f"from bench import probe\n{code}"], env=environment, check=True)


def test_hits_of_several_processes_are_added(tmp_path: Path) -> None:
    assert probe.read(tmp_path, "t") == probe.Count()
    hits(tmp_path, "probe.hit(); probe.hit(hits=3)")
    hits(tmp_path, "probe.hit()")
    count = probe.read(tmp_path, "t")
    assert count.hits == 5
    assert 0 < count.first <= count.last


TOGETHER = """
import threading
gate = threading.Barrier(16)
def many():
    gate.wait()
    for _ in range(50):
        probe.hit()
threads = [threading.Thread(target=many) for _ in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_threads_that_begin_together_share_one_counter(tmp_path: Path) -> None:
    """A second counter would truncate the mapped file of the first: lost hits, or the end of the process."""
    hits(tmp_path, TOGETHER)
    assert probe.read(tmp_path, "t").hits == 16 * 50


def test_the_first_start_of_a_numbered_job_counts(tmp_path: Path) -> None:
    probe.expect(tmp_path, "t", 3)
    hits(tmp_path, "probe.hit(1)")
    (_, first, _) = probe.starts(tmp_path, "t")
    hits(tmp_path, "probe.hit(1)\nprobe.hit(2)")
    starts = probe.starts(tmp_path, "t")
    assert (starts[0], starts[1]) == (0.0, first)
    assert starts[2] > first


def test_calls_come_back_as_they_were_written(tmp_path: Path) -> None:
    probe.write_calls(tmp_path, "t", [1.0, 2.0], [1.5, 2.5])
    assert probe.calls(tmp_path, "t") == ([1.0, 2.0], [1.5, 2.5])
