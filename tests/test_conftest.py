"""What nbval compares of a notebook that lies beside the tests, not below them."""

from __future__ import annotations

import shutil
import subprocess
import sys

import nbformat
import pytest
from _support import CHECKOUT
from nbformat.v4 import new_code_cell, new_notebook, new_output


@pytest.mark.parametrize(("stored", "passes"), [("1", True), ("2", False)])
def test_a_warning_is_not_compared_and_an_output_is(tmp_path, stored, passes):
    shutil.copy(CHECKOUT / "conftest.py", tmp_path)
    code = "import sys\nprint('a warning', file=sys.stderr)\n1"
    output = new_output("execute_result", {"text/plain": stored}, execution_count=1)
    notebook = new_notebook(cells=[new_code_cell(code, outputs=[output], execution_count=1)])
    (tmp_path / "notebooks").mkdir()
    nbformat.write(notebook, tmp_path / "notebooks" / "one.ipynb")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "--nbval", "--nbval-current-env", "notebooks"],
        cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == passes, done.stdout + done.stderr
    assert "1 passed" in done.stdout or "1 failed" in done.stdout
