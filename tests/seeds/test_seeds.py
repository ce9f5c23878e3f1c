"""A chapter's checks hold at other seeds and threads too: they expect properties, not luck.

One run per chapter replaces its main seed and its list of further seeds. A page of the book has no
parameters; where it names a seed, that is replaced. `make seeds` runs this, not `make test`.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from clusterbook.book import parameters, runs

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
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


@pytest.mark.parametrize("threads", [2, 4])         # every other test runs with one
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_checks_hold_with_other_numbers_of_threads(path, threads, tmp_path):
    executed = runs.execute(path, tmp_path / path.name,
                            environment={"OMP_NUM_THREADS": str(threads)})
    assert runs.failed_checks(executed) == []
    assert check_lines(executed) == check_lines(nbformat.read(path, as_version=4))


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
