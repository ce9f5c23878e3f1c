"""Building the book: what is executed again, what stops a build, what a stopped build leaves."""

from __future__ import annotations

import base64
import io
import re
import shutil
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import nbformat
import numpy as np
import pytest
import yaml
from _support import CHECKOUT, CONFIG, Book, adopt, tree
from matplotlib.image import imsave
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from clusterbook.book import build as building
from clusterbook.book import runs
from clusterbook.book import stage as staging
from clusterbook.book.build import BuildError, build
from clusterbook.book.runs import ChapterError
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


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A small book, built once with its chapter executed: the book, what was said, its sources."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        book = adopt(Book(tmp_path_factory.mktemp("built") / "a {book}"), monkeypatch)
        book.notebook("tiny", *FIGURES, "print('eleven times', 3)", shows="committed output")
        book.write("book/other.md", "# Another page\n\nIts text.\n")
        book.toc("book/intro", "notebooks/tiny", "book/other")
        before, said = book.sources(), []
        index = build(say=said.append)
        assert index == book.root / "_build" / "html" / "index.html"
        yield book, said, before


def test_the_first_build_executes_and_writes_only_to_its_folder(built):
    book, (first, second, third), before = built
    assert (first, third) == ("executing 1 notebooks, 1 at a time", "building the pages")
    assert re.fullmatch(r"tiny: executed in \d+ s \(1 of 1\)", second)
    assert book.sources() == before, "the build wrote into the sources"
    made = book.root / "_build"
    with zipfile.ZipFile(made / "stage" / "extra" / "notebooks.zip") as archive:
        (entry,) = archive.infolist()
        packed = archive.read(entry).decode()
    assert entry.filename == "notebooks/tiny.ipynb" and entry.external_attr >> 16 & 0o777 == 0o644
    page = (made / "html" / "notebooks" / "tiny.html").read_text()
    for text in (page, packed):
        assert "eleven times 3" in text and "committed output" not in text
    line, steps = (re.search(rf'<figure[^>]* id="tiny-{name}".*?</figure>', page, re.DOTALL).group()
                   for name in ("a-line", "two-steps"))
    assert 'alt="A line that rises."' in line and "Its <em>slope</em> is one." in line
    assert steps.count("<img ") == 1 and "It <em>stays</em>." in steps
    drawn = (made / "stage/drawings/tiny-two-steps.html").read_text()
    assert len(re.findall("<svg |<img ", drawn)) == 2 and "<script>" in drawn
    for kind in ("png", "svg", "csv"):      # of the position that is shown first
        first, alone = (made / "stage/extra/figures/tiny" / name / f"{name}.{kind}"
                        for name in ("two-steps", "a-line"))
        assert first.read_bytes() == alone.read_bytes(), kind
    assert page.count("<em>slope</em>") == page.count("<em>stays</em>") == 1, "a caption is twice"


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
    assert tree(html) == before


@pytest.mark.parametrize(("cores", "own", "number", "threads"), [
    (4, None, 3, "1"), (1, "", 1, "1"), (4, "2", 2, "2"), (2, "8", 1, "8")])
def test_the_number_of_processes(book: Book, tmp_path, monkeypatch, cores, own, number, threads):
    asked, executed = [], []

    @contextmanager
    def processes(*numbers):
        asked.append(numbers)
        with ThreadPoolExecutor(1) as pool:
            yield pool.submit

    monkeypatch.setattr("clusterbook.book.runs.processes", processes)
    monkeypatch.setattr("clusterbook.book.runs.cores", lambda: cores)
    monkeypatch.setattr(building, "_execute", lambda path, cached: executed.append(path.stem) or 1)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if own is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", own)
    names = ("a", "b", building._LONGEST)
    for name in names:
        book.notebook(name, "1")
    book.toc("book/intro", *(f"notebooks/{name}" for name in names))
    building.executed_pages(book.root, tmp_path, run=True, say=print)
    assert asked == [(number, threads)] and executed == [building._LONGEST, "a", "b"]


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

    monkeypatch.setattr(runs, "execute", execute)
    monkeypatch.setattr("clusterbook.book.runs.apart",
                        lambda owner, threads, function, *arguments: function(*arguments))
    monkeypatch.setattr("clusterbook.book.runs.cores", lambda: 1)
    monkeypatch.setattr(building, "jupyter_book", jupyter_book)
    for name in ("write_crate", "write_models"):
        monkeypatch.setattr(f"clusterbook.evidence.provenance.{name}", lambda folder: None)
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
    everything = ["tiny", "other", "scores", "pages"]       # book/runs holds runs, not chapters
    assert quick() == everything and quick() == []
    book.notebook("tiny", "from clusterbook import extra", "extra.x + 1")
    assert quick() == ["tiny", "pages"]
    # A page beside the chapters, such as the scorecard, shows every chapter's evidence.
    for file, text, executed in (
            ("src/clusterbook/extra.py", '"""An idea."""\nfrom .below import y\nx=y  # why\n', []),
            ("src/clusterbook/below.py", "y = 2\n", ["tiny", "other", "scores"]),
            ("src/clusterbook/evidence/extra.py", "z = 1\n", []),          # changes no number
            ("data/records/tiny-paper-seed0.json", "{}", ["tiny", "scores"]),
            ("data/records/third-paper-seed0.json", "{}", ["scores"]),
            ("data/claims/other.yaml", "[]", ["other", "scores"]),
            ("data/expectations/other.yaml", "[]", ["other", "scores"]),
            ("data/errata/other.yaml", "[]", ["other", "scores"]),
            ("data/sources/other.yaml", "[]", ["other", "scores"]),
            ("notebooks/profiles/tiny-small.yaml",
             "{chapter: tiny, says: A., parameters: {seed: 1}}", ["scores"]),
            ("book/intro.md", "# A small book\n\nOther words.\n", []),
            ("_config.yml", "title: Another title\n", [])):
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
    book.toc("book/intro", "notebooks/missing")
    with pytest.raises(InputError, match="notebooks/missing, which is not there"):
        quick()
    assert quick.done == [], "it is refused before anything runs"


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
    assert quick() == ["tiny", "tiny-more", "pages"]
    stems = sorted(path.stem.rpartition("-")[0]
                   for path in (book.root / "_build" / "executed").iterdir())
    assert stems == ["tiny", "tiny-more"], "what no page shows stays in the cache"


def test_a_failing_chapter_stops_no_other_and_only_it_is_executed_again(book: Book, quick):
    quick()
    quick.fails["other"] = ChapterError("its kernel died")
    for name in ("tiny", "other"):
        book.notebook(name, "from clusterbook import extra", "2 + 2")
    book.notebook("scores", "2 + 2", folder="book", parameters=None)
    with pytest.raises(BuildError) as error:
        quick()
    assert quick.done == ["tiny", "other", "scores"]
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


def test_print_shows_tables_as_text(book: Book, tmp_path):
    path = book.notebook("tiny", "table")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[-1].outputs = [nbformat.v4.new_output("display_data", data={
        "text/html": "<table><tr><th>a</th></tr><tr><td>c &amp; d</td></tr></table>",
        "text/plain": text}) for text in ("<IPython.core.display.HTML object>", "  a\n0 1")]
    nbformat.write(notebook, path)
    staging.stage(book.root, tmp_path / "stage", {Path("notebooks/tiny.ipynb"): path})
    staged = nbformat.read(tmp_path / "stage" / "notebooks" / "tiny.ipynb", as_version=4)
    first, second = (output.data["text/plain"] for output in staged.cells[-1].outputs)
    assert first.split() == ["a", "c", "&", "d"] and "\n" in first and second == "  a\n0 1"


def test_a_recorded_picture_of_lines_is_marked_and_its_origin_explained(book: Book, tmp_path):
    def picture(share: float) -> str:
        pixels = np.ones((200, 200, 3))
        pixels[:round(200 * (1 - share))] = 0
        imsave(buffer := io.BytesIO(), pixels, format="png")
        return base64.b64encode(buffer.getvalue()).decode()

    path = book.notebook("tiny-digits-seed0", "lines", "images", folder="book/runs")
    notebook = nbformat.read(path, as_version=4)
    for cell, share in zip(notebook.cells[-2:], (0.9, 0.4), strict=True):
        cell.outputs = [nbformat.v4.new_output(
            "display_data", data={"image/png": picture(share)}, metadata={"clusterbook": {
                "alt": "a picture", "caption": "See.", "name": cell.source,
                "origin": "live · seed 0; recorded tiny-digits · seeds 0–2"}})]
    nbformat.write(notebook, path)
    place = path.relative_to(book.root)
    staging.stage(book.root, tmp_path / "stage", {place: path})
    shown = [cell.metadata["mystnb"] for cell in nbformat.read(
        tmp_path / "stage" / place, as_version=4).cells if "mystnb" in cell.metadata]
    assert [one["image"].get("classes") for one in shown] == ["cb-lines", None]
    assert all("{term}`live` · seed 0; {term}`recorded` tiny" in one["figure"]["caption"]
               for one in shown)


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
    config["sphinx"] = {"local_extensions": {"pages": "book/_ext"}, "config": {
        name: value for name, value in ours["sphinx"]["config"].items() if "latex" in name}}
    book.write("_config.yml", yaml.safe_dump(config))
    book.write("book/_ext/pages.py", (CHECKOUT / "book" / "_ext" / "pages.py").read_text())
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


def test_hidden_code_and_checks_are_folded_together():
    def cell(source, *outputs, tags=("hide-input",)):
        return new_code_cell(source, metadata={"tags": list(tags)}, outputs=[
            new_output("display_data", data={"text/plain": text}) for text in outputs])

    cells = [cell("n: int = 1", tags=["hide-input", "parameters"]), cell("a = 1"),
             cell("b = 2"), cell("show(b)", "a picture"), cell("check(b)", "✓ two"), cell("c = 3"),
             cell("check(c)", "✓ <three>"), cell("record()", "not recorded", tags=["remove-cell"]),
             cell("check(d)", "✗ four"), new_markdown_cell("Text."), cell("e = 5"),
             cell("check(e)", "✓ five", tags=[]), cell("f = 6"), new_markdown_cell("The end.")]
    joined = staging._joined(cells)
    assert [one.source for one in joined] == [
        "n: int = 1", "a = 1\n\n\nb = 2\n\n\nshow(b)", "check(b)", "Text.", "e = 5", "check(e)",
        "f = 6", "The end."]
    three, alone = (joined[i].outputs[0]["data"]["text/html"] for i in (2, 5))
    assert "<summary>✗ four</summary><p>✓ two</p>" in three and "<p>✓ &lt;three&gt;</p>" in three
    assert three.count('<div class="highlight">') == 3
    assert joined[2].metadata.tags == ["remove-input"] and joined[5].metadata.tags == []
    assert alone == '<p class="cb-check">✓ five</p>'
    held = staging._joined(cells[4:7])[0].outputs[0]["data"]["text/html"]
    assert "<summary>✓ 2 checks hold</summary>" in held
