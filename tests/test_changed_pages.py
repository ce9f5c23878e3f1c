"""The list of changed pages: what counts as a change, and what does not."""

from __future__ import annotations

import importlib.util

import nbformat
import pytest
from _support import CHECKOUT
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

FILE = CHECKOUT / ".github" / "scripts" / "changed_pages.py"
spec = importlib.util.spec_from_file_location("changed_pages", FILE)
changed_pages = importlib.util.module_from_spec(spec)
spec.loader.exec_module(changed_pages)


def text(said: str, name: str = "stdout"):
    return new_output("stream", name=name, text=said)


def figure(name: str, picture: str):
    return new_output("display_data", {"image/png": picture, "text/plain": f"Figure {name}"},
                      metadata={"clusterbook": {"name": name}})


@pytest.fixture
def builds(tmp_path):
    """Two builds with one page each; the outputs of its two cells are given."""
    def write(**sides) -> str:
        for side, outputs in sides.items():
            page = new_notebook(cells=[new_markdown_cell(side, id="words")] + [
                new_code_cell(side, id=f"cell-{i}", outputs=shown, execution_count=i)
                for i, shown in enumerate(outputs)])
            if "tagged" in side:
                page.cells[1].metadata["tags"] = ["nbval-ignore-output"]
            path = tmp_path / side.removesuffix("_tagged") / "notebooks" / "tiny.ipynb"
            path.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(page, path)
        for side in ("before", "after"):
            (tmp_path / side).mkdir(exist_ok=True)
        return changed_pages.listing(tmp_path / "before", tmp_path / "after")
    return write


NOTHING = "No output of 1 pages changes."


def row(what: str) -> str:
    return ("Outputs of 1 of 1 pages change:\n\n| page | what differs |\n|---|---|\n"
            f"| `notebooks/tiny.ipynb` | {what} |")


@pytest.mark.parametrize(("before", "after"), [
    ([text("one")], [text("one")]),             # words and source are no outputs
    ([text("on"), text("e")], [text("one")]),   # a kernel sends a stream in pieces
    ([text("one")], [text("one"), text("a warning", "stderr")]),
    ([text("<object at 0x7f0012345678>")], [text("<object at 0x7f00abcdef00>")]),
])
def test_what_differs_between_equal_runs_is_none(builds, before, after):
    assert builds(before=[before], after=[after]) == NOTHING


@pytest.mark.parametrize(("before", "after"), [
    ([text("one")], [text("two")]),
    ([text("one")], []),
    ([], [text("one")]),
    ([figure("line", "a")], [text("Figure line")]),
])
def test_another_output_is_a_change(builds, before, after):
    assert "outputs of 1 cell " in builds(before=[before], after=[after])


def test_cells_are_counted_and_matched_by_their_names(builds):
    one, two = [text("one")], [text("two")]
    assert builds(before=[one, two], after=[two, one]) == row("outputs of 2 cells")
    assert builds(before=[one], after=[one, two]) == row("outputs of 1 cell")
    assert builds(before=[one, two], after=[one]) == row("outputs of 1 cell")
    assert builds(before=[one], after=[one, []]) == NOTHING


def test_an_ignored_cell_counts_only_by_its_figures(builds):
    seconds = [[text("1.2 s"), figure("line", "a")]], [[text("1.3 s"), figure("line", "a")]]
    assert builds(before_tagged=seconds[0], after_tagged=seconds[1]) == NOTHING
    assert builds(before=seconds[0], after=seconds[1]) == row("outputs of 1 cell")
    assert builds(before_tagged=[[figure("line", "a")]],
                  after_tagged=[[figure("line", "b")]]) == row("figure line")


def test_figures_are_named(builds):
    before = [[figure("one", "a")], [figure("two", "a"), figure("three", "a")]]
    after = [[figure("one", "a")], [figure("two", "b"), figure("three", "b")]]
    assert builds(before=before, after=after) == row("figures three, two")
    assert builds(before=[[figure("line", "a"), text("1")]],
                  after=[[figure("line", "b"), text("2")]]) == row("figure line; outputs of 1 cell")


def test_a_page_that_comes_or_goes(builds, tmp_path):
    assert builds(after=[[text("one")]]) == row("a new page")
    (tmp_path / "after" / "notebooks" / "tiny.ipynb").rename(tmp_path / "before" / "tiny.ipynb")
    assert "no longer there" in builds()
