"""A chapter's checks hold at other seeds too: they expect properties, not luck.

One run per chapter replaces its main seed and its list of further seeds. A page of the book has no
parameters; where it names a seed, that is replaced. `make seeds` runs this, not `make test`.
"""

import os
import re
import sys

import nbformat
import pytest
from _support import CHECKOUT, Torchrun, without_settings

from bookledger import execution, parameters
from clusterbook import paths

NOTEBOOKS = [path for path in sorted((paths.root() / "notebooks").glob("*.ipynb"))
             if "seeds" in parameters.read(path.stem).parameters]
SEED = re.compile(r"^seed = 0\b", re.MULTILINE)
PAGES = [path for path in sorted((paths.root() / "book").glob("*.ipynb"))
         if any(SEED.search(cell.source) for cell in nbformat.read(path, as_version=4).cells)]
OTHER_SEEDS = list(range(101, 111))
FEWER = {"comparison": 3}       # six trainings a seed: ten of them would take as long as all others


def checks(notebook) -> list[str]:
    """The lines of a notebook's checks, but that on what the figures draw with its own seed."""
    return [line for line in execution.failed_checks(notebook, "✓ ")
            if "on this page show" not in line]


def all_hold(source, stored, folder, **options) -> None:
    """Execute a notebook; its checks hold, and are those of the stored one."""
    executed = execution.execute(source, folder / "executed.ipynb", **options)
    assert checks(executed) == checks(stored)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_checks_hold_at_ten_other_seeds(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    known = parameters.read(path.stem).parameters
    assert not {known["seed"].default, *known["seeds"].default} & set(OTHER_SEEDS)
    main, *further = OTHER_SEEDS[:FEWER.get(path.stem)]
    all_hold(path, notebook, tmp_path, values={"seed": main, "seeds": further})


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_pages_checks_hold_at_another_seed(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.source = SEED.sub(f"seed = {OTHER_SEEDS[0]}", cell.source)
    nbformat.write(notebook, tmp_path / path.name)
    all_hold(tmp_path / path.name, notebook, tmp_path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_chapter_runs_under_torchrun(tmp_path):
    run = Torchrun(tmp_path, without_settings() | {"PYTHONPATH": str(CHECKOUT / "src")},
                   "deepcluster", "--only", "training", "-p", "epochs", "2", "-p", "n_clusters",
                   "10", "--figures", "figures")
    status, said = run.end()
    assert status == 0, said
    assert said.count("deepcluster-seed0: figures in figures") == 1
    assert os.listdir(tmp_path) == ["figures"] and (tmp_path / "figures/training.png").is_file()
