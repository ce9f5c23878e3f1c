"""Names, files and errors that nobody expects are read, shown or refused in words."""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from clusterbook import datasets, figures
from clusterbook.checks import InputError
from clusterbook.datasets import formats, own
from clusterbook.paths import as_csv


def test_a_spreadsheet_runs_nothing_of_a_csv():
    bad = ["=cmd|' /C calc'!A0", "@SUM(A1)", "+1+2", "-2+3", "\tx"]
    kept = ["plain", "a=b", "-1.5", "", None]
    text = as_csv(pd.DataFrame({"=HYPERLINK()": bad, "b": kept, "c": np.arange(-2.0, 3)}))
    back = pd.read_csv(pd.io.common.StringIO(text), keep_default_na=False)
    assert list(back) == ["'=HYPERLINK()", "b", "c"]
    assert list(back.iloc[:, 0]) == [f"'{cell}" for cell in bad]
    assert list(back["b"]) == ["plain", "a=b", "-1.5", "", ""] and back["c"].min() == -2
    series = figures.steps.plotted(figures.training_curves(
        [{"label": "v", "runs": {"=1+1": ([1, 2], [3, 4])}}]))
    assert not [line for line in series.splitlines() if line.startswith(("=", "+", "@"))]


@pytest.mark.parametrize("name", ["cost ($) per unit ($)", "%$#@!$"])
def test_a_dollar_sign_of_a_name_is_shown(name, tmp_path):
    chart = figures.heatmap({name: np.eye(2)}, rows=[name, "b"], columns=["c", name],
                            row_label=name, column_label="d", values=name)
    chart.savefig(tmp_path / "drawn.svg")           # mathtext would lose the signs, or raise
    shown = [label.get_text() for axis in chart.axes for label in axis.get_yticklabels()]
    assert name in shown and not chart.axes[0].yaxis.get_label().get_parse_math()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "table.csv")
    with pytest.raises(InputError, match="there is no file"):
        datasets.read(tmp_path / "table.csv")
    for name in ("a.png", "b.png"):
        Image.new("L", (4, 4)).save(tmp_path / name)
    os.mkfifo(tmp_path / "c.png")
    assert own.Folder(tmp_path).names == ["a.png", "b.png"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_of_a_folder_are_named(tmp_path):
    for place in ("in/cat", "in/dog", "out"):
        (tmp_path / place).mkdir(parents=True)
        Image.new("L", (4, 4)).save(tmp_path / place / "1.png")
    Path(tmp_path, "in/cat/2.png").symlink_to(tmp_path / "out/1.png")
    Path(tmp_path, "in/owl").symlink_to(tmp_path / "out")
    Path(tmp_path, "in/ape").symlink_to(tmp_path / "in/dog")            # inside
    with pytest.warns(UserWarning, match="links lead out of .*: 'owl', 'cat/2.png'$"):
        assert len(datasets.find_images(tmp_path / "in")) == 5


def test_an_error_without_words_is_named(tmp_path, monkeypatch):
    def full(*_, **__):
        raise MemoryError

    (tmp_path / "table.csv").write_text("a,b\n1,2\n3,4\n")
    monkeypatch.setattr(formats, "read", full)
    with pytest.raises(InputError, match="can't be read: MemoryError"):
        datasets.read(tmp_path / "table.csv")
