"""One figure alone: only what it needs is run, and its numbers are those of the whole run."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from _support import SEED, Book, inline

from bookledger import config, execution, parameters, runs, slices
from clusterbook.checks import InputError

SHOW = "figures.show({}, name='drawn', alt='A.', caption='C.')"


def needed(*cells: str) -> list[str]:
    """The cells that the figure of the last cell needs, without that cell."""
    every = [nbformat.v4.new_code_cell(cell) for cell in cells]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Title"), *every])
    kept = slices.alone(notebook, slices.figures(notebook, []).values())
    return [cell.source for cell in kept.cells[1:-1]]


@pytest.mark.parametrize("before", [
    ["x = 1"], ["a = 2", "def x():\n    return a"], ["import numpy as x"],
    ["x = []", "x.append(1)"], ["x = {}", "x['a'] = 1"], ["x = C()", "y = x.part.fit(1)"],
    ["x = 1", "x += 1"], ["x = 0", "for i in range(3):\n    x = i"],
    ["rng = np.random.default_rng(0)", "rng.normal()", "x = rng.normal()"],
    ["rng = np.random.default_rng(0)", "y = rng.normal()", "x = rng.normal()"],
    ["import torch\ntorch.manual_seed(0)", "x = library.sampled()"],
    ["import torch", "torch.backends.flag = True", "x = library.sampled()"],
    ["x = C()", "def train(m):\n    m.fit()", "done = train(x)"],
    ["x = 3", "if x < 2:\n    raise E"],
    ["x = 0", "if a:\n    x = 1"], ["x = C()", "change(x)"], ["%set_env A 1", "x = 1"],
    ["with training.seeded(0) as draws:\n    x = 1"], ["@cache\ndef x():\n    return 1"],
    ["z = 1", "y = 2\nw = z", "x = y"]])
def test_a_cell_is_kept_that_binds_or_changes_what_is_read(before):
    assert needed(*before, SHOW.format("x")) == before


@pytest.mark.parametrize("beside", [
    "y = 1", "evidence.check('a', x)", "y = x.column('loss')", "print(x)", "def f(x):\n    x = 2",
    "def f():\n    x.append(1)", "def f(a):\n    return a.b\ny = f(x)",
    "def f(a):\n    b = {}\n    b[0] = a\n    return b\ny = f(x)",
    "for i in range(3):\n    y = x.column(i)",
    "from sklearn.base import clone\nz = clone(x).fit(1)"])
def test_a_cell_is_left_out_that_changes_nothing_that_is_read(beside):
    assert needed("x = 1", beside, SHOW.format("x")) == ["x = 1"]


def test_names_inside_a_comprehension_are_its_own_on_every_python():
    for made in ("[x for x in p]", "{x for x in p}", "{x: 1 for x in p}", "(x for x in p)"):
        assert slices._names(f"q = {made}") == ({"p"}, {"q"})


def test_a_name_above_the_parameters_is_no_parameter():
    cells = [nbformat.v4.new_code_cell(cell) for cell in (
        f"n = 1\n{SHOW.format('n')}", "n: int = 3", SHOW.replace("drawn", "later").format("n"))]
    cells[1].metadata["tags"] = ["parameters"]
    found = slices.figures(nbformat.v4.new_notebook(cells=cells), ["n"])
    assert [found[name].parameters for name in ("drawn", "later")] == [(), ("n",)]


PARAMETERS = f"""\
n: int = 3  # points | paper: 1 | more
m: int = 1  # other | paper: 1 | more | try: 5 with n 4
{SEED}"""
CELLS = ("import numpy as np\nfrom clusterbook import figures", "print(m)",
         "rng = np.random.default_rng(seed)\nfirst = rng.normal(size=n)",
         *(f"figures.show(figures.seed_strip({{'a': list({values})}}, quantity='q'), "
           f"name='{name}', alt='A.', caption='C.')" for name, values in
           (("a-first", "first"), ("a-second", "rng.normal(size=2)"), ("fixed", "[1, 2]"))))


def listed(folder: Path) -> dict[str, dict]:
    content = json.loads((folder / "figures.json").read_text())
    return {one["name"]: one["numbers"] for one in content}


def test_a_figure_alone_has_the_numbers_of_the_whole_run(book: Book, tmp_path, monkeypatch):
    inline(monkeypatch)
    book.notebook("tiny", *CELLS, parameters=PARAMETERS)
    runs.run("tiny", overrides={"n": "4"}, figures=tmp_path / "whole")
    whole, kept = listed(tmp_path / "whole"), tmp_path / "out.ipynb"
    runs.run("tiny", overrides={"n": "4"}, only=["a-second"], figures=tmp_path / "one", output=kept,
             formats="pdf", width="single", style="paper")
    assert listed(tmp_path / "one") == {"a-second": whole["a-second"]}
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == [
        "a-second.csv", "a-second.pdf", "figures.json", "index.html"]
    assert (tmp_path / "one" / "a-second.csv").read_text().split("\n")[:3] == [
        "# figure: a-second", '# parameters: {"n": 4, "m": 1, "seed": 0}', "series,q,row"]
    assert b"/FontFile2" in (tmp_path / "one" / "a-second.pdf").read_bytes(), "no font is embedded"
    code = "\n".join(cell.source for cell in nbformat.read(kept, as_version=4).cells)
    assert "first = rng" in code and "a-first" not in code and "fixed" not in code
    runs.run("tiny", only=["fixed"], figures=tmp_path / "one")
    assert listed(tmp_path / "one").keys() == {"a-second", "fixed"}, "an earlier figure is lost"


@pytest.mark.parametrize(("asked", "says"), [
    ({"only": ["a-frist"]}, "unknown figure of tiny: 'a-frist'; did you mean 'a-first'"),
    ({"only": ["a-first"], "overrides": {"m": "2"}},
     "a-first can't change with m, only with: n, seed"),
    ({"only": ["fixed"], "seeds": [1]}, "no parameter changes fixed; leave out seed"),
    ({"only": ["a-first", "fixed"], "overrides": {"m": "2"}}, "a-first, fixed can't change with m"),
    ({"formats": "png,gif"}, "unknown format of figures: 'gif'"),
    ({"style": "papr"}, "did you mean 'paper'"),
    ({"width": "0"}, "--width takes single, double or inches"),
    ({"width": "single"}, "need --figures")])
def test_a_mistake_is_refused_before_anything_runs(book: Book, monkeypatch, asked, says):
    book.notebook("tiny", *CELLS, parameters=PARAMETERS)
    monkeypatch.setattr(execution, "execute", lambda *args, **options: pytest.fail("it ran"))
    with pytest.raises(InputError, match=says):
        runs.run("tiny", **asked)


def test_a_parameter_is_refused_that_changed_nothing_when_it_was_tried(book: Book, monkeypatch):
    book.notebook("tiny", "figures.show([n, m, seed], name='all', alt='A.', caption='C.')",
                  parameters=PARAMETERS)
    book.write("book/figures.csv", f"{','.join(slices.COLUMNS)}\ntiny,all,seed n\nother,all,m\n")
    monkeypatch.setattr(runs, "make", lambda *run: [])
    with pytest.raises(InputError, match="all can't change with seed, only with: m$"):
        runs.run("tiny", only=["all"], overrides={"seed": "1"})
    assert runs.run("tiny", only=["all"], overrides={"seed": "1", "m": "2"}) == []


@pytest.mark.parametrize("name", config.chapters())
def test_the_table_has_figures_of_the_chapter_and_parameters_that_their_cells_read(name):
    chapter = parameters.read(name)
    drawn = json.loads((config.root() / f"data/expectations/drawn/{name}.json").read_text())
    read = slices.figures(chapter.notebook, chapter.parameters)
    assert read.keys() == drawn.keys()
    for figure, same in slices.tried(name).items():
        assert same and {*same} <= {*read[figure].parameters}, figure
        assert all(chapter.parameters[one].other is not None for one in same), "was never tried"


def test_a_chapters_figure_alone_has_its_expected_numbers(tmp_path, monkeypatch):
    chapter = parameters.read("tell")
    source = tmp_path / "tell.ipynb"
    nbformat.write(slices.alone(chapter.notebook, [chapter.figures()["turning"]]), source)
    execution.execute(source, tmp_path / "out.ipynb", environment={
        "CLUSTERBOOK_FIGURES": str(tmp_path), "CLUSTERBOOK_ONLY": "turning"})
    drawn = json.loads((config.root() / "data/expectations/drawn/tell.json").read_text())
    assert listed(tmp_path) == {"turning": drawn["turning"]["series"]}
