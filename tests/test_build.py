"""Building the book: what is executed again, what stops a build, what a stopped build leaves."""

from __future__ import annotations

import os
import re
import shutil
import signal
import zipfile
from pathlib import Path

import nbformat
import pytest
from _support import Book, adopt, alive, tree, wait_for

from clusterbook.book import build as building
from clusterbook.book.build import BuildError, build
from clusterbook.book.runs import ChapterError
from clusterbook.errors import InputError

FIGURE = """\
from clusterbook import figures
from matplotlib.figure import Figure
figure = Figure(figsize=(2, 1))
figure.subplots().plot([0, 1])
figures.show(figure, name="a-line", alt="A line that rises.", caption="Its *slope* is one.")
"""
STEPS = """\
figures.show_steps({"one": figure, "two": figure}, name="two-steps", alt="The line, twice.",
                   caption="It *stays*.")
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A small book, built once with its chapter executed: the book, what was said, its sources."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        book = adopt(Book(tmp_path_factory.mktemp("built") / "a {book}"), monkeypatch)
        book.notebook("tiny", FIGURE, STEPS, "print('eleven times', 3)", shows="committed output")
        book.write("book/other.md", "# Another page\n\nIts text.\n")
        book.toc("book/intro", "notebooks/tiny", "book/other")
        before, said = book.sources(), []
        index = build(say=said.append)
        assert index == book.root / "_build" / "html" / "index.html"
    return book, said, before


@pytest.fixture
def site(built, monkeypatch):
    """That book and its site, which a test must leave as good as it was."""
    book, _, _ = built
    adopt(book, monkeypatch)
    page, notebook = book.root / "book" / "other.md", book.root / "notebooks" / "tiny.ipynb"
    kept = page.read_bytes(), notebook.read_bytes()
    yield book, tree(book.root / "_build" / "html")
    page.write_bytes(kept[0])
    notebook.write_bytes(kept[1])


# --- how a chapter is executed --------------------------------------------------------------


@pytest.mark.parametrize(("own", "threads"), [(None, "1"), ("", "1"), ("4", None)])
def test_a_chapter_has_one_thread_unless_the_person_says_otherwise(book, tmp_path, monkeypatch,
                                                                   own, threads):
    book.notebook("tiny", "1 + 1")
    book.toc("book/intro", "notebooks/tiny")
    asked = []

    def execute(source, output, *, environment, progress):
        asked.append(environment.get("OMP_NUM_THREADS"))
        shutil.copy2(source, output)

    monkeypatch.setattr(building, "execute", execute)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if own is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", own)
    building.executed_pages(book.root, tmp_path, run=True, progress=False, say=print)
    assert asked == [threads]


# --- a whole build ---------------------------------------------------------------------------


def test_the_first_build_executes_and_writes_only_to_its_folder(built):
    book, said, before = built
    assert said == ["1/1 tiny: executing", "building the pages"]
    assert book.sources() == before, "the build wrote into the sources"
    page = (book.root / "_build" / "html" / "notebooks" / "tiny.html").read_text()
    assert "eleven times 3" in page
    assert "committed output" not in page


def test_the_executed_notebooks_are_staged_beside_the_pages(built):
    extra = built[0].root / "_build" / "stage" / "extra"
    with zipfile.ZipFile(extra / "notebooks.zip") as archive:
        (entry,) = archive.infolist()
        text = archive.read(entry).decode()
    assert entry.filename == "notebooks/tiny.ipynb" and entry.external_attr >> 16 == 0o644
    assert "eleven times 3" in text and "committed output" not in text


def test_the_same_notebooks_are_packed_to_the_same_bytes(built, tmp_path):
    notebook = built[0].root / "notebooks" / "tiny.ipynb"
    for name, modified in (("one", 1), ("two", 10**9)):
        os.utime(notebook, (modified, modified))
        building.pack({Path("a/b.ipynb"): notebook}, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_alternative_text_and_caption_reach_the_page(built):
    book, _, _ = built
    page = (book.root / "_build" / "html" / "notebooks" / "tiny.html").read_text()
    figure = re.search(r"<figure.*?</figure>", page, re.DOTALL).group()
    assert 'id="tiny-a-line"' in figure
    assert 'alt="A line that rises."' in figure
    assert "Its <em>slope</em> is one." in figure
    assert page.count("<em>slope</em>") == 1, "the notebook's own caption was kept beside it"


def test_a_figure_in_steps_keeps_its_script_its_caption_and_has_an_anchor(built):
    book, _, _ = built
    page = (book.root / "_build" / "html" / "notebooks" / "tiny.html").read_text()
    figure = re.search(r'<figure id="tiny-two-steps" class="cb-steps".*?</figure>', page, re.DOTALL)
    assert figure.group().count("<img ") == 2 and "<script>" in figure.group()
    assert "It <em>stays</em>.</span></p></figcaption>" in figure.group()
    assert page.count("<em>stays</em>") == 1, "the notebook's own caption was kept beside it"


def test_a_second_build_does_nothing(site):
    book, before = site
    index = book.root / "_build" / "html" / "index.html"
    changed, said = index.stat().st_mtime_ns, []
    assert build(say=said.append) == index
    assert said == ["1/1 tiny: unchanged", "nothing changed since the last build"]
    assert index.stat().st_mtime_ns == changed
    assert tree(book.root / "_build" / "html") == before


def test_a_warning_stops_and_names_the_page(site):
    book, before = site
    book.write("book/other.md", "# Another page\n\n[nowhere](#nowhere)\n")
    with pytest.raises(BuildError) as error:
        build()
    assert re.search(r"^ +book/other\.md:3: WARNING: .*nowhere", str(error.value), re.MULTILINE)
    assert tree(book.root / "_build" / "html") == before


def test_a_failing_chapter_stops_with_chapter_cell_and_error(site):
    book, before = site
    book.notebook("tiny", "1 / 0")
    with pytest.raises(ChapterError, match="tiny, cell 2 failed: ZeroDivisionError"):
        build()
    assert tree(book.root / "_build" / "html") == before


def test_a_failed_check_stops_every_time(site):
    book, before = site
    book.notebook("tiny", "print('✗ tiny-accuracy: at least 0.9 was expected')")
    for _ in range(2):  # the failed run must not be taken for a good one the next time
        said = []
        with pytest.raises(ChapterError, match="tiny: a check does not hold.*\n.*tiny-accuracy"):
            build(say=said.append)
        assert said == ["1/1 tiny: executing"]
    assert tree(book.root / "_build" / "html") == before


def test_committed_outputs_are_rendered_without_executing(site, tmp_path):
    book, before = site
    said = []
    index = build(run=False, output=tmp_path / "elsewhere", say=said.append)
    assert said == ["building the pages"]
    assert index == tmp_path / "elsewhere" / "html" / "index.html"
    page = (index.parent / "notebooks" / "tiny.html").read_text()
    assert "committed output" in page
    assert tree(book.root / "_build" / "html") == before


# --- what is executed again ------------------------------------------------------------------


@pytest.fixture
def quick(book: Book, monkeypatch):
    """Builds without a kernel and without Jupyter Book: what is executed, and whether pages are."""
    done = []

    def execute(source: Path, output: Path, **options) -> None:
        done.append(source.stem)
        output.write_text(source.read_text())

    def jupyter_book(source: Path, target: Path, log: Path) -> None:
        done.append("pages")
        shutil.rmtree(target, ignore_errors=True)
        html = target / "_build" / "html"
        html.mkdir(parents=True)
        (html / "index.html").write_text(f"build {done.count('pages')}")

    monkeypatch.setattr(building, "execute", execute)
    monkeypatch.setattr(building, "jupyter_book", jupyter_book)
    book.write("src/clusterbook/extra.py", '"""An idea."""\nx = 1\n')
    book.write("src/clusterbook/below.py", "y = 1\n")
    book.write("src/clusterbook/extra.py", '"""An idea."""\nfrom .below import y\nx = y\n')
    book.notebook("tiny", "from clusterbook import extra", "extra.x")
    book.notebook("other", "1 + 1")
    book.notebook("scores", "1 + 1", folder="book", parameters=None)
    book.notebook("tiny-paper", "1 + 1", folder="book/runs")
    book.toc("book/intro", "notebooks/tiny", "notebooks/other", "book/scores",
             "book/runs/tiny-paper")

    def run() -> list[str]:
        done.clear()
        build()
        return list(done)

    return run


def test_only_what_depends_on_a_change_is_executed_again(book: Book, quick):
    assert quick() == ["tiny", "other", "scores", "pages"], "book/runs holds runs, not chapters"
    assert quick() == []

    book.notebook("tiny", "from clusterbook import extra", "extra.x + 1")
    assert quick() == ["tiny", "pages"]
    book.write("src/clusterbook/extra.py", '"""Words."""\nfrom .below import y\nx = y  # why\n')
    assert quick() == [], "comments and docstrings change no number"
    book.write("src/clusterbook/below.py", "y = 2\n")
    assert quick() == ["tiny", "pages"], "a module reached through another"
    book.write("src/clusterbook/unused.py", "z = 1\n")
    assert quick() == []

    # A page beside the chapters, such as the scorecard, shows every chapter's evidence.
    book.write("data/records/tiny-paper-seed0.json", "{}")
    assert quick() == ["tiny", "scores", "pages"]
    book.write("data/records/third-paper-seed0.json", "{}")
    assert quick() == ["scores", "pages"]
    book.write("data/claims/other.yaml", "[]")
    assert quick() == ["other", "scores", "pages"]
    book.write("data/expectations/other.yaml", "[]")
    assert quick() == ["other", "scores", "pages"]
    book.write("data/errata/other.yaml", "[]")
    assert quick() == ["other", "scores", "pages"]

    book.profile("tiny-small", seed=1)
    assert quick() == ["scores", "pages"], "it lists what can be changed"

    book.write("book/intro.md", "# A small book\n\nOther words.\n")
    assert quick() == ["pages"]
    book.write("_config.yml", "title: Another title\n")
    assert quick() == ["pages"]
    assert quick() == []


def test_stored_outputs_are_no_reason_to_execute(book: Book, quick):
    quick()
    path = book.root / "notebooks" / "tiny.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[-1].outputs = [nbformat.v4.new_output("stream", text="1")]
    nbformat.write(notebook, path)
    assert quick() == []


def test_old_executed_notebooks_are_removed(book: Book, quick):
    executed = book.root / "_build" / "executed"
    quick()
    book.notebook("tiny", "2 + 2")
    book.notebook("tiny-more", "3 + 3")
    book.toc("book/intro", "notebooks/tiny", "notebooks/tiny-more")
    quick()
    stems = sorted(path.stem.rpartition("-")[0] for path in executed.iterdir())
    assert stems == ["other", "scores", "tiny", "tiny-more"]
    assert quick() == [], "a chapter removed another one's run"


def test_a_new_version_of_what_a_chapter_runs_on_executes_it_again(book: Book, quick, monkeypatch):
    quick()
    monkeypatch.setattr(building, "_versions", lambda: {"torch": "99"})
    assert quick() == ["tiny", "other", "scores", "pages"]


# --- what a build refuses --------------------------------------------------------------------


def test_a_page_that_is_not_there(book: Book, quick):
    book.toc("book/intro", "notebooks/missing")
    with pytest.raises(InputError, match="notebooks/missing, which is not there"):
        quick()


@pytest.mark.parametrize("place", ["a file", "a file/below"])
def test_a_folder_that_cannot_be_written_is_refused_before_anything_runs(
        book: Book, quick, tmp_path, place):
    (tmp_path / "a file").write_text("in the way")
    said = []
    with pytest.raises(InputError, match="nothing can be written to .*a file"):
        build(output=tmp_path / place, say=said.append)
    assert said == []


def test_a_chapter_that_refuses_its_own_defaults_is_named(book: Book, quick, monkeypatch):
    def execute(*args, **options):
        raise InputError("there are 3 rows, but 5 clusters")

    monkeypatch.setattr(building, "execute", execute)
    with pytest.raises(ChapterError, match="tiny failed with its default .*: there are 3 rows"):
        build()


# --- a build that is stopped -----------------------------------------------------------------

WAITS = """\
import os, pathlib, time
pathlib.Path(os.environ["MARK"]).write_text(str(os.getpid()))
time.sleep(600)
"""
SLOW_PAGES = """\
def setup(app):
    import os, pathlib, time
    pathlib.Path(os.environ["MARK"]).write_text(str(os.getpid()))
    time.sleep(600)
"""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
@pytest.mark.parametrize("where", ["in a chapter", "in the pages"])
def test_a_stopped_build_leaves_the_previous_site(book: Book, tmp_path, stop, where):
    if where == "in a chapter":
        book.notebook("tiny", WAITS)
        book.toc("book/intro", "notebooks/tiny")
    else:
        book.write("book/_ext/slow.py", SLOW_PAGES)
        book.write("_config.yml", "sphinx: {local_extensions: {slow: book/_ext}}\n")
    book.write("_build/html/index.html", "the previous site")
    before, mark = book.sources(), tmp_path / "mark"

    process = book.start("book", MARK=mark)
    wait_for(lambda: mark.exists() and mark.read_text(), process)
    worker = int(mark.read_text())
    os.killpg(process.pid, stop)
    out, err = process.communicate(timeout=60)

    if stop == signal.SIGINT:
        assert process.returncode == 130
        first = "1/1 tiny: executing" if where == "in a chapter" else "building the pages"
        assert err.splitlines() == [
            first, "clusterbook: interrupted; nothing half-written was left"]
    assert out == ""
    wait_for(lambda: not alive(worker), seconds=30)
    html = book.root / "_build" / "html"
    assert list(tree(html)) == ["index.html"]
    assert (html / "index.html").read_text() == "the previous site"
    executed = book.root / "_build" / "executed"
    assert not list(executed.iterdir()), "a half-executed chapter was kept"
    assert book.sources() == before


def test_a_build_killed_between_its_two_renames_is_recovered(book: Book, quick, monkeypatch):
    quick()
    html = book.root / "_build" / "html"
    assert (html / "index.html").read_text() == "build 1"
    book.write("book/intro.md", "# Other words\n")
    rename = Path.rename

    def killed(path: Path, target: Path):
        if Path(target) == html:
            raise SystemExit("killed here")
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        with pytest.raises(SystemExit):
            quick()
    assert not html.exists(), "this test is to stop between the renames"

    # The next build puts the previous site back before anything that may fail.
    book.notebook("tiny", "2 + 2")

    def fails(*args, **options):
        raise ChapterError("tiny failed")

    with monkeypatch.context() as patch:
        patch.setattr(building, "execute", fails)
        with pytest.raises(ChapterError):
            quick()
    assert (html / "index.html").read_text() == "build 1"
    assert quick() == ["tiny", "pages"]
    assert [path.name for path in (book.root / "_build").glob("html*")] == ["html"]
