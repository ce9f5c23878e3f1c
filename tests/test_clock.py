"""The time of a run that was interrupted is the sum of its pieces."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from datetime import datetime

import pytest
from _support import Book, wait_for

from clusterbook.book import clock, runs

KILLED = """
import sys, time
from pathlib import Path
from clusterbook.book import clock
with clock.running(Path(sys.argv[1]), every=0.05):
    print("running", flush=True)
    time.sleep(600)
"""
FAILS_ONCE = """
import time
from clusterbook import paths
file = paths.checkpoint("training")
if not file.exists():
    time.sleep(2)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"weights")
    raise RuntimeError("the machine went away")
"""
RECORDS = "from clusterbook import evidence\nevidence.record({'twice': 2.0 * seed})"


def test_the_pieces_add_up(tmp_path):
    (tmp_path / "training.pt").touch()
    for already in (0.0, 0.1, 0.2):
        with clock.running(tmp_path) as times:
            assert already <= times["earlier"] < already + 0.09
            time.sleep(0.1)
    assert times["started"] < times["piece"]


def test_without_a_checkpoint_a_run_begins_anew(tmp_path):
    with clock.running(tmp_path / "new"):
        time.sleep(0.05)
    assert (tmp_path / "new" / clock.FILE).is_file()
    with clock.running(tmp_path / "new") as times:
        assert times["earlier"] == 0.0 and times["started"] == times["piece"]
    with clock.running(None) as times:
        assert times["earlier"] == 0.0 and times["started"] == times["piece"]


def test_a_piece_that_is_killed_counts(tmp_path):
    (tmp_path / "training.pt").touch()
    process = subprocess.Popen([sys.executable, "-c", KILLED, tmp_path], stdout=subprocess.PIPE,
                               text=True)
    try:
        assert process.stdout.readline() == "running\n"
        begun = time.monotonic()
        wait_for(lambda: _counted(tmp_path) > 0.2, process)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert 0.2 < _counted(tmp_path) < time.monotonic() - begun + 1
    with clock.running(tmp_path) as times:
        assert times["earlier"] > 0.2


def _counted(folder) -> float:
    file = folder / clock.FILE
    return json.loads(file.read_text())["earlier"] if file.is_file() else 0.0


def test_a_record_has_the_time_of_all_pieces(book: Book, tmp_path):
    book.notebook("tiny", FAILS_ONCE, RECORDS)
    book.profile("tiny-small", seed=7)
    asked = {"profile": "tiny-small", "records": tmp_path / "records"}
    before = time.time()
    with pytest.raises(runs.ChapterError, match="the machine went away"):
        runs.run("tiny", **asked)
    between = time.time()
    runs.run("tiny", **asked)
    record = json.loads((tmp_path / "records" / "tiny-small-seed7.json").read_text())
    # More than the first piece, which is the longer one by two seconds.
    assert between - before < record["seconds"] < time.time() - before
    assert before - 1 < datetime.fromisoformat(record["started"]).timestamp() < between
    assert not (runs.checkpoints() / "tiny-small-seed7").exists()
