"""Running a chapter: strict before it starts, whole or nothing when it ends."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import nbformat
import pytest
from _support import SEED, Book, alive, shown, wait_for
from nbformat.v4 import new_notebook

from clusterbook.book import runs
from clusterbook.book.runs import ChapterError
from clusterbook.errors import InputError
from clusterbook.evidence import fingerprint, load_records

TYPES = """\
n: int = 1  # a count | paper: 1 | more
rate: float = 0.5  # a rate | paper: 0.5 | faster
deep: bool = False  # whether | paper: no | deeper
name: str = "digits"  # a text | paper: none | another
limit: int | None = None  # a bound | paper: none | bounded
seeds: list[int] = []  # further runs | paper: none | more"""
MARK = "import os, pathlib; pathlib.Path(os.environ['MARK']).write_text('ran')"


def sources(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


def earlier_run(book: Book, place: Path) -> str:
    """Put what stands for an earlier run of the chapter there; its text."""
    place.write_text((book.root / "notebooks" / "tiny.ipynb").read_text() + "\n\n")
    return place.read_text()


# --- what reaches the notebook ---------------------------------------------------------------


def test_values_reach_the_notebook_in_their_types(book: Book, tmp_path, caplog):
    book.notebook("tiny", "print([n, rate, deep, name, limit, seeds])", parameters=TYPES)
    runs.run("tiny", output=tmp_path / "out.ipynb",
             overrides={"n": "7", "rate": "1e-3", "deep": "true", "name": "3", "limit": "5",
                        "seeds": "0-2,9"})
    assert "[7, 0.001, True, '3', 5, [0, 1, 2, 9]]" in shown(tmp_path / "out.ipynb")
    said = [record.message for record in caplog.records if record.name == "papermill"]
    assert said == [], "papermill would have warned on the terminal"


def test_a_default_run_leaves_the_notebook_as_it_is(book: Book, tmp_path, monkeypatch):
    path = book.notebook("tiny", "import os; print(n, sorted(os.listdir()))", parameters=TYPES)
    before = book.sources()
    stand = tmp_path / "here {x}"
    stand.mkdir()
    monkeypatch.chdir(stand)
    # A value that is the default already is no change either.
    said = runs.run("tiny", overrides={"n": "1"}, output=Path("new folder") / "{n} out.ipynb")

    output = stand / "new folder" / "{n} out.ipynb"  # relative to where the person stands
    assert "1 []" in shown(output), "a notebook runs in an empty folder of its own"
    assert sources(output) == sources(path)
    assert [path.name for path in output.parent.iterdir()] == [output.name]
    executed = nbformat.read(output, as_version=4)
    assert "papermill" not in executed.metadata
    assert all("papermill" not in cell.metadata for cell in executed.cells)
    assert [cell.id for cell in executed.cells] == ["tiny-0", "tiny-1", "tiny-2"]
    assert len(said) == 1 and "{n} out.ipynb" in said[0]
    assert book.sources() == before, "a run wrote into the checkout"


def test_a_relative_file_is_looked_for_where_the_person_stands(book: Book, tmp_path):
    book.notebook("tiny", "from clusterbook import datasets\n"
                          "data = datasets.read(dataset)\n"
                          "print(data.X.tolist(), data.feature_names, data.y)",
                  parameters='dataset: str = "wine"  # the data | paper: wine | another')
    stand = tmp_path / "stands {here}"
    (stand / "tables").mkdir(parents=True)
    (stand / "tables" / "my.csv").write_text("a,b\n1,2\n3,5\n")
    asked = ("run", "tiny", "--output", "out.ipynb", "-p", "dataset")
    done = book.command(*asked, "tables/my.csv", cwd=stand)
    assert done.returncode == 0, done.stderr
    assert "[[1.0, 2.0], [3.0, 5.0]] ('a', 'b') None" in shown(stand / "out.ipynb")
    done = book.command(*asked, "tables/my.cvs", cwd=stand)
    assert done.returncode == 2
    assert f"there is no file {stand / 'tables' / 'my.cvs'}; did you mean 'my.csv'?" in done.stderr


# --- what is refused before anything runs ----------------------------------------------------


@pytest.mark.parametrize(("asked", "names"), [
    ({"chapter": "tyni"}, ("'tyni'", "'tiny'")),
    ({"profile": "tiny-smal"}, ("'tiny-smal'", "'tiny-small'")),
    ({"overrides": {"sed": "1"}}, ("'sed'", "'seed'")),
    ({"overrides": {"seed": "one"}}, ("seed", "int", "'one'")),
    ({"overrides": {"seed": "1.5"}}, ("seed", "int", "1.5")),
    ({"overrides": {"seed": "1"}, "profile": "tiny-small", "records": "records"}, ("--profile",)),
    ({"records": "records"}, ("--profile",)),
    ({"output": "."}, ("folder",)),
    ({"output": "a file/out.ipynb"}, ("a file", "folder")),
    ({"figures": "a file"}, ("a file", "folder")),
    ({"figures": "a file/below"}, ("a file", "folder")),
    ({"profile": "tiny-small", "records": "a file/below"}, ("a file", "folder")),
], ids=str)
def test_mistakes_are_refused_before_anything_runs(book: Book, tmp_path, monkeypatch, asked, names):
    book.notebook("tiny", MARK)
    book.profile("tiny-small", seed=3)
    (tmp_path / "a file").write_text("in the way")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MARK", str(tmp_path / "mark"))
    places = {key: Path(asked[key]) for key in ("output", "figures", "records") if key in asked}
    with pytest.raises(InputError) as error:
        runs.run(**{"chapter": "tiny", **asked, **places})
    for name in names:
        assert name in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "mark").exists(), "the chapter ran"


def test_seeds_need_a_seed(book: Book, tmp_path, monkeypatch):
    monkeypatch.setenv("MARK", str(tmp_path / "mark"))
    book.notebook("tiny", MARK, parameters="n: int = 1  # a count | paper: 1 | more")
    with pytest.raises(InputError, match="no parameter 'seed'"):
        runs.run("tiny", seeds=[0, 1])
    assert not (tmp_path / "mark").exists()


# --- what fails while it runs ----------------------------------------------------------------


def test_an_error_for_the_person_comes_back_as_its_one_sentence(book: Book, tmp_path):
    book.notebook("tiny", "from clusterbook.errors import InputError\n"
                          "raise InputError('there are 3 rows, but 5 clusters; ask for fewer')")
    output = tmp_path / "out.ipynb"
    earlier = earlier_run(book, output)
    with pytest.raises(InputError) as error:
        runs.run("tiny", output=output)
    assert str(error.value) == "there are 3 rows, but 5 clusters; ask for fewer"
    assert output.read_text() == earlier
    assert [path.name for path in tmp_path.iterdir() if path != book.root] == ["out.ipynb"]


def test_another_error_names_chapter_cell_and_error(book: Book, tmp_path):
    book.notebook("tiny", "x = 1", "total = 0\ntotal / 0")
    with pytest.raises(ChapterError) as error:
        runs.run("tiny", output=tmp_path / "out.ipynb")
    first, *excerpt = str(error.value).splitlines()
    assert first == "tiny, cell 3 failed: ZeroDivisionError: division by zero"
    assert excerpt == ["    total = 0", "    total / 0"]
    assert not (tmp_path / "out.ipynb").exists()


def test_a_kernel_that_dies_is_a_chapter_that_failed(book: Book, tmp_path):
    book.notebook("tiny", "import os; os._exit(9)")
    with pytest.raises(ChapterError, match="tiny failed: its kernel died"):
        runs.run("tiny", output=tmp_path / "out.ipynb")
    assert not (tmp_path / "out.ipynb").exists()


# --- what a run leaves -----------------------------------------------------------------------


def test_figures_are_written_as_png_and_svg(book: Book, tmp_path, monkeypatch):
    book.notebook("tiny", "from clusterbook import figures\n"
                          "from matplotlib.figure import Figure\n"
                          "figure = Figure(figsize=(2, 1))\n"
                          "figure.subplots().plot([0, seed])\n"
                          "figures.show(figure, name='a-line', alt='A line.', caption='C.')")
    monkeypatch.chdir(tmp_path)
    runs.run("tiny", overrides={"seed": "2"}, figures=Path("my figures"))
    written = sorted(path.name for path in (tmp_path / "my figures").iterdir())
    assert written == ["a-line.png", "a-line.svg", "figures.json", "index.html"]
    assert (tmp_path / "my figures" / "a-line.png").read_bytes().startswith(b"\x89PNG")
    assert "A line." in (tmp_path / "my figures" / "a-line.svg").read_text()


RECORDS = """\
import os, pathlib, time
from clusterbook import evidence
"""
# Seed 1 waits to be stopped for as long as its marker's folder is there.
WAITS = """\
if seed == 1 and pathlib.Path(os.environ['MARK']).parent.is_dir():
    pathlib.Path(os.environ['MARK']).write_text(str(os.getpid()))
    time.sleep(600)
"""
RECORD = "evidence.record({'twice': 2.0 * seed})"


def test_a_stopped_repetition_loses_nothing_and_goes_on(book: Book, tmp_path):
    book.notebook("tiny", RECORDS, WAITS, RECORD)
    book.profile("tiny-small", seed=7)
    mark = tmp_path / "block" / "mark"
    temporary = tmp_path / "temporary"
    mark.parent.mkdir()
    temporary.mkdir()
    kept = book.root / "out-seed1.ipynb"
    earlier = earlier_run(book, kept)
    asked = ("run", "tiny", "--profile", "tiny-small", "--seeds", "0-1", "--output", "out.ipynb",
             "--record", "records")

    process = book.start(*asked, MARK=mark, TMPDIR=temporary)
    wait_for(lambda: mark.exists() and mark.read_text(), process)
    kernel = int(mark.read_text())
    os.killpg(process.pid, signal.SIGINT)  # Ctrl-C reaches everything in the terminal
    out, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert err.strip() == "clusterbook: interrupted; nothing half-written was left"
    assert kept.read_text() == earlier
    assert "twice" in "".join(sources(book.root / "out-seed0.ipynb"))
    assert sorted(path.name for path in (book.root / "records").iterdir()) == [
        "tiny-small-seed0.json"]
    wait_for(lambda: not alive(kernel), seconds=10)
    assert not list(temporary.glob("clusterbook-*")), "a temporary folder was left"
    assert not list(book.root.glob(".out*")), "a half-written notebook was left"

    first = (book.root / "records" / "tiny-small-seed0.json").read_bytes()
    mark.unlink()
    mark.parent.rmdir()
    done = book.command(*asked, MARK=mark)
    assert done.returncode == 0, done.stderr
    assert "tiny-small-seed0: recorded already, skipped" in done.stdout
    assert (book.root / "records" / "tiny-small-seed0.json").read_bytes() == first
    second = json.loads((book.root / "records" / "tiny-small-seed1.json").read_text())
    assert second["metrics"] == {"twice": 2.0} and second["seed"] == 1
    assert second["parameters"] == {"seed": 1} and second["profile"] == "tiny-small"
    assert kept.read_text() != earlier


def test_a_record_holds_the_code_at_the_start_of_its_run(book: Book, tmp_path):
    extra = book.write("src/clusterbook/extra.py", "x = 1\n")
    edit = f"import clusterbook.extra\npathlib.Path({str(extra)!r}).write_text('x = 2')"
    book.notebook("tiny", RECORDS + edit, RECORD)
    book.profile("tiny-small")
    before = fingerprint("tiny")
    runs.run("tiny", profile="tiny-small", seeds=[4], records=tmp_path)
    (record,) = load_records(tmp_path)
    assert record.code == before != fingerprint("tiny")


def test_a_record_is_made_again_when_parameters_or_code_changed(book: Book, tmp_path, monkeypatch):
    book.notebook("tiny", RECORDS + "import clusterbook.extra", RECORD,
                  parameters=SEED + "\nn: int = 1  # a count | paper: 1 | more")
    extra = book.write("src/clusterbook/extra.py", '"""An idea."""\nx = 1\n')
    book.profile("tiny-small", n=2)
    records = tmp_path / "records"
    runs.run("tiny", profile="tiny-small", seeds=[4], records=records)
    assert [path.name for path in records.iterdir()] == ["tiny-small-seed4.json"]

    ran = []

    def execute(*args, values, **options):
        ran.append(values)
        return new_notebook()

    monkeypatch.setattr(runs, "execute", execute)

    def again(seeds=(4,)) -> list[dict]:
        ran.clear()
        runs.run("tiny", profile="tiny-small", seeds=list(seeds), records=records)
        return list(ran)

    assert again() == []
    assert again((4, 5)) == [{"n": 2, "seed": 5}], "only the seed without a record runs"
    extra.write_text('"""Another docstring."""\nx = 1  # a comment\n')
    assert again() == []
    extra.write_text('"""An idea."""\nx = 2\n')
    assert again() == [{"n": 2, "seed": 4}], "the code changed"
    extra.write_text('"""An idea."""\nx = 1\n')
    assert again() == []
    cell = SEED + ("\nn: int = 1  # a count | paper: 1 | more"
                   "\nlate: int = 3  # a third | paper: no | more")
    book.notebook("tiny", RECORDS + "import clusterbook.extra", RECORD, parameters=cell)
    assert again() == [], "a parameter that came later is at its default"
    book.profile("tiny-small", n=2, late=4)
    assert again() == [{"n": 2, "seed": 4, "late": 4}], "the profile sets it"
    book.profile("tiny-small", n=2)
    book.profile("tiny-small", n=3)
    assert again() == [{"n": 3, "seed": 4}], "a parameter changed"


def test_several_seeds_write_one_notebook_and_one_folder_of_figures_each(book: Book, tmp_path,
                                                                         monkeypatch):
    book.notebook("tiny", "print(seed)")
    written, asked = [], []

    def execute(source, output, *, values, environment, progress):
        written.append(output.name)
        asked.append((values, Path(environment["CLUSTERBOOK_FIGURES"]).name))
        return new_notebook()

    monkeypatch.setattr(runs, "execute", execute)
    runs.run("tiny", seeds=[0, 3], output=tmp_path / "out.ipynb", figures=tmp_path / "figures")
    assert written == ["out-seed0.ipynb", "out-seed3.ipynb"]
    assert asked == [({}, "seed0"), ({"seed": 3}, "seed3")]


def test_a_kept_notebook_says_what_set_its_parameters(book: Book, tmp_path):
    book.notebook("tiny", "seed")
    runs.run("tiny", overrides={"seed": "5"}, output=tmp_path / "run.ipynb")
    (cell,) = [c for c in nbformat.read(tmp_path / "run.ipynb", as_version=4).cells
               if "injected-parameters" in c.metadata.get("tags", [])]
    first, *rest = cell.source.splitlines()
    assert first.startswith("# Set by clusterbook run") and "cell above" in first
    assert rest == ["seed = 5"]


def test_the_notebook_of_a_recorded_run_says_which_run_it_is(book: Book, tmp_path):
    path = book.notebook("tiny", RECORDS, RECORD)
    path.write_text(path.read_text().replace("# The chapter tiny", "# The chapter tiny\\n\\n"
                                             "The chapter's first words."))
    book.profile("tiny-small", seed=7)
    runs.run("tiny", profile="tiny-small", seeds=[3], records=tmp_path / "records",
             output=tmp_path / "run.ipynb")
    title, head, *rest = nbformat.read(tmp_path / "run.ipynb", as_version=4).cells
    assert title.source == "# tiny-small, seed 3"
    assert "[The chapter tiny](../../notebooks/tiny.ipynb)" in head.source
    assert rest[0].source.startswith("The chapter's first words.")
    record = json.loads((tmp_path / "records" / "tiny-small-seed3.json").read_text())
    for part in (record["started"][:10], record["machine"]["cpu"], record["versions"]["numpy"],
                 "clusterbook run tiny --profile tiny-small --seeds 3 --record out"):
        assert part in head.source, part
    runs.run("tiny", profile="tiny-small", output=tmp_path / "plain.ipynb")
    plain = nbformat.read(tmp_path / "plain.ipynb", as_version=4)
    assert not any("A recorded run" in cell.source for cell in plain.cells)
    book.notebook("tiny", "seed")
    with pytest.raises(runs.ChapterError, match="left no record in"):
        runs.run("tiny", profile="tiny-small", seeds=[4], records=tmp_path / "records",
                 output=tmp_path / "none.ipynb")
