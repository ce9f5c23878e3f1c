"""The memory of a notebook: what it and its processes hold is seen, and too much of it fails."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import pytest
from _support import CHECKOUT, Book

FILE = CHECKOUT / "tests" / "benchmarks" / "notebooks.py"
spec = importlib.util.spec_from_file_location("benchmark_notebooks", FILE)
notebooks = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = notebooks       # where its dataclass looks itself up
spec.loader.exec_module(notebooks)

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")
WAIT = "import time; time.sleep(2)"
HOLD = "import time; held = b'1' * 200_000_000; time.sleep(2)"
START = """\
import subprocess, sys
subprocess.run([sys.executable, "-c", "import time; held = b'1' * 200_000_000; time.sleep(2)"])
"""


def test_what_a_kernel_and_its_processes_hold_is_seen(book: Book):
    nothing, own, other = (notebooks.peak_of(book.notebook(name, code)) for name, code in
                           (("nothing", WAIT), ("own", HOLD), ("other", START)))
    assert 10e6 < nothing.kernel < 200e6
    assert 195e6 < own.kernel - nothing.kernel < 220e6
    assert own.together - own.kernel < 1e6
    assert abs(other.kernel - nothing.kernel) < 20e6
    assert 195e6 < other.together - nothing.together < 240e6


def test_what_another_process_of_the_tests_holds_does_not_count(book: Book):
    held = "import sys; held = b'1' * 400_000_000; sys.stdin.read()"
    other = subprocess.Popen([sys.executable, "-c", held], stdin=subprocess.PIPE)
    try:
        own = notebooks.peak_of(book.notebook("own", HOLD))
    finally:
        other.communicate()
    assert 200e6 < own.kernel < 400e6


def test_too_much_fails_and_is_named(book: Book, monkeypatch, capsys):
    for name in ("large", "small"):
        book.notebook(name, "1")
    held = {"large": notebooks.Peak(int(9e8), int(1.5e9)), "small": notebooks.Peak(1, 1499999999)}
    monkeypatch.setattr(notebooks, "peak_of", lambda path: held[path.stem])
    assert notebooks.main() == 1
    lines = capsys.readouterr().out.splitlines()[1:]
    assert lines == [f"  {'large':28}{'900':>14}{'1,500':>18}  too much",
                     f"  {'small':28}{'0':>14}{'1,500':>18}"]
    held["large"] = held["small"]
    assert notebooks.main() == 0


def test_where_nothing_is_measured_nothing_is_made_up(book: Book, monkeypatch, capsys):
    book.notebook("one", "1")
    monkeypatch.setattr(notebooks, "peak_of", lambda path: notebooks.Peak())
    assert notebooks.main() == 0
    assert capsys.readouterr().out.count("not measured") == 2


def test_the_page_states_the_memory_of_every_notebook():
    text = (CHECKOUT / "book" / "rerun.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|$", text, re.M)
    stated = {name: int(number.replace(",", "")) for name, number in rows}
    assert set(stated) == {path.stem for path in notebooks.notebooks()}
    assert all(100 < number < 1500 for number in stated.values())
