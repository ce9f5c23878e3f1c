"""Running a chapter: strict before it starts, whole or nothing when it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

import nbformat
import pytest
from _support import HANG, SEED, Book, alive, shown, tree, wait_for
from matplotlib.figure import Figure
from nbformat.v4 import new_notebook

from bookledger import cli, execution, load_records, runs
from bookledger.execution import ChapterError
from bookledger.machine import version_of
from clusterbook.checks import InputError
from clusterbook.figures.showing import save

TYPES = f"""\
n: int = 1  # a count | paper: 1 | more
rate: float = 0.5  # a rate | paper: 0.5 | faster
deep: bool = False  # whether | paper: no | deeper
dataset: str = "wine"  # the data | paper: wine | another
seeds: list[int] = []  # further runs | paper: none | more
{SEED}"""
RECORDS = """\
import os, pathlib, time
import bookledger
from clusterbook import paths
evidence = bookledger.page("tiny")
"""
RECORD = "evidence.record({'twice': 2.0 * seed})"


def sources(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


def earlier_run(book: Book, place: Path) -> str:
    """Put an earlier run of the chapter there; its text."""
    earlier = (book.root / "notebooks" / "tiny.ipynb").read_text() + "\n\n"
    place.write_text(earlier, encoding="utf-8")
    return earlier


def test_values_reach_the_notebook_and_nothing_else_changes(book: Book, tmp_path, monkeypatch):
    path = book.notebook(
        "tiny", "import os\nfrom clusterbook import datasets\nX = datasets.read(dataset).X\n"
        "print([n, rate, deep, seeds], X.tolist(), os.listdir())\n"
        "print(os.environ['GLIBC_TUNABLES'])", parameters=TYPES)
    before, stand = book.sources(), tmp_path / "it's {here}"
    (stand / "tables").mkdir(parents=True)
    (stand / "tables" / "'3'.csv").write_text("a,b\n1,2\n3,5\n")
    monkeypatch.chdir(stand)            # files are relative to the person's folder
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=0")
    said = runs.run("tiny", output=Path("new folder/{n} out.ipynb"), overrides={
        "n": "1", "rate": "1e-3", "deep": "true", "dataset": "tables/'3'.csv", "seeds": "0-2,9"})
    output = stand / "new folder" / "{n} out.ipynb"
    assert len(said) == 1 and "{n} out.ipynb" in said[0]
    assert [path.name for path in output.parent.iterdir()] == [output.name]
    assert "[1, 0.001, True, [0, 1, 2, 9]] [[1.0, 2.0], [3.0, 5.0]] []\n" in shown(output)
    assert "hugetlb=0" in shown(output), "a person's own setting is replaced"
    executed = nbformat.read(output, as_version=4)
    cell = executed.cells.pop(2)
    assert cell.metadata["tags"] == ["injected-parameters"]
    assert "\nrate = 0.001\n" in cell.source
    assert "n = 1" not in cell.source, "a value at its default was injected"
    assert [cell.id for cell in executed.cells] == ["tiny-0", "tiny-1", "tiny-2"]
    assert [cell.source for cell in executed.cells] == sources(path)
    assert all("papermill" not in one.metadata for one in [executed, *executed.cells])
    assert book.sources() == before, "a run wrote into the checkout"


def test_a_failure_is_named_and_leaves_an_earlier_output(book: Book, tmp_path):
    output = tmp_path / "out.ipynb"
    for code, kind, says in (
            ("from clusterbook.checks import InputError\nraise InputError('5 clusters')",
             InputError, "5 clusters"),
            ("total = 0\ntotal / 0", ChapterError, "tiny, cell 2 failed: ZeroDivisionError: "
             "division by zero\n    total = 0\n    total / 0"),
            ("import os; os._exit(9)", ChapterError, "tiny failed: its kernel died in the middle "
             "of a cell; probably out of memory")):
        book.notebook("tiny", code)
        earlier = earlier_run(book, output)
        with pytest.raises(kind) as error:
            runs.run("tiny", output=output)
        assert str(error.value) == says
        assert output.read_text() == earlier
        assert [path.name for path in tmp_path.iterdir() if path != book.root] == ["out.ipynb"]


@pytest.mark.parametrize("taken", [1, 100])
def test_a_kernel_whose_port_was_taken_is_started_again(taken, book: Book, tmp_path, monkeypatch):
    def chosen(cache, address):
        tries.append(address)
        with (nullcontext(other) if len(tries) <= taken else socket.create_server((address, 0))
              ) as free:
            return free.getsockname()[1]

    book.notebook("tiny", "print('it ran')")
    output, tries = tmp_path / "out.ipynb", []
    monkeypatch.setattr("jupyter_client.connect.LocalPortCache.find_available_port", chosen)
    with socket.create_server(("127.0.0.1", 0)) as other:
        if taken == 1:
            runs.run("tiny", output=output)
            assert "it ran" in shown(output) and len(tries) == 10
        else:
            with pytest.raises(ChapterError) as error:
                runs.run("tiny", output=output)
            assert str(error.value) == ("tiny failed: its kernel did not start; "
                                        "`python -m ipykernel_launcher` may tell why")
            assert not output.exists() and len(tries) == 15


WAITS = """\
if seed == 1 and pathlib.Path(os.environ['MARK']).parent.is_dir():
    pathlib.Path(os.environ['MARK']).write_text(str(os.getpid()))
    time.sleep(3600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["Ctrl-C", "kill"])
def test_a_stopped_repetition_loses_nothing_and_goes_on(stop, book: Book, tmp_path, monkeypatch,
                                                        capsys):
    book.notebook("tiny", RECORDS, WAITS, RECORD)
    book.profile("tiny-small", seed=7)
    mark, temporary = tmp_path / "block" / "mark", tmp_path / "temporary"
    mark.parent.mkdir()
    temporary.mkdir()
    kept = book.root / "out-seed1.ipynb"
    earlier = earlier_run(book, kept)
    asked = ("run", "tiny", "--profile", "tiny-small", "--seeds", "0-1", "--output", "out.ipynb",
             "--record", "records")

    process = book.start(*asked, MARK=mark, TMPDIR=temporary)
    wait_for(lambda: mark.exists() and mark.read_text(), process)
    if stop == "Ctrl-C":
        os.killpg(process.pid, signal.SIGINT)       # reaches everything in the terminal
    else:
        process.terminate()
    out, err = process.communicate(timeout=HANG)
    assert process.returncode == 130
    assert err.strip() == "clusterbook: interrupted; no partial files left"
    assert not [*(book.root / "_build" / "checkpoints").glob("tiny-*")]
    assert kept.read_text() == earlier
    assert "twice" in "".join(sources(book.root / "out-seed0.ipynb"))
    records = book.root / "records"
    assert [path.name for path in records.glob("*-seed*")] == ["tiny-small-seed0.json"]
    wait_for(lambda: not alive(int(mark.read_text())))
    assert not list(temporary.glob("clusterbook-*")), "a temporary folder was left"
    assert not list(book.root.glob(".out*")), "a partial notebook was left"

    first = (records / "tiny-small-seed0.json").read_bytes()
    monkeypatch.setenv("MARK", str(tmp_path / "no folder" / "mark"))
    monkeypatch.chdir(book.root)
    assert cli.main(list(asked)) == 0
    assert "tiny-small-seed0: recorded already, skipped" in capsys.readouterr().out
    assert (records / "tiny-small-seed0.json").read_bytes() == first
    second = json.loads((records / "tiny-small-seed1.json").read_text())
    assert (second["metrics"], second["seed"], second["parameters"], second["profile"]) == (
        {"twice": 2.0}, 1, {"seed": 1}, "tiny-small")
    assert kept.read_text() != earlier


def test_a_record_is_made_again_when_parameters_or_version_changed(book: Book, tmp_path,
                                                                    monkeypatch):
    cell = SEED + "\nn: int = 1  # a count | paper: 1 | more"
    method = book.write("src/clusterbook/tiny/__init__.py", "VERSION = 1\n")
    edit = f"pathlib.Path({str(method)!r}).write_text('VERSION = 2')"
    path = book.notebook("tiny", RECORDS + edit, RECORD, parameters=cell)
    path.write_text(path.read_text().replace("# The chapter tiny", "# The chapter tiny\\n\\n"
                                             "The chapter's first words."))
    book.profile("tiny-small", n=2)
    records, output = tmp_path / "records", tmp_path / "run.ipynb"
    runs.run("tiny", profile="tiny-small", seeds=[4], records=records, output=output)
    (record,) = load_records(records)
    assert (record.code, version_of("tiny")) == ("tiny 1", "tiny 2"), "not that of the start"

    head = nbformat.read(output, as_version=4).cells[0].source
    assert head.startswith("# tiny-small, seed 4\n")
    for part in ("[The chapter tiny](../../notebooks/tiny.ipynb)",
                 "../records/tiny-small-seed4.json", "The chapter's first words.",
                 "clusterbook run tiny --profile tiny-small --seeds 4 --record out"):
        assert part in head, part

    ran = []
    monkeypatch.setattr(execution, "execute", lambda *args, values, **options: ran.append(values) or
                        new_notebook())

    def again(*seeds: int) -> list[dict]:
        ran.clear()
        with suppress(ChapterError):
            runs.run("tiny", profile="tiny-small", seeds=seeds or [4], records=records)
        return list(ran)

    method.write_text('"""Another docstring."""\nVERSION = 1\n')
    assert again(4, 5) == [{"n": 2, "seed": 5}], "only the seed without a record runs"
    method.write_text("VERSION = 2\n")
    assert again() == [{"n": 2, "seed": 4}], "the numbers changed"
    method.write_text("VERSION = 1\n")
    book.notebook("tiny", RECORDS + edit, RECORD,
                  parameters=cell + "\nlate: int = 3  # a third | paper: no | more")
    assert again() == [], "a parameter that came later is at its default"
    book.profile("tiny-small", n=2, late=4)
    assert again() == [{"n": 2, "seed": 4, "late": 4}], "the profile sets it"
    with pytest.raises(ChapterError, match="left no record in"):
        runs.run("tiny", profile="tiny-small", seeds=[5], records=records, output=output)


def test_a_record_from_a_changed_checkout_is_told(book: Book, tmp_path):
    def git(*arguments):
        subprocess.run(["git", "-C", book.root, "-c", "user.name=a", "-c", "user.email=a@b",
                        *arguments], check=True, capture_output=True)

    book.notebook("tiny", RECORDS, RECORD)
    book.profile("tiny-small")
    book.write(".gitignore", "_build/\n__pycache__/\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "all")
    make = partial(runs.run, "tiny", profile="tiny-small", records=tmp_path / "records")
    assert make(seeds=[1]) == [f"tiny-small-seed1: record in {tmp_path / 'records'}"]
    book.write("new.py", "")
    assert make(seeds=[2])[1:] == [
        "tiny-small-seed2: this record confirms no claim, because the checkout has changed or new "
        "files, which git status names"]


@pytest.fixture
def tiny(book: Book, tmp_path, monkeypatch) -> Book:
    """A chapter that must not run; the person stands in an empty folder."""
    for name in ("tiny", "other"):
        book.notebook(name, "figures.show({}, name='a-line', alt='A.', caption='C.')",
                      parameters=TYPES)
    book.profile("tiny-small", n=2)
    for name in ("bookledger.execution.execute", "bookledger.sweep._make_all"):
        monkeypatch.setattr(name, lambda *args, **options: pytest.fail("the chapter ran"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return book


@pytest.mark.parametrize(("name", "content", "words"), [
    ("my.ipynb", "a,b\n1,2\n", "run tiny --output my.ipynb"),
    ("my-seed1.ipynb", "{}", "run tiny --output my.ipynb --seeds 0-1"),
    ("other.ipynb", "notebooks/other.ipynb", "run tiny --output other.ipynb"),
    ("out/index.html", "<title>my home page</title>", "run tiny --figures out"),
    ("out/index.html", "a folder", "run tiny --figures out"),
    ("out/seed1/a-line.png", "a photo", "run tiny --seeds 0-1 --figures out"),
    ("tiny-small-seed0.json", '{"mine": 1}', "run tiny --profile tiny-small --record ."),
    ("out/sweep.csv", "name,mass\na,1\n", "sweep tiny -p n 1,2 --output out")],
    ids=lambda part: str(part)[:20])
def test_what_lies_in_the_way_is_not_replaced(tiny: Book, capsys, name, content, words):
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if content == "a folder":
        path.mkdir()
    else:
        source = tiny.root / content.partition("\n")[0]
        path.write_bytes(source.read_bytes() if source.is_file() else content.encode())
    before = tree(Path())
    assert cli.main(words.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and name.partition("/")[0] in err and err.count("\n") == 1
    assert tree(Path()) == before


def test_what_the_command_wrote_is_replaced_and_named(tiny: Book, monkeypatch):
    folders, tables = [], []

    def execute(source, output, *, values, environment, progress):
        output.write_bytes(source.read_bytes())
        figure = Figure(figsize=(2, 1))
        figure.subplots().plot([0, 1])
        for name in ("a-line", "another")[:len(folders) + 1]:
            save(figure, Path(environment["CLUSTERBOOK_FIGURES"]), name, "A line.", "C.")
        folders.append((output.name, values))
        tables.append((Path(environment.get("CLUSTERBOOK_TABLES", "none")).name,
                       json.loads(environment["CLUSTERBOOK_RUN"])["output"]))
        return new_notebook()

    monkeypatch.setattr(execution, "execute", execute)
    for output in (Path("out/new.ipynb"), Path("out/new.ipynb"),
                   tiny.root / "notebooks" / "tiny.ipynb"):
        said = runs.run("tiny", output=output, figures=Path("figures"))
        assert said[0] == f"tiny-seed0: notebook in {output}"
    assert tables == [("out", "new")] * 2 + [("figures", None)], (
        "beside the notebook or, where that is a chapter, beside the figures")
    runs.run("tiny", output=Path("out/new.ipynb"), figures=Path("figures"), seeds=[0, 3])
    assert folders[3:] == [("new-seed0.ipynb", {}), ("new-seed3.ipynb", {"seed": 3})]
    assert all(Path("figures", part, "a-line.png").is_file() for part in ("", "seed0", "seed3"))
