"""Building the book: what is executed again, what stops a build, what a stopped build leaves."""

from __future__ import annotations

import base64
import io
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import nbformat
import numpy as np
import pytest
import yaml
from _support import CHECKOUT, CONFIG, Book, adopt, in_this_process, tree
from bs4 import BeautifulSoup
from matplotlib.image import imsave
from nbformat.v4 import new_code_cell, new_output

from bookledger import build as building
from bookledger.build import BuildError, build
from bookledger.execution import ChapterError
from clusterbook.errors import InputError

FIGURES = ("""\
from clusterbook import figures
from matplotlib.figure import Figure


def line(*heights):
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot(heights)
    return figure


figures.show(line(0, 1), name="a-line", alt="A line that rises.", caption="Its *slope* is one.")
""", """\
figures.show({"one": line(0, 1), "two": line(1, 0)}, name="two-steps", start="one",
             alt="A line that rises, and one that falls.", caption="It *stays*.")
""")


def picture(share: float, height: int = 200) -> str:
    """A PNG in base64, of which that share is white."""
    pixels = np.ones((height, 200, 3))
    pixels[:round(height * (1 - share))] = 0
    imsave(buffer := io.BytesIO(), pixels, format="png")
    return base64.b64encode(buffer.getvalue()).decode()


def recorded(book: Book) -> None:
    """A recorded run with figures of earlier code: no drawing, and steps that are HTML."""
    path = book.notebook("tiny-digits-seed0", "lines", "images", "low", "steps", "told",
                         folder="book/runs")
    notebook = nbformat.read(path, as_version=4)
    for cell, (share, height) in zip(notebook.cells[-5:], (
            (0.9, 200), (0.4, 200), (0.4, 50), (0.4, 200), (0, 0)), strict=True):
        if not height:
            cell.outputs = [new_output("display_data", data={"text/plain": "Removed: <it>."})]
            continue
        cell.outputs = [new_output(
            "display_data", data={"image/png": picture(share, height)}, metadata={"clusterbook": {
                "alt": "a picture", "caption": "See.", "name": cell.source,
                "origin": "live · seed 0; recorded tiny-digits · seeds 0–2"}})]
        if cell.source == "steps":
            cell.outputs[0].data["text/html"] = '<figure class="cb-steps">as before</figure>'
    nbformat.write(notebook, path)


def checked(book: Book) -> None:
    """A page with hidden code and checks, as it was executed."""
    def cell(source, *outputs, tags=("hide-input",)):
        return new_code_cell(source, metadata={"tags": list(tags)}, outputs=[
            new_output("display_data", data={"text/plain": text}) for text in outputs])

    path = book.notebook("checked", folder="book", parameters=None)
    notebook = nbformat.read(path, as_version=4)
    notebook.cells += [
        cell("n: int = 1", tags=["hide-input", "parameters"]), cell("a = 1"), cell("b = 2"),
        cell("show(b)", "a picture"), cell("check(b)", "✓ two"), cell("c = 3"),
        cell("check(c)", "✓ <three>"), cell("record()", "not recorded", tags=["remove-cell"]),
        cell("check(d)", "✗ four"), nbformat.v4.new_markdown_cell(
            "## More\n\n:::{view} scorecard\n\n[Elsewhere](nowhere.md).\n:::"),
        cell("check(e)", "✓ five", tags=[]), cell("f = 6")]
    nbformat.write(notebook, path)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A small book, built once with its chapter executed: the book, what was said, its sources."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        book = adopt(Book(tmp_path_factory.mktemp("built") / "a {book}"), monkeypatch)
        book.notebook("tiny", *FIGURES, "print('eleven times', 3)", shows="committed output")
        book.write("book/other.md", "# Another page\n\nIts text.\n")
        book.write("book/glossary.md", "# Terms\n\n```{glossary}\nlive\n  Now.\n\n"
                   "recorded\n  Then.\n```\n")
        recorded(book)
        book.toc("book/intro", "notebooks/tiny", "book/other", "book/glossary",
                 "book/runs/tiny-digits-seed0")
        before, said = book.sources(), []
        index = build(say=said.append)
        assert index == book.root / "_build" / "html" / "index.html"
        yield book, said, before


def page(book: Book, name: str) -> BeautifulSoup:
    text = (book.root / "_build" / "html" / f"{name}.html").read_text(encoding="utf-8")
    return BeautifulSoup(text, "html.parser")


def test_the_first_build_executes_and_writes_only_to_its_folder(built):
    book, (first, second, third), before = built
    assert (first, third) == ("executing 1 notebooks, 1 at a time", "building the pages")
    assert re.fullmatch(r"tiny: executed in \d+ s \(1 of 1\)", second)
    assert book.sources() == before, "the build wrote into the sources"
    html = book.root / "_build" / "html"
    with zipfile.ZipFile(html / "notebooks.zip") as archive:
        (entry,) = archive.infolist()
        packed = archive.read(entry).decode()
    assert entry.filename == "notebooks/tiny.ipynb" and entry.external_attr >> 16 & 0o777 == 0o644
    assert '"drawn"' not in packed and packed == (
        html / "_sources/notebooks/tiny.ipynb").read_text(encoding="utf-8")
    for text in (page(book, "notebooks/tiny").get_text(), packed):
        assert "eleven times 3" in text and "committed output" not in text
    line, steps = page(book, "notebooks/tiny").select("figure")
    assert line["id"] == "tiny-a-line" and steps["id"] == "tiny-two-steps"
    assert [svg["aria-label"] for svg in line.select("svg")] == ["A line that rises."]
    assert line.find("em").text == "slope" and steps.find("em").text == "stays"
    assert len(line.select("figcaption")) == 1
    assert len(steps.select(".cb-step > :is(svg, img)")) == 2 and steps.find("script")
    shown = [part.text for part in page(book, "notebooks/tiny").select("article em")]
    assert shown == ["slope", "stays"], "a caption is twice"
    for kind in ("png", "svg", "csv"):      # of the position that is shown first
        first, alone = (html / "figures/tiny" / name / f"{name}.{kind}"
                        for name in ("two-steps", "a-line"))
        assert first.read_bytes() == alone.read_bytes(), kind
    assert [link.text for link in line.select(".cb-row a")] == ["PNG", "SVG", "CSV", "Permalink"]
    assert line.select_one(".cb-row pre").text.startswith("clusterbook run tiny --only a-line")


def test_a_recorded_run_shows_its_pictures_and_says_where_from(built):
    run = page(built[0], "book/runs/tiny-digits-seed0")
    pictures = run.select("figure .cb-picture[tabindex='0'] img")
    assert [image.get("class") for image in pictures] == [["cb-lines"], None]
    assert run.select_one("figure#tiny-digits-seed0-steps div.cb-steps").text == "as before"
    assert [said.text for said in run.select("p.cb-check")] == [
        "Left out: the figure low, which shows nothing in this run.", "Removed: <it>."]
    terms = [link.text for link in run.select("figure .legend a")]
    assert terms == ["live", "recorded"] * 3 and not run.select(".cb-row")


def test_a_second_build_does_nothing_and_a_warning_stops_one(built):
    book, said = built[0], []
    html = book.root / "_build" / "html"
    before = tree(html)
    assert build(say=said.append) == html / "index.html"
    assert said == ["nothing changed since the last build"]
    book.write("book/other.md", "# Another page\n\n[nowhere](#nowhere)\n")
    with pytest.raises(BuildError) as error:
        build()
    assert re.search(r"^ +book/other\.md:3: WARNING: .*nowhere", str(error.value), re.MULTILINE)
    book.write("book/other.md", "# Another page\n\n:::{view} scorecrd\n:::\n")
    with pytest.raises(BuildError, match="did you mean.*scorecard"):
        build()
    assert tree(html) == before


def test_checks_and_hidden_code_fold_and_views_are_those_of_the_build(book: Book):
    checked(book)
    book.toc("book/intro", "book/checked")
    build(run=False)
    shown = page(book, "book/checked")
    one, two = shown.select(".cb-check")
    assert one.summary.text == "✗ four" and two.name == "p" and two.text == "✓ five"
    assert [part.text for part in one.select("p")] == ["✓ two", "✓ <three>", "✗ four"]
    code = [part.get_text().strip() for part in one.select("pre")]
    assert code == ["check(b)", "c = 3", "check(c)", "check(d)"]
    folded = [[part.get_text().strip() for part in fold.select("pre")]
              for fold in shown.select("details.hide")]
    assert folded == [["n: int = 1"], ["a = 1", "b = 2", "show(b)"], ["f = 6"]]
    assert shown.select_one(".cb-say").text.strip() and "Elsewhere" not in shown.get_text()


def test_as_many_notebooks_run_as_there_are_cores_and_the_longest_begins(book: Book, tmp_path,
                                                                          monkeypatch):
    asked, executed = [], []

    @contextmanager
    def processes(number: int) -> Iterator:
        from concurrent.futures import ThreadPoolExecutor

        asked.append(number)
        with ThreadPoolExecutor(1) as pool:
            yield pool.submit

    monkeypatch.setattr("bookledger.execution.processes", processes)
    monkeypatch.setattr(building, "_execute", lambda path, cached: executed.append(path.stem) or 1)
    for name in ("a", "b", "comparison"):
        book.notebook(name, "1")
    for cores, number in ((2, 2), (4, 3)):
        monkeypatch.setattr("bookledger.execution.cores", lambda cores=cores: cores)
        building.executed_pages(book.root, tmp_path, run=True, say=print)
        assert asked.pop() == number and executed == ["comparison", "a", "b"]
        executed.clear()


@pytest.fixture
def quick(book: Book, monkeypatch):
    """Builds without a kernel and without Jupyter Book: what is executed, and whether pages are."""
    done = []

    def execute(source: Path, output: Path) -> nbformat.NotebookNode:
        done.append(source.stem)
        if source.stem in run.fails:
            raise run.fails[source.stem]
        notebook = nbformat.read(source, as_version=4)
        if "print" in notebook.cells[-1].source:
            text = re.search("'(.*)'", notebook.cells[-1].source)[1]
            notebook.cells[-1].outputs = [nbformat.v4.new_output("stream", text=text)]
        nbformat.write(notebook, output)
        return notebook

    def jupyter_book(source: Path, target: Path, builder: str) -> Path:
        done.append("pages")
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        (target / "index.html").write_text(f"build {done.count('pages')}")
        return target

    monkeypatch.setattr("bookledger.execution.execute", execute)
    monkeypatch.setattr("bookledger.execution.processes",
                        lambda *numbers: nullcontext(in_this_process))
    monkeypatch.setattr(building, "jupyter_book", jupyter_book)
    monkeypatch.setattr(building, "__file__", str(book.engine / "build.py"))
    book.write("src/clusterbook/below.py", "y = 1\n")
    book.write("src/clusterbook/extra.py", '"""An idea."""\nfrom .below import y\nx = y\n')
    book.notebook("tiny", "from clusterbook import extra", "extra.x")
    book.notebook("other", "1 + 1")
    book.notebook("scores", "1 + 1", folder="book", parameters=None)
    book.notebook("tiny-paper", "1 + 1", folder="book/runs")
    book.toc("book/intro", "notebooks/tiny", "notebooks/other", "book/scores",
             "book/runs/tiny-paper")

    def run(**options) -> list[str]:
        done.clear()
        build(**options)
        return list(done)

    run.done, run.fails = done, {}
    return run


def test_only_what_depends_on_a_change_is_executed_again(book: Book, quick, monkeypatch):
    book.notebook("scores", "evidence.recorded('tiny', 'x')", folder="book", parameters=None)
    book.notebook("other", 'evidence.check("other-right")', "evidence.load_claims()")
    everything = ["scores", "other", "tiny", "pages"]       # book/runs holds runs, not chapters
    assert quick() == everything and quick() == []
    book.notebook("tiny", "page('tiny')", "extra.x + 1")
    assert quick() == ["tiny", "pages"]
    right = "- id: {}\n  says: It is right.\n  relation: holds\n"
    for file, text, executed in (
            ("src/bookledger/verdicts.py", "# another rule\n", []),
            ("data/records/tiny-paper-seed0.json", "{}", ["scores", "tiny"]),
            ("data/records/third-paper-seed0.json", "{}", []),
            ("data/claims/tiny.yaml", "[]", ["other"]),
            ("data/expectations/other.yaml", right.format("other-left"), []),
            ("data/expectations/other.yaml", right.format("other-right"), ["other"]),
            ("data/expectations/drawn/tiny.json", "{}", ["tiny"]),
            ("data/errata/other.yaml", "[]", []),
            ("data/sources/other.yaml", "[]", []),
            ("notebooks/profiles/tiny-small.toml", "says = 'A.'\nparameters = {seed = 1}\n", []),
            ("book/intro.md", "# A small book\n\nOther words.\n", []),
            ("_config.yml", "title: Another title\n", []),
            ("src/clusterbook/extra.py", "x = 2\n", everything[:-1])):
        (book.root / file).unlink(missing_ok=True)      # it may be a link to the real one
        book.write(file, text)
        assert quick() == [*executed, "pages"], file
    assert quick() == []
    monkeypatch.setattr(building, "version", lambda name: "99")
    assert quick() == everything


def test_stored_outputs_are_no_reason_to_execute_and_can_be_rendered(book: Book, quick, tmp_path):
    quick()
    book.notebook("tiny", "from clusterbook import extra", "extra.x", shows="committed output")
    assert quick() == ["pages"] == quick(run=False, output=tmp_path / "elsewhere")
    staged = tmp_path / "elsewhere" / "stage" / "notebooks" / "tiny.ipynb"
    assert "committed output" in staged.read_text()


def test_a_failed_check_stops_each_build_and_the_site_stays(book: Book, quick):
    quick()
    before = tree(book.root / "_build" / "html")
    book.notebook("tiny", "print('✗ tiny-accuracy: at least 0.9')")
    for _ in range(2):  # a failed run must not be taken from the cache
        with pytest.raises(BuildError, match="notebooks/tiny.ipynb: a check does not hold.*"
                                             "\n    ✗ tiny-accuracy: at least 0.9"):
            quick()
    assert quick.done == ["tiny"] and tree(book.root / "_build" / "html") == before
    book.notebook("tiny", "2 + 2")
    book.notebook("tiny-more", "3 + 3")
    book.toc("book/intro", "notebooks/tiny", "notebooks/tiny-more")
    assert quick() == ["tiny-more", "tiny", "pages"]
    stems = sorted(path.stem.rpartition("-")[0]
                   for path in (book.root / "_build" / "executed").iterdir())
    assert stems == ["other", "scores", "tiny", "tiny-more"], "an earlier one stays in the cache"


def test_a_failing_chapter_stops_no_other_and_only_it_is_executed_again(book: Book, quick):
    quick()
    quick.fails["other"] = ChapterError("its kernel died")
    for name in ("tiny", "other"):
        book.notebook(name, "from clusterbook import extra", "2 + 2")
    book.notebook("scores", "2 + 2", folder="book", parameters=None)
    with pytest.raises(BuildError) as error:
        quick()
    assert quick.done == ["scores", "other", "tiny"]
    assert str(error.value).splitlines() == [
        "1 of 3 notebooks failed; the earlier site stays, and the next build executes only what "
        "failed", "  notebooks/other.ipynb: its kernel died"]
    assert (book.root / "_build" / "html" / "index.html").read_text() == "build 1"
    quick.fails.clear()
    assert quick() == ["other", "pages"]


def test_a_build_killed_between_its_two_renames_is_recovered(book: Book, quick):
    quick()
    html = book.root / "_build" / "html"
    html.rename(html.with_name("html.old"))
    # The next build puts the previous site back before anything that may fail or be interrupted.
    book.notebook("tiny", "2 + 2")
    for error in (ChapterError("its kernel died"), KeyboardInterrupt()):
        quick.fails["tiny"] = error
        with pytest.raises((BuildError, KeyboardInterrupt)):
            quick()
        assert (html / "index.html").read_text() == "build 1"
    quick.fails.clear()
    assert quick() == ["tiny", "pages"]
    assert [path.name for path in (book.root / "_build").glob("html*")] == ["html"]


def test_the_pdf_replaces_the_previous_one_unless_latex_fails(book: Book, quick, monkeypatch):
    with monkeypatch.context() as without:
        without.setattr(building.shutil, "which", {"latexmk": "latexmk"}.get)
        with pytest.raises(InputError, match="and xelatex can't be .*install latexmk texlive-xe"):
            build(pdf=True)
    assert not (book.root / "_build").exists()

    def latex(script: str) -> None:
        book.write("tools/latexmk", f"#!{sys.executable}\n{script}\n").chmod(0o755)

    latex("print('! Undefined control sequence.'); raise SystemExit(12)")
    (book.root / "tools" / "xelatex").symlink_to("latexmk")
    monkeypatch.setenv("PATH", str(book.root / "tools"), prepend=":")
    previous = book.write("_build/pdf/clusterbook.pdf", "the previous one")
    with pytest.raises(BuildError, match="(?s)LaTeX failed.*Undefined control sequence.*log"):
        quick(run=False, pdf=True)
    assert previous.read_text() == "the previous one"
    site, said = book.write("_build/html/index.html", "the site"), []
    latex("open('clusterbook.pdf', 'w').write('the new one')")
    assert build(run=False, pdf=True, say=said.append) == previous
    assert previous.read_text() == "the new one" and site.read_text() == "the site"
    assert said == ["building the pages", "setting the pages with LaTeX"]


@pytest.mark.skipif(not all(map(shutil.which, ("latexmk", "xelatex"))),
                    reason="no LaTeX on this machine")
def test_a_small_book_is_set_with_formulas_and_a_table(book: Book):
    ours = yaml.safe_load((CHECKOUT / "_config.yml").read_text(encoding="utf-8"))
    config = yaml.safe_load(CONFIG)
    config |= {name: ours[name] for name in ("latex", "parse", "repository")}
    config["sphinx"]["config"] = {name: value for name, value in
                                  ours["sphinx"]["config"].items() if "latex" in name}
    book.write("_config.yml", yaml.safe_dump(config))
    book.write("book/intro.md", "# A small book\n\n$\\mathcal{L}_1 = \\beta_i^2$ and Σβ ≥ 2 ✓.\n\n"
               "| what | " + " | ".join("abcde") + " |\n" + "|---" * 6 + "|\n"
               + "| a long row of words | 1 | 2 | 3 | 4 | $x$ |\n" * 40)
    book.notebook("tiny", "'✓ ✗ ᵢ ₖ 0.1 ± 0.2'", "table", shows=f"✓ 1 ✗ 2 {'x' * 90}\n")
    book.toc("book/intro", "notebooks/tiny")
    made = build(run=False, pdf=True)
    assert made.read_bytes().startswith(b"%PDF") and made.stat().st_size > 20_000
    log = next((book.root / "_build" / "rendered").rglob("clusterbook.log"))
    text = log.read_text(errors="replace")
    assert "Missing character" not in text and "Overfull \\hbox" not in text
