"""The contact sheet: every figure with its texts and files, in one page that needs nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from _support import Book, tree
from bs4 import BeautifulSoup
from matplotlib.figure import Figure
from nbformat.v4 import new_code_cell, new_notebook, new_output

from bookledger import cli, parameters, runs, sheet
from clusterbook import figures
from clusterbook.figures import showing
from clusterbook.figures.showing import save

PARAMETERS = """\
n: int = 1  # how many <things> | paper: 1 | more
seed: int = 0  # decides everything random | paper: 0 | other numbers"""


def drawn() -> Figure:
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([0, 1])
    return figure


def page(folder: Path) -> BeautifulSoup:
    return BeautifulSoup((folder / "index.html").read_text(encoding="utf-8"), "html.parser")


@pytest.fixture
def runner(book: Book, monkeypatch) -> Book:
    """A book whose chapter draws two figures, without a kernel."""
    book.notebook("tiny", "1 + 1", parameters=PARAMETERS)

    def execute(source, output, *, values, environment, progress):
        folder = Path(environment["CLUSTERBOOK_FIGURES"])
        save(drawn(), folder, "a-line", "A line & <more>.", "It *rises*; <b>not</b> `f`.")
        if values.get("n") != 9:
            save(drawn(), folder, "another", "Another.", "C.")
        return new_notebook()

    monkeypatch.setattr(runs, "execute", execute)
    return book


def test_every_figure_stands_with_its_texts_and_files(runner: Book, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["run", "tiny", "-p", "n", "2", "--figures", "my figures"]) == 0
    folder = tmp_path / "my figures"
    assert f"contact sheet: {Path('my figures') / 'index.html'}" in capsys.readouterr().out
    soup = page(folder)
    assert soup.h1.get_text() == "The chapter tiny"
    assert soup.pre.get_text() == "clusterbook run tiny -p n 2 --figures 'my figures'"
    assert [s["id"] for s in soup.find_all("section")] == ["a-line", "another"]
    first = soup.find(id="a-line")
    assert first.img["alt"] == "A line & <more>."
    assert first.find("p").decode_contents() == (
        "It <em>rises</em>; &lt;b&gt;not&lt;/b&gt; <code>f</code>.")
    # Every address is that of a file beside the page: nothing comes from elsewhere.
    addresses = {tag[key] for tag in soup.find_all(True) for key in ("src", "href")
                 if key in tag.attrs}
    assert addresses == {"a-line.png", "a-line.svg", "another.png", "another.svg"}
    assert all((folder / address).is_file() for address in addresses)
    assert "http" not in str(soup) and not soup.find("script")
    rows = [[c.get_text() for c in row(["th", "td"])] for row in soup.find("table").tbody("tr")]
    assert rows[0] == ["n", "2", "1", "how many <things>"] and len(rows) == 2
    runs.run("tiny", overrides={"n": "9"}, figures=folder)
    assert (folder / "another.png").is_file(), "an earlier run's, and not on this run's sheet"
    assert [s["id"] for s in page(folder).find_all("section")] == ["a-line"]


def test_several_seeds_and_steps_share_one_sheet(runner: Book, tmp_path, monkeypatch):
    runs.run("tiny", seeds=[0, 1, 2], figures=tmp_path)
    section = page(tmp_path).find(id="a-line")
    assert [img["src"] for img in section.find_all("img")] == [
        f"seed{seed}/a-line.png" for seed in range(3)]
    assert len(section.find_all("p", recursive=False)) == 1, "the caption is said once"
    assert [c.get_text() for c in section.find_all("figcaption")] == ["seed 0", "seed 1", "seed 2"]
    assert "0, 1, 2" in page(tmp_path).find("table").get_text()
    monkeypatch.setenv("CLUSTERBOOK_FIGURES", str(tmp_path / "steps"))
    figures.show({"epoch 1": drawn(), "<2>": drawn()}, "steps", "Alt.", "Caption.")
    sheet.write(tmp_path / "steps", title="T", chapter=parameters.read("tiny"),
                values=[{"n": 1, "seed": 0}], parts={"": tmp_path / "steps"})
    images = page(tmp_path / "steps").find(id="steps").find_all("img")
    assert [(img["src"], img["alt"]) for img in images] == [
        ("steps-1.png", "Alt. epoch 1."), ("steps-2.png", "Alt. <2>.")]


def test_a_run_that_does_not_end_leaves_the_figures_before_it(runner: Book, tmp_path, monkeypatch):
    out, execute = tmp_path / "out", runs.execute
    runs.run("tiny", figures=out)
    before = tree(out)

    def fails(*args, values, environment, **options):
        if values.get("seed") == 5:
            return execute(*args, values=values, environment=environment, **options)
        Path(environment["CLUSTERBOOK_FIGURES"], "a-line.png").write_bytes(b"half a picture")
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "execute", fails)
    with pytest.raises(KeyboardInterrupt):
        runs.run("tiny", overrides={"n": "3"}, figures=out)
    assert tree(out) == before
    with pytest.raises(KeyboardInterrupt):
        runs.run("tiny", seeds=[5, 6], figures=tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["seed5"], "a finished seed"


def test_checks_that_do_not_hold_stand_at_the_head_of_the_sheet(runner: Book, tmp_path,
                                                               monkeypatch):
    lines = [["✓ it converges", "✗ it is <near> (measured 3)"],
             ["✗ it converges", "a line ✗ of no check"],
             ["✓ it converges", "not checked: seeds agree; give several seeds"], ["✓ it converges"]]

    def execute(*args, values, **options):
        text = "\n".join(lines[values.get("seed", 0)])
        return new_notebook(cells=[new_code_cell(outputs=[new_output("stream", text=text)])])

    monkeypatch.setattr(runs, "execute", execute)
    counted = "checks: 2 failed, 1 not made"
    assert runs.run("tiny", seeds=[0, 1, 2], figures=tmp_path)[-1] == counted
    assert [item.get_text() for item in page(tmp_path).ul("li")] == [
        counted, f"seed 0: {lines[0][1]}", f"seed 1: {lines[1][0]}", f"seed 2: {lines[2][1]}"]
    assert runs.run("tiny", seeds=[3], figures=tmp_path)[-1].startswith("contact sheet: ")
    assert page(tmp_path).ul is None


def test_a_seed_that_was_recorded_before_is_on_the_sheet_too(runner: Book, tmp_path, monkeypatch):
    runner.profile("tiny-small", n=2)
    record = SimpleNamespace(checks={"tiny-near": False, "tiny-far": True})
    for found in (None, record):
        monkeypatch.setattr(runs, "recorded", lambda run, path, found=found:
                            found if run.values["seed"] == 0 else None)
        runs.run("tiny", seeds=[0, 1], profile="tiny-small", records=tmp_path / "records",
                 figures=tmp_path / "f")
    soup = page(tmp_path / "f")
    assert [img["src"] for img in soup.find(id="a-line").find_all("img")] == [
        "seed0/a-line.png", "seed1/a-line.png"]
    assert soup.ul("li")[1].get_text() == "seed 0: ✗ tiny-near"


def test_a_run_with_other_parameters_says_so_under_each_figure(runner: Book, tmp_path, monkeypatch):
    found = []

    def execute(source, output, *, values, environment, progress):
        with pytest.MonkeyPatch.context() as kernel:
            kernel.setenv("CLUSTERBOOK_RUN", environment["CLUSTERBOOK_RUN"])
            found.append(showing._checked("a", "A.", "C."))
        return new_notebook()

    monkeypatch.setattr(runs, "execute", execute)
    runs.run("tiny", overrides={"n": "3"}, seeds=[4], figures=tmp_path)
    runs.run("tiny", seeds=[0], figures=tmp_path)
    assert found == [{"name": "a", "alt": "A. (Written for the default run.)", "caption":
                      "C. (Written for the default run; this one has `n = 3`, `seed = 4`.)"},
                     {"name": "a", "alt": "A.", "caption": "C."}]
    # Long and many values are cut.
    changed = {"name": "a" * 50 + "`_*", "k": [1, 2], "rate": 0.1, "n": 2, "m": 3, "o": 4}
    monkeypatch.setenv("CLUSTERBOOK_RUN", json.dumps({"changed": changed}))
    assert showing._checked("a", "A.", "C.")["caption"] == (
        "C. (Written for the default run; this one has `name = 'aaaaaaaaaaaa...aaaaaaaaaa'_*'`, "
        "`k = [1, 2]`, `rate = 0.1`, `n = 2`, and 2 more.)")
