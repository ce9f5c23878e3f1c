"""A chapter's checks hold at other seeds too: what they expect is a property, not one run's luck.

One run a chapter: its main seed and its list of further seeds are both replaced. A page of the book
has no parameters; where it names a seed, that is replaced.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from clusterbook.book import parameters, runs

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))
SEED = re.compile(r"^seed = 0\b", re.MULTILINE)
PAGES = [path for path in sorted(NOTEBOOKS[0].parents[1].glob("book/*.ipynb"))
         if any(SEED.search(cell.source) for cell in nbformat.read(path, as_version=4).cells)]
OTHER_SEEDS = list(range(101, 111))
FEWER = {"comparison": 3}       # six trainings a seed: ten of them would take as long as all others


def check_lines(notebook: nbformat.NotebookNode) -> list[str]:
    return [line for text in runs.outputs(notebook) for line in text.splitlines()
            if line.startswith(("✓ ", runs.FAILED_CHECK))]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_checks_hold_at_ten_other_seeds(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    known = parameters.parse(parameters.parameters_cell(notebook))
    assert not {known["seed"].default, *known["seeds"].default} & set(OTHER_SEEDS)
    main, *further = OTHER_SEEDS[:FEWER.get(path.stem)]
    runs.execute(path, tmp_path / path.name, values={"seed": main, "seeds": further})
    executed = nbformat.read(tmp_path / path.name, as_version=4)
    assert runs.failed_checks(executed) == []
    assert check_lines(executed) == check_lines(notebook)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_pages_checks_hold_at_another_seed(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    replaced = 0
    for cell in notebook.cells:
        cell.source, n = SEED.subn(f"seed = {OTHER_SEEDS[0]}", cell.source)
        replaced += n
    assert replaced == 1
    nbformat.write(notebook, tmp_path / path.name)
    runs.execute(tmp_path / path.name, tmp_path / "executed.ipynb")
    executed = nbformat.read(tmp_path / "executed.ipynb", as_version=4)
    assert runs.failed_checks(executed) == []
    assert check_lines(executed) == check_lines(notebook)


def test_a_run_with_other_parameters_says_whose_records_it_shows(tmp_path):
    """Once it showed those of the default parameters as its own, and passed their checks."""
    path = NOTEBOOKS[0].with_name("weights.ipynb")
    runs.execute(path, tmp_path / path.name, environment={"CLUSTERBOOK_FIGURES": str(tmp_path)},
                 values={"epochs": 3, "n_shuffles": 4, "seeds": []})

    def words(figure):      # matplotlib leaves each text as a comment beside its outlines
        found = re.findall(r"<!-- (.*?) -->", (tmp_path / f"{figure}.svg").read_text())
        return " ".join(found)

    assert "this run: digits, 3 epochs, 1 seed" in words("effects")
    for figure in ("accuracy-against-clusterability", "ways-network"):
        assert "on scikit-learn's digits, 40 epochs, 3 recorded seeds" in words(figure)
    lines = "\n".join(runs.outputs(nbformat.read(tmp_path / path.name, as_version=4)))
    assert "not checked: another seed gives another network" in lines
