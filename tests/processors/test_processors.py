"""Every notebook shows the same text on every processor, and golden numbers hold on each.

A processor's instructions and its number of threads decide the last bits of sums, and those decide
how a live training ends. What is compared must not depend on that. `make processors` runs this
(an hour on two idle cores), not `make test`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from _processors import kinds
from _support import CHECKOUT, without_settings

KINDS = kinds()
WORKERS = os.environ.get("WORKERS", "2")


def differing(places: list[Path | str], kind: str) -> list[str]:
    """The cells and fits with another result under these instructions, or number of threads."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "1" if "threads" in kind else WORKERS, "-p",
         "no:cacheprovider",
         "--color=no", "-c", "pyproject.toml", "--rootdir", ".", *map(str, places)],
        cwd=CHECKOUT, env=without_settings() | KINDS[kind], capture_output=True, text=True,
        check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert re.search(r"\d+ passed", done.stdout), done.stdout
    return re.findall(r"^(?:FAILED|ERROR) (.+?::.+?)(?: - .*)?$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("kind", KINDS)
def test_notebooks_and_fits_are_the_same_on_another_processor(kind):
    assert not differing(["notebooks", "book", "tests/test_golden.py"], kind)
