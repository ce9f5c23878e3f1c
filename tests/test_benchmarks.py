"""The memory of a notebook: what it and its processes hold is seen, and too much of it fails."""

from __future__ import annotations

import sys

import pytest
from _support import CHECKOUT, Book, module_of

notebooks = module_of(CHECKOUT / "tests" / "benchmarks" / "notebooks.py")
HOLDS = """\
import subprocess, sys, time
held = b"1" * 200_000_000
time.sleep(1)
subprocess.run([sys.executable, "-c", "import time; held = b'1' * 200_000_000; time.sleep(2)"])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")
def test_what_a_kernel_and_its_processes_hold_is_seen(book: Book):
    held = b"1" * 400_000_000       # what the tests hold does not count
    peak = notebooks.peak_of(book.notebook("own", HOLDS))
    assert len(held) and 200e6 < peak.kernel < 400e6
    assert 195e6 < peak.together - peak.kernel < 240e6


def test_too_much_fails_and_is_named(book: Book, monkeypatch, capsys):
    for name in ("large", "small"):
        book.notebook(name, "1")
    held = {"large": notebooks.Peak(int(9e8), int(1.6e9)), "small": notebooks.Peak(1, 1599999999)}
    monkeypatch.setattr(notebooks, "peak_of", lambda path: held[path.stem])
    assert notebooks.main() == 1
    lines = capsys.readouterr().out.splitlines()[1:]
    assert lines == [f"  {'large':28}{'900':>14}{'1,600':>18}  too much",
                     f"  {'small':28}{'0':>14}{'1,600':>18}"]
    held["large"] = notebooks.Peak()
    assert notebooks.main() == 0 and capsys.readouterr().out.count("not measured") == 2


def test_the_page_states_the_limit_of_the_memory():
    text = (CHECKOUT / "book" / "rerun.md").read_text(encoding="utf-8")
    assert f"stays below {notebooks.LIMIT / 1e6:,.0f} MB" in text
