"""Ruff, with the rules of pyproject.toml, over everything that git would hold."""

from __future__ import annotations

import subprocess
import sys

from _support import CHECKOUT


def test_ruff_finds_nothing():
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=concise", "."]
    found = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
