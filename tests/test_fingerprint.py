"""The hash of the code: what changes it, what does not, and what it covers."""

from __future__ import annotations

import ast

import pytest
from _support import put

from clusterbook.errors import InputError
from clusterbook.fingerprint import _tokens, fingerprint, hash_modules, hash_source, modules_of

FILES = {
    "__init__.py": "",
    "demo.py": '"""Demo."""\nfrom . import figures\nfrom .helpers.deep import dig\n\n\n'
    "def fit(X):\n    from . import datasets\n    from clusterbook import late\n"
    "    return late.f(dig(X))\n",
    "other.py": "import clusterbook.demo as d\n",
    "late.py": "def f(x):\n    return x + 1\n",
    "helpers/__init__.py": "from .side import y\n",
    "helpers/deep.py": "from ..metrics import acc\ndef dig(x):\n    return x\n",
    "helpers/side.py": "y = 1\n",
    "metrics.py": "def acc():\n    return 1\n",
    "training.py": "from . import paths\nrate = 0.1\n",
    "datasets/__init__.py": "from .table import size\n",
    "datasets/table.py": "size = 3\n",
    "figures.py": "from . import palette\n",
    "palette.py": "red = 1\n",
    "paths.py": "from . import unused\n",
    "unused.py": "z = 0\n",
}


@pytest.fixture(autouse=True)
def package(tmp_path, monkeypatch):
    put(root := tmp_path / "clusterbook", FILES)
    monkeypatch.setattr("clusterbook.fingerprint._PACKAGE", root)
    monkeypatch.setattr("clusterbook.fingerprint._PUBLIC", {"Demo": "demo"})
    return root


# Everything whose representation differs between Python 3.11, 3.12 and 3.13 in some way of writing
# it down: f-strings cut apart, characters that one Unicode version prints, empty type parameters.
SOURCE = '''# a comment
"""A docstring."""
from __future__ import annotations
import os as o, sys
async def f(a, /, b: int = 1, *args, c="é\\u200b\\U0001FAE8", d, **kw) -> "str":
    \'\'\'doc\'\'\'
    async with a as b, c: pass
    return f"{a!r:>{b}}" f"x{{y}}{c=}" "tail" f"{d:}"
class A(B, metaclass=M):
    "doc"
    x: int = 3
    """attribute doc"""
    @property
    def y(self): return {**self.z, 1: 2}, 1.5e-3, 2j, b"q", ..., None, True, u"k"
match o:
    case {"a": [1, *rest], **r} if r: pass
    case A(x=1) | None: pass
try: pass
except* ValueError as e: raise KeyError from e
print(lambda q=1: (yield), [i for i in x if i if not i], x[1:2, ::3], -1, 10**6, 1_000)
'''


def test_the_hash_is_the_same_in_every_python_version():
    expected = "6f0b3068aea5f10837671b570cf79bda50532154e0d05de694077d4e060dac41"
    assert hash_source(SOURCE) == expected
    name = ast.FormattedValue(ast.Name("a"), -1)        # f-strings, as other versions cut them
    whole = ast.JoinedStr([ast.Constant("ab"), name])
    cut = ast.JoinedStr([ast.Constant("a"), ast.Constant("b"), name, ast.Constant("")])
    assert list(_tokens(whole)) == list(_tokens(cut))
    assert list(_tokens(whole)) != list(_tokens(ast.JoinedStr([name, ast.Constant("ab")])))


@pytest.mark.parametrize(("left", "right", "same"), [
    ("x = 1_000", "x = 1000  # one\n\n", True),
    ('class A:\n    """A."""\n    x = 1', "class A:\n    x = (1)\n    'about x'", True),
    ("x = 1", "x = 1.0", False),
    ("x = 'a'", "x = b'a'", False),
    ("x = a + b", "x = a - b", False),
    ("x = f'{a!r}'", "x = f'{a!s}'", False),
    ("if a:\n    b\nc", "if a:\n    b\n    c", False),
    ("def f(a=1, *, b): ...", "def f(a, *, b=1): ...", False),
])
def test_whatever_runs_counts_and_layout_comments_and_docstrings_do_not(left, right, same):
    assert (hash_source(left) == hash_source(right)) == same


@pytest.mark.parametrize(("name", "old", "new", "changes"), [
    ("demo.py", "return", "return not", True),
    ("demo.py", '"""Demo."""', '"""Demonstration."""', False),
    ("late.py", "x + 1", "x + 2", True),                # imported inside a function
    ("helpers/side.py", "1", "2", True),                # the parent package runs too
    ("metrics.py", "return 1", "return 2", True),
    ("training.py", "0.1", "0.2", True),
    ("datasets/table.py", "3", "4", False),             # data count by their content
    ("figures.py", "palette", "unused", False),
    ("unused.py", "0", "1", False),
])
def test_a_chapters_hash_covers_what_can_change_its_numbers(package, name, old, new, changes):
    path = package / name
    before, alone = fingerprint("demo"), fingerprint("late")
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert (fingerprint("demo") != before) == changes
    # The scores and the training loop count for every chapter.
    assert (fingerprint("late") != alone) == (name in ("late.py", "metrics.py", "training.py"))


def test_a_hash_of_modules_has_their_names_and_no_order():
    assert hash_modules(["late"]) != hash_modules(["other"])
    assert hash_modules(["late", "other"]) == hash_modules(["other", "late", "late"])
    with pytest.raises(InputError, match="no method module 'dmo'; did you mean 'demo'"):
        fingerprint("dmo")


# What a page depends on: more than its numbers do, which no loader and no figure can change.
DEMO = {"datasets", "datasets.table", "demo", "figures", "helpers", "helpers.deep", "helpers.side",
        "late", "metrics", "palette"}
ALL = DEMO | {"other", "paths", "training", "unused"}


@pytest.mark.parametrize(("cells", "expected"), [
    (["from clusterbook import Demo"], DEMO),
    (["import clusterbook.late as late"], {"late"}),
    (["import clusterbook as cb\ncb.late.f(1)"], ALL),               # all of it is at hand
    (["from clusterbook import *"], ALL),
    (["import numpy as np\nfrom clusterbook import __version__"], set()),
    (["from clusterbook.helpers import side"], {"helpers", "helpers.side"}),
    (["%%time\nif a:\n    !pip install x\nfrom clusterbook import late"], {"late"}),
    (["this is no Python", "from clusterbook import late"], {"late"}),
])
def test_modules_of_a_notebooks_cells(cells, expected):
    assert modules_of(cells) == expected
