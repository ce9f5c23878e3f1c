"""Nothing is replaced that the command did not write: refused in one sentence before a run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import nbformat
import pytest
from _support import Book
from matplotlib.figure import Figure
from nbformat.v4 import new_notebook
from PIL import Image

from clusterbook import cli
from clusterbook.book import ours, runs, worker
from clusterbook.errors import InputError
from clusterbook.figures.showing import save

PARAMETERS = """\
dataset: str = "wine"  # the data | paper: wine | another
n: int = 1  # a count | paper: 1 | more
seed: int = 0  # decides everything random | paper: 0 | other numbers"""
OTHERS = {                              # a person's own, by the name that would be taken
    "my.csv": "a,b\n1,2\n", "my.ipynb": "a,b\n1,2\n", "my-seed1.ipynb": "{}",
    "index.html": "<title>my home page</title>", "figures.json": '["mine"]',
    "a-line.png": "a photo", "a-line.svg": "<svg></svg>", "sweep.csv": "name,mass\na,1\n",
    "tiny-small-seed0.json": '{"mine": 1}',
}


@pytest.fixture
def tiny(book: Book, tmp_path, monkeypatch) -> Book:
    """A chapter that must not run; the person stands in an empty folder."""
    book.notebook("tiny", "1 + 1", parameters=PARAMETERS)
    book.notebook("other", "2 + 2", parameters=PARAMETERS)
    book.profile("tiny-small", n=2)
    for place, name in ((runs, "execute"), (worker, "work")):
        monkeypatch.setattr(place, name, lambda *args, **options: pytest.fail("the chapter ran"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return book


def drawn() -> Figure:
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([0, 1])
    return figure


def refused(capsys, *words: object) -> str:
    """The sentence of a refusal; no file has changed."""
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert cli.main(list(map(str, words))) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("clusterbook: ") and err.count("\n") == 1
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    return err


@pytest.mark.parametrize(("other", "words"), [
    ("my.csv", "run tiny --output my.csv"),
    ("my.ipynb", "run tiny --output my.ipynb"),
    ("my-seed1.ipynb", "run tiny --output my.ipynb --seeds 0-1"),
    ("index.html", "run tiny --figures ."),
    ("figures.json", "run tiny --figures ."),
    ("a-line.png", "run tiny --figures ."),
    ("a-line.svg", "run tiny --figures ."),
    ("tiny-small-seed0.json", "run tiny --profile tiny-small --record ."),
    ("index.html", "sweep tiny -p n 1,2 --output ."),
    ("a-line.png", "sweep tiny -p n 1,2 --output ."),
    ("sweep.csv", "sweep tiny -p n 1,2 --output ."),
], ids=lambda part: part.replace(" ", "-"))
def test_a_file_of_the_persons_own_is_not_replaced(tiny: Book, capsys, other, words):
    Path(other).write_text(OTHERS[other])
    assert other in refused(capsys, *words.split())


def test_a_file_in_the_folder_of_one_of_several_seeds_is_not_replaced(tiny: Book, capsys):
    Path("seed1").mkdir()
    Image.new("RGB", (2, 2)).save("seed1/photo.png")
    assert "photo.png" in refused(capsys, "run", "tiny", "--seeds", "0-1", "--figures", ".")
    Path("out").mkdir()
    Path("out/seed0").write_text("mine")
    assert "seed0" in refused(capsys, "run", "tiny", "--seeds", "0-1", "--figures", "out")


def test_a_folder_in_the_place_of_a_file_is_refused(tiny: Book, capsys):
    for folder in ("index.html", "sweep.csv", "tiny-small-seed0.pt", "x.ipynb"):
        Path(folder).mkdir()
    for words in ("run tiny --figures .", "sweep tiny -p n 1,2 --output .",
                  "run tiny --profile tiny-small --record .", "run tiny --output x.ipynb"):
        refused(capsys, *words.split())


@pytest.mark.parametrize("link", [False, True], ids=["file", "link"])
def test_the_data_of_a_run_are_not_replaced_by_its_notebook(tiny: Book, capsys, link):
    data = tiny.root / "notebooks" / "tiny.ipynb"       # of the same chapter, and still the data
    place = Path("data.ipynb")
    if link:
        place.symlink_to(data)
    else:
        place.write_bytes(data.read_bytes())
        data = place
    assert "is the file that dataset names" in refused(
        capsys, "run", "tiny", "-p", "dataset", data, "--output", place)


def test_a_link_to_a_file_of_the_persons_own_is_not_replaced(tiny: Book, capsys):
    Path("my.csv").write_text("a,b\n1,2\n")
    for target in ("my.csv", "gone.csv"):
        Path("link.ipynb").unlink(missing_ok=True)
        Path("link.ipynb").symlink_to(target)
        refused(capsys, "run", "tiny", "--output", "link.ipynb")
        assert os.readlink("link.ipynb") == target


def test_a_notebook_of_another_chapter_is_not_replaced(tiny: Book, capsys):
    other = Path("other.ipynb")
    other.write_bytes((tiny.root / "notebooks" / "other.ipynb").read_bytes())
    assert "other.ipynb is not a notebook of tiny" in refused(
        capsys, "run", "tiny", "--output", other)
    nbformat.write(new_notebook(cells=[nbformat.v4.new_code_cell("mine")]), "mine.ipynb")
    refused(capsys, "run", "tiny", "--output", "mine.ipynb")


def test_what_the_command_wrote_is_replaced(tiny: Book, monkeypatch):
    def execute(source, output, *, values, environment, progress):
        output.write_bytes(source.read_bytes())
        if folder := environment.get("CLUSTERBOOK_FIGURES"):
            save(drawn(), Path(folder), "a-line", "A line.", "C.")
        return new_notebook()

    monkeypatch.setattr(runs, "execute", execute)
    chapter = tiny.root / "notebooks" / "tiny.ipynb"
    for output in (Path("new.ipynb"), Path("new.ipynb"), chapter):
        runs.run("tiny", output=output, figures=Path("figures"))
        runs.run("tiny", output=output, figures=Path("figures"), seeds=[0, 1])


def test_pages_of_recorded_runs_are_runs_of_their_chapters():
    from clusterbook import paths

    pages = list((paths.root() / "book" / "runs").glob("*.ipynb"))
    assert pages
    for page in pages:
        for chapter in paths.chapters():
            notebook = paths.root() / "notebooks" / f"{chapter}.ipynb"
            if page.name.startswith(f"{chapter}-"):
                ours.refuse_notebook(page, notebook)
            else:
                with pytest.raises(InputError, match=f"is not a notebook of {chapter}"):
                    ours.refuse_notebook(page, notebook)


def test_tables_beside_the_notebook_are_named(tiny: Book, monkeypatch):
    asked = []

    def execute(source, output, *, values, environment, progress):
        stem = json.loads(environment["CLUSTERBOOK_RUN"])["output"]
        asked.append((stem, environment["CLUSTERBOOK_TABLES"]))
        table = Path(environment["CLUSTERBOOK_TABLES"]) / f"{stem}-clusters.csv"
        table.with_name(".draft").write_text("row,cluster\n")
        table.with_name(".draft").replace(table)
        table.with_name("my-seed0-2.ipynb").write_text("of another run, at the same time")
        output.write_bytes(source.read_bytes())
        return new_notebook()

    monkeypatch.setattr(runs, "execute", execute)
    Path("out").mkdir()
    for name in ("my-notes.txt", "my-seed0-old.csv"):
        Path("out", name).write_text("mine")
    said = runs.run("tiny", output=Path("out/my.ipynb"))
    assert said == ["tiny-seed0: notebook in out/my.ipynb",
                    "tiny-seed0: tables my-clusters.csv in out"]
    said = runs.run("tiny", output=Path("out/my.ipynb"), seeds=[0, 1])
    assert said[1::2] == [f"tiny-seed{seed}: tables my-seed{seed}-clusters.csv in out"
                          for seed in (0, 1)]
    here = str(Path("out").resolve())
    assert asked == [("my", here), ("my-seed0", here), ("my-seed1", here)]
    assert runs.run("tiny", output=Path("out/my.ipynb"))[1:] == [
        "tiny-seed0: tables my-clusters.csv in out"], "written anew"


def test_the_output_is_a_notebook(tiny: Book, capsys):
    for name in ("out.csv", "out", "out.IPYNB"):
        assert "write out.ipynb" in refused(capsys, "run", "tiny", "--output", name)
    sentence = refused(capsys, "run", "tiny", "--output", f"{'x' * 246}.ipynb")
    assert "name too long" in sentence, "it would have fit, the draft beside it not"
