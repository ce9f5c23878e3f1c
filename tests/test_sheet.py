"""The contact sheet: every figure with its texts and files, in one page that needs nothing else."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest
from _support import Book
from bs4 import BeautifulSoup
from matplotlib.figure import Figure

from clusterbook import figures
from clusterbook.book import runs, sheet
from clusterbook.errors import InputError
from clusterbook.figures.showing import save

PARAMETERS = """\
n: int = 1  # how many <things> | paper: 1 | more
seed: int = 0  # decides everything random | paper: 0 | other numbers"""


def drawn() -> Figure:
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([0, 1])
    return figure


def page(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@pytest.fixture
def runner(book: Book, monkeypatch) -> Book:
    """A book whose chapter draws two figures, without a kernel."""
    book.notebook("tiny", "1 + 1", parameters=PARAMETERS)

    def execute(source, output, *, values, environment, progress):
        folder = Path(environment["CLUSTERBOOK_FIGURES"])
        save(drawn(), folder, "a-line", "A line & <more>.", "It *rises*; <b>not</b> `f`.")
        if values.get("n") != 9:
            save(drawn(), folder, "another", "Another.", "C.")

    monkeypatch.setattr(runs, "execute", execute)
    return book


def test_every_figure_stands_with_its_texts_and_files(runner: Book, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = runs.run("tiny", overrides={"n": "2"}, figures=Path("my figures"))
    folder = tmp_path / "my figures"
    assert said[-1] == f"contact sheet: {Path('my figures') / 'index.html'}"
    soup = page(folder / "index.html")
    assert soup.h1.get_text() == "The chapter tiny"
    assert soup.pre.get_text() == "clusterbook run tiny -p n 2 --figures 'my figures'"
    assert [s["id"] for s in soup.find_all("section")] == ["a-line", "another"]
    first = soup.find(id="a-line")
    assert first.img["alt"] == "A line & <more>."
    assert first.find("p").decode_contents() == (
        "It <em>rises</em>; &lt;b&gt;not&lt;/b&gt; <code>f</code>.")
    assert first.details.p.get_text() == "A line & <more>."
    assert (first.img["width"], first.img["height"]) == ("200", "100")
    # Every address is that of a file beside the page: nothing comes from elsewhere.
    addresses = [tag[key] for tag in soup.find_all(True) for key in ("src", "href") if key in
                 tag.attrs and not tag[key].startswith("#")]
    assert {"a-line.png", "a-line.svg", "another.png", "another.svg"} == set(addresses)
    assert all((folder / unquote(address)).is_file() for address in addresses)
    assert "http" not in str(soup) and not soup.find("script")
    changed, every = soup.find_all("table")
    assert [[c.get_text() for c in row.find_all(["th", "td"])] for row in changed.tbody("tr")] == [
        ["n", "2", "1", "how many <things>"]]
    assert len(every.tbody("tr")) == 2


def test_several_seeds_share_one_sheet(runner: Book, tmp_path):
    runs.run("tiny", seeds=[0, 1, 2], figures=tmp_path)
    soup = page(tmp_path / "index.html")
    assert soup.pre.get_text().startswith("clusterbook run tiny --seeds 0-2 --figures ")
    section = soup.find(id="a-line")
    assert [img["src"] for img in section.find_all("img")] == [
        f"seed{seed}/a-line.png" for seed in range(3)]
    assert all((tmp_path / img["src"]).is_file() for img in soup.find_all("img"))
    assert len(section.find_all("p", recursive=False)) == 1, "the caption is said once"
    assert [c.get_text(" ", strip=True).split(" PNG")[0] for c in section.find_all("figcaption")
            ] == ["seed 0", "seed 1", "seed 2"]
    assert "0, 1, 2" in soup.find("table").get_text()
    assert not list(tmp_path.glob("seed*/index.html"))


def test_the_steps_of_a_figure_are_all_there(tmp_path, monkeypatch):
    monkeypatch.setenv("CLUSTERBOOK_FIGURES", str(tmp_path))
    figures.show_steps({"epoch 1": drawn(), "<2>": drawn()}, "steps", "Alt.", "Caption.")
    sheet.write(tmp_path, title="T", command=["c"], settings="", parts={"": tmp_path})
    section = page(tmp_path / "index.html").find(id="steps")
    assert [img["src"] for img in section.find_all("img")] == ["steps-1.png", "steps-2.png"]
    assert [img["alt"] for img in section.find_all("img")] == ["Alt. epoch 1.", "Alt. <2>."]


def test_a_sheet_shows_this_run_and_no_other(runner: Book, tmp_path, monkeypatch):
    runs.run("tiny", figures=tmp_path)
    runs.run("tiny", overrides={"n": "9"}, figures=tmp_path)
    assert (tmp_path / "another.png").is_file()
    assert [s["id"] for s in page(tmp_path / "index.html").find_all("section")] == ["a-line"]


@pytest.mark.parametrize("error", [runs.ChapterError("tiny, cell 2 failed"), InputError("n"),
                                   KeyboardInterrupt()], ids=lambda error: type(error).__name__)
def test_a_run_that_does_not_end_leaves_the_figures_before_it(runner: Book, tmp_path, monkeypatch,
                                                              error):
    runs.run("tiny", figures=tmp_path / "out")
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*")}

    def fails(*args, environment, **options):
        place = Path(environment["CLUSTERBOOK_FIGURES"])
        place.mkdir(exist_ok=True)
        (place / "a-line.png").write_bytes(b"half a picture")
        raise error

    monkeypatch.setattr(runs, "execute", fails)
    with pytest.raises(type(error)):
        runs.run("tiny", overrides={"n": "3"}, figures=tmp_path / "out")
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*")} == before


def test_the_figures_of_a_finished_seed_stay_when_a_later_one_fails(runner: Book, tmp_path,
                                                                   monkeypatch):
    one = runs.one
    monkeypatch.setattr(runs, "one", lambda source, about, *rest: one(source, about, *rest)
                        if about["seed"] == 0 else _fail())
    with pytest.raises(runs.ChapterError, match="seed 1 failed"):
        runs.run("tiny", seeds=[0, 1], figures=tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["seed0"]
    assert (tmp_path / "out" / "seed0" / "a-line.png").is_file()


def _fail():
    raise runs.ChapterError("seed 1 failed")


def test_a_page_of_somebody_else_is_not_overwritten(runner: Book, tmp_path, monkeypatch):
    (tmp_path / "index.html").write_text("<title>my home page</title>")
    monkeypatch.setattr(runs, "execute", lambda *args, **options: pytest.fail("the chapter ran"))
    with pytest.raises(InputError, match="is no contact sheet"):
        runs.run("tiny", figures=tmp_path)
    assert (tmp_path / "index.html").read_text() == "<title>my home page</title>"


def test_a_seed_that_was_recorded_before_is_on_the_sheet_too(runner: Book, tmp_path, monkeypatch):
    runner.profile("tiny-small", n=2)
    asked = {"profile": "tiny-small", "records": tmp_path / "records", "figures": tmp_path / "f"}
    runs.run("tiny", seeds=[0, 1], **asked)
    monkeypatch.setattr(runs, "_recorded", lambda folder, name, *_: name.endswith("seed0"))
    runs.run("tiny", seeds=[0, 1], **asked)
    images = page(tmp_path / "f" / "index.html").find(id="a-line").find_all("img")
    assert [img["src"] for img in images] == ["seed0/a-line.png", "seed1/a-line.png"]
