"""What ``--figures DIR`` leaves: figures with their texts, and the executed notebook as a page."""

from __future__ import annotations

import json
import os
from pathlib import Path

import nbformat
import pytest
from _support import Book, inline, tree
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from bookledger import cli, execution, runs
from clusterbook.figures import showing

SHOWS = """\
from matplotlib.figure import Figure
from clusterbook import figures
drawn = Figure(figsize=(1, 1))
drawn.subplots().plot([0, n])
figures.show(drawn, name="a-line", alt="A line & <more>.", caption="It *rises*; <b>not</b> $x^2$.")
print("✗ it is <near>")"""
SAYS = "import bookledger\nbookledger.page('tiny').say(f'**It is {n}.** So.')"
PARAMETERS = """\
n: int = 1  # how many | paper: 1 | more
seed: int = 0  # decides everything random | paper: 0 | other numbers"""


def test_the_page_has_texts_and_pictures_and_no_code(book: Book, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = book.notebook("tiny", SHOWS, SAYS, parameters=PARAMETERS)
    notebook = nbformat.read(path, 4)
    notebook.cells[1:1] = [new_markdown_cell("See [the intro](../book/intro.md), "
                                             "[a site](https://a.b).", id="links"),
                           new_markdown_cell("How to run it", id="how",
                                             metadata={"tags": ["remove-report"]})]
    nbformat.write(notebook, path)
    assert cli.main(["run", "tiny", "--seeds", "0,1", "-p", "n", "2", "--figures", "my <b>"]) == 0
    out = capsys.readouterr().out
    assert f"page in {Path('my <b>', 'seed1', 'index.html')}" in out
    assert out.endswith("".join(f"tiny-seed{seed}: It is 2. So.\ntiny-seed{seed}: ✗ it is <near>\n"
                                for seed in (0, 1)))
    page = BeautifulSoup(Path("my <b>", "seed1", "index.html").read_text("utf-8"), "html.parser")
    text = " ".join(page.get_text().split())
    assert page.h1.get_text() == "The chapter tiny" and "figures.show" not in text
    for part in ("clusterbook run tiny --seeds 0,1 -p n 2 --figures 'my <b>'", "✗ it is <near>",
                 "It rises; <b>not</b>", "Written for the default run; this one has n = 2"):
        assert part in text
    assert page.img["alt"] == "A line & <more>. (Written for the default run.)"
    assert page.img["src"].startswith("data:image/png")
    assert "See the intro, a site." in text and "How to run it" not in text
    assert [link["href"] for link in page.select("a[href]")] == ["https://a.b"]
    assert not page.find("b") and not page.select("img[src^=http], link[href^=http]")


def test_a_run_that_does_not_end_leaves_the_figures_before_it(book: Book, tmp_path, monkeypatch):
    book.notebook("tiny", SHOWS, "if n == 3:\n    raise KeyboardInterrupt", parameters=PARAMETERS)
    inline(monkeypatch)
    runs.run("tiny", figures=tmp_path / "out")
    before = tree(tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        runs.run("tiny", overrides={"n": "3"}, figures=tmp_path / "out")
    assert tree(tmp_path / "out") == before


def test_a_full_disk_leaves_the_earlier_figures_whole(book: Book, tmp_path, monkeypatch, capsys):
    book.notebook("tiny", SHOWS, parameters=PARAMETERS)
    inline(monkeypatch)
    command = ["run", "tiny", "--figures", str(tmp_path / "out"), "-p", "n"]
    assert cli.main([*command, "2"]) == 0
    before, replace = tree(tmp_path / "out"), os.replace

    def full(source, target):
        if "out" in str(target) and str(target).endswith(".svg"):
            raise OSError(28, "No space left on device")
        replace(source, target)

    with monkeypatch.context() as now:
        now.setattr("clusterbook.paths.os.replace", full)
        assert cli.main([*command, "3"]) == 2
    assert "a-line.svg can't be written (No space left on device)" in capsys.readouterr().err
    assert tree(tmp_path / "out") == before
    assert cli.main([*command, "3"]) == 0 and tree(tmp_path / "out") != before


def test_a_folder_holds_figures_of_several_runs_and_says_which_command_made_which(
        book: Book, tmp_path, monkeypatch, capsys):
    steps = SHOWS.replace("show(drawn,", "show({str(i): drawn for i in range(n)},")
    book.notebook("tiny", SHOWS, steps.replace("a-line", "steps"), parameters=PARAMETERS)
    book.notebook("other", SHOWS, parameters=PARAMETERS)
    inline(monkeypatch)
    (out := tmp_path / "out").mkdir()
    (out / ".clusterbook-killed").mkdir()       # of a run that was killed
    for typed in ("-p n 3", "-p n 2 --only steps"):
        assert cli.main(f"run tiny --figures {out} {typed}".split()) == 0
    listed = json.loads((out / "figures.json").read_text())
    assert {one["name"]: one["command"].partition(" -p ")[2] for one in listed} == {
        "a-line": "n 3", "steps": "n 2 --only steps"}
    assert not (out / "steps-3.png").exists() and (out / "steps-2.svg").exists()
    assert "a-line is of an earlier run: clusterbook run tiny" in (out / "index.html").read_text()
    before = tree(out)
    assert cli.main(f"run other --figures {out}".split()) == 2 and tree(out) == before
    assert "has a figure a-line of tiny; name another folder" in capsys.readouterr().err


def test_checks_that_do_not_hold_are_named(book: Book, tmp_path, monkeypatch):
    lines = [["✓ it converges", "✗ it is near (measured 3)"],
             ["✗ it converges", "a line ✗ of no check"],
             ["✓ it converges", "not checked: seeds agree; give several seeds"], ["✓ it converges"]]

    def execute(*args, values, **options):
        text = "\n".join(lines[values.get("seed", 0)])
        return new_notebook(cells=[new_code_cell(outputs=[new_output("stream", text=text)])])

    book.notebook("tiny", "1", parameters=PARAMETERS)
    monkeypatch.setattr(execution, "execute", execute)
    assert runs.run("tiny", seeds=[0, 1, 2, 3]) == [
        f"tiny-seed0: {lines[0][1]}", f"tiny-seed1: {lines[1][0]}", f"tiny-seed2: {lines[2][1]}"]
    assert runs.run("tiny", seeds=[3]) == []


def test_a_run_with_other_parameters_says_so_under_each_figure(monkeypatch):
    for changed, says in (
            ({"n": 3, "seed": 4}, "this one has `n = 3`, `seed = 4`.)"),
            ({"name": "a" * 50 + "`_*", "k": [1, 2], "rate": 0.1, "n": 2, "m": 3, "o": 4},
             "this one has `name = 'aaaaaaaaaaaa...aaaaaaaaaa'_*'`, `k = [1, 2]`, `rate = 0.1`, "
             "`n = 2`, and 2 more.)")):
        monkeypatch.setenv("CLUSTERBOOK_RUN", json.dumps({"changed": changed}))
        assert showing._checked("a", "A.", "C.") == {
            "name": "a", "alt": "A. (Written for the default run.)",
            "caption": f"C. (Written for the default run; {says}"}
    monkeypatch.setenv("CLUSTERBOOK_RUN", json.dumps({"changed": {}}))
    assert showing._checked("a", "A.", "C.")["caption"] == "C."
