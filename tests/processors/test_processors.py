"""Every notebook shows the same text on every processor, and golden numbers hold on each.

A processor's instructions and its number of threads decide the last bits of sums, and those decide
how a live training ends. What is compared must not depend on that. `make processors` runs this
(half an hour on two idle cores), not `make test`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from _processors import levels
from _support import CHECKOUT, without_settings

KINDS = {name: given | {"OMP_NUM_THREADS": "1"} for name, given in levels().items()} | {
    f"{threads} threads": {"OMP_NUM_THREADS": f"{threads}", "OMP_WAIT_POLICY": "passive"}
    for threads in (2, 4)}
WORKERS = os.environ.get("WORKERS", "2")


def differing(places: list[str], kind: str) -> list[str]:
    """The cells and fits with another result under these instructions, or number of threads."""
    # Several threads that wait for each other spin: beside other work they take hours.
    workers = "1" if "threads" in kind else WORKERS
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", workers, "-p", "no:cacheprovider",
         "--color=no", "-c", "pyproject.toml", "--rootdir", ".", *places],
        cwd=CHECKOUT, env=without_settings() | KINDS[kind], capture_output=True, text=True,
        check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert re.search(r"\d+ passed", done.stdout), done.stdout
    return re.findall(r"^(?:FAILED|ERROR) (.+?::.+?)(?: - .*)?$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("kind", KINDS)
def test_notebooks_and_fits_are_the_same_on_another_processor(kind):
    assert not differing(["notebooks", "book", "tests/test_golden.py"], kind)
