"""A chapter run with other parameters says whose records its figures show."""

from __future__ import annotations

import re
from pathlib import Path

from clusterbook.book import runs

WEIGHTS = Path(__file__).resolve().parents[1] / "notebooks" / "weights.ipynb"


def test_a_run_with_other_parameters_says_whose_records_it_shows(tmp_path):
    """Once it showed those of the default parameters as its own, and passed their checks."""
    executed = runs.execute(
        WEIGHTS, tmp_path / WEIGHTS.name, environment={"CLUSTERBOOK_FIGURES": str(tmp_path)},
        values={"epochs": 3, "n_shuffles": 4, "seeds": []})

    def words(figure):      # matplotlib leaves each text as a comment beside its outlines
        found = re.findall(r"<!-- (.*?) -->", (tmp_path / f"{figure}.svg").read_text())
        return " ".join(found)

    assert "this run: digits, 3 epochs, 1 seed" in words("effects")
    for figure in ("accuracy-against-clusterability", "ways-network"):
        assert "on scikit-learn's digits, 40 epochs, 3 recorded seeds" in words(figure)
    lines = "\n".join(runs.outputs(executed))
    assert "not checked: another seed gives another network" in lines
