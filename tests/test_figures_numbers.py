"""The numbers of figures, which every page compares: other ones are found."""

import json

import numpy as np
import pytest
from matplotlib.figure import Figure

import bookledger as evidence
from bookledger.checks import differences
from clusterbook import figures
from clusterbook.checks import InputError


def curves(**runs) -> Figure:
    return figures.training_curves([
        {"label": "ACC", "runs": {name: (range(9), y) for name, y in runs.items()}}])


def strip(quantity="ACC", unit=1.0, **groups) -> Figure:
    return figures.seed_strip({name: [unit * one for one in values]
                               for name, values in groups.items()}, quantity=quantity)


def heat(values, **options) -> Figure:
    return figures.heatmap({"t": values}, rows="abcd", columns="abcd", row_label="r",
                           column_label="c", values="v", **options)


RISES, HIGHER, UPPER = np.linspace(0, 1, 9), np.linspace(0.5, 0.9, 9), np.triu(np.ones((4, 4)))
HIGH, LOW = [0.8, 0.82, 0.81], [0.3, 0.35, 0.31]


@pytest.mark.parametrize("right, wrong", [
    (curves(a=RISES, b=HIGHER), curves(a=RISES[::-1], b=HIGHER[::-1])),
    (curves(a=RISES, b=HIGHER), curves(b=RISES, a=HIGHER)),
    (strip(with_=HIGH, without=LOW), strip(with_=LOW, without=HIGH)),
    (strip("bits", with_=HIGH), strip("bits", np.log(2), with_=HIGH)),
    (heat(UPPER), heat(UPPER.T)), (heat(UPPER), heat(UPPER, diverging=True)),
    (heat(UPPER, outlined={"t": [(0, 3)]}), heat(UPPER, outlined={"t": [(3, 3)]})),
    ({str(i): heat(i * UPPER) for i in (0, 1)}, {str(i): heat((1 - i) * UPPER) for i in (0, 1)}),
], ids=["mirrored", "swapped-lines", "swapped-rows", "nats", "transposed", "colors", "outlined",
        "swapped-steps"])
def test_other_numbers_in_a_figure_are_found(right, wrong):
    series = figures.numbers(right)
    assert not differences({"series": series, "within": 0.01}, figures.numbers(right))
    assert differences({"series": series, "within": 0.25}, figures.numbers(wrong))


def test_drawn_compares_every_figure_that_was_shown(monkeypatch, tmp_path):
    (expected := tmp_path / "data/expectations/drawn").mkdir(parents=True)
    monkeypatch.setattr("clusterbook.paths.root", lambda: tmp_path)
    monkeypatch.setattr(figures, "shown", dict)
    with pytest.raises(InputError, match="no numbers are expected of a page 'page'"):
        evidence.page("page").drawn()
    series = figures.numbers(strip(with_=HIGH, without=LOW))
    (expected / "page.json").write_text(json.dumps({"seeds": {"within": 0.25, "series": series}}))
    assert "seeds: other series" in (missing := evidence.page("page").drawn()) and not missing
    monkeypatch.setattr(figures, "shown", lambda: {"seeds": series})
    assert (line := evidence.page("page").drawn()) and line.startswith("✓ the figure on")
    monkeypatch.setattr("clusterbook.paths.run_context", lambda: {"changed": {"seed": 1}})
    assert evidence.page("page").drawn().startswith("not checked: ")
