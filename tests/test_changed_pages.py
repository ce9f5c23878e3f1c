"""The list of changed pages: what counts as a change, and what does not."""

import nbformat
import pytest
from _support import CHECKOUT, module_of
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

listing = module_of(CHECKOUT / ".github" / "scripts" / "changed_pages.py").listing


def text(said: str, name: str = "stdout"):
    return new_output("stream", name=name, text=said)


def figure(name: str, picture: str):
    return new_output("display_data", {"image/png": picture, "text/plain": f"Figure {name}"},
                      metadata={"clusterbook": {"name": name}})


ONE, TWO, CELL = [text("one")], [text("two")], "outputs of 1 cell"
A, B = [figure("line", "a")], [figure("line", "b")]


@pytest.mark.parametrize(("before", "after", "tags", "what"), [
    # Words and source are no outputs, and a kernel sends a stream in pieces.
    ([[text("on"), text("e")]], [[*ONE, text("a warning", "stderr")], []], [], None),
    ([[text("<object at 0x7f0012345678>")]], [[text("<object at 0x7f00abcdef00>")]], [], None),
    ([ONE, TWO], [TWO, ONE], [], "outputs of 2 cells"),
    ([[*A, *ONE]], [[*B, *TWO]], [], f"figure line; {CELL}"),
    ([[*A, *ONE]], [[*B, *TWO]], ["nbval-ignore-output"], "figure line"),
    ([A, [figure("two", "a")]], [B, [figure("two", "b")]], [], "figures line, two"),
    (None, [ONE], [], "a new page"),
    ([ONE], None, [], "no longer there"),
])
def test_what_counts_as_a_change(tmp_path, before, after, tags, what):
    for side, cells in (("before", before), ("after", after)):
        (tmp_path / side).mkdir()
        if cells is not None:
            page = new_notebook(cells=[new_markdown_cell(side, id="words"), *(
                new_code_cell(side, id=f"cell-{i}", outputs=shown, metadata={"tags": tags})
                for i, shown in enumerate(cells))])
            nbformat.write(page, tmp_path / side / "tiny.ipynb")
    found = listing(tmp_path / "before", tmp_path / "after")
    assert found == ("No output of 1 pages changes." if what is None else
                     "Outputs of 1 of 1 pages change:\n\n| page | what differs |\n|---|---|\n"
                     f"| `tiny.ipynb` | {what} |")
