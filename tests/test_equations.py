"""The table from an equation of a paper to the function that computes it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("docstrings", ROOT / "book/_ext/docstrings.py")
equations = importlib.util.module_from_spec(spec)
spec.loader.exec_module(equations)


@pytest.mark.parametrize(("method", "wanted"), [
    ("tell", {4, 5, 6, 7, 8, 13, 15}), ("idc", {1, 3, 4, 5, 6}), ("deepcluster", {1, 2})])
def test_every_equation_has_its_function(method, wanted):
    found = list(equations.rows(method))
    assert {number for number, *_ in found} == wanted
    for _, file, name, line in found:
        lines = (ROOT / "src" / file).read_text(encoding="utf-8").splitlines()
        last = name.rpartition(".")[2]
        assert any(f"{word} {last}" in lines[line - 1] for word in ("def", "class")), (file, line)


def test_only_the_first_paragraph_of_a_docstring_counts():
    assert equations.numbers("Eqs. 7 and 8; Eqs. 4 to 6, and Eq. 13.") == [4, 5, 6, 7, 8, 13]
    assert equations.numbers("an equation of no number, Eq. x") == []
