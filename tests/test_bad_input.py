"""What a person can get wrong, case by case: one sentence, status 2, no run and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from _support import SEED, Book

from clusterbook import cli
from clusterbook.book import parameters, runs
from clusterbook.errors import InputError
from clusterbook.fingerprint import code_cells

PARAMETERS = f"""\
n: int = 1  # a count | paper: 1 | more
rate: float = 0.5  # how fast | paper: 0.5 | faster
name: str = "digits"  # a text | paper: none | another
seeds: list[int] = []  # further runs | paper: none | more
{SEED}"""
PROFILE = "chapter: tiny\nsays: A small rerun.\nparameters:\n  {}\n"
BIG = "9" * 400
HUGE = "9" * 5000
DEEP = ("(" * 5000 + "1" + ")" * 5000, "-" * 5000 + "1", "+".join("1" * 5000), "[" * 5000,
        "not " * 50_000 + "1")
CASES: dict[str, tuple[Callable[[Book], object] | None, str | list[str], str]] = {}


def case(name: str, words: str | list[str], says: str, made: Callable | None = None) -> None:
    """Enter a case: what is made in the book before, the command's words, what it has to say."""
    assert name not in CASES
    CASES[name] = made, words, says


def profile(text: str | bytes) -> Callable[[Book], object]:
    """A profile's file with that content."""
    content = text if isinstance(text, bytes) else text.encode()
    return lambda book: (book.root / "notebooks/profiles/tiny-x.yaml").write_bytes(content)


def notebook(content: bytes) -> Callable[[Book], object]:
    """A chapter's file with that content."""
    return lambda book: (book.root / "notebooks/tiny.ipynb").write_bytes(content)


# values
case("text for a number", "run tiny -p n many", "n takes int, for example 1, not 'many'")
case("400 digits", f"run tiny -p n {BIG}", "n takes int, for example 1, not '99999")
case("minus 400 digits", f"run tiny -p n -{BIG}", "n takes int, for example 1, not '-99999")
case("400 digits of a float", f"run tiny -p rate {BIG}", "rate takes float")
case("400 digits in a list", f"run tiny -p seeds [{BIG}]", "seeds takes list[int]")
case("5000 digits", f"run tiny -p n {HUGE}", "n takes int")
case("thousands of digits in hex", f"run tiny -p n 0x{'f' * 6000}", "n takes int")
case("400 digits in a sweep", f"sweep tiny -p n 1,{BIG}", "n takes int")
case("no number", "run tiny -p rate nan", "rate takes float")
for i, text in enumerate(DEEP):
    case(f"deep expression {i}", ["run", "tiny", "-p", "n", text],
         "n takes int, for example 1, not '")
    case(f"deep expression {i} in a sweep", ["sweep", "tiny", "-p", "rate", f"1,{text}"],
         "rate takes float")
case("another type", "run tiny -p seed 1.5", "seed takes int, for example 0, not '1.5'")
case("-p for a value", "run tiny --parameter n -p", "n takes int, for example 1, not '-p'")
case("unknown parameter", "run tiny -p sed 1", "parameter of tiny 'sed'; did you mean 'seed'")
case("a parameter twice", "run tiny -p n 1 -p n 2", "-p n is given twice")
case("a parameter of a sweep twice", "sweep tiny -p n 1 -p n 2", "-p n is given twice")
case("a record without a profile", "run tiny --record out", "give --profile and no -p")
case("a record with -p", "run tiny --profile tiny-x -p n 3 --record out", "give --profile and",
     profile(PROFILE.format("n: 2")))
case("unknown chapter", "run tyni", "there is no chapter 'tyni'; did you mean 'tiny'?")
case("unknown data set", "data digits mnits", "data set 'mnits'; did you mean 'mnist'")
# sweeps
case("unknown parameter of a sweep", "sweep tiny -p nn 1,2", "no parameter of tiny 'nn'")
case("text in a sweep", "sweep tiny -p rate -1,fast", "takes float, for example 0.5, not 'fast'")
case("an empty value", "sweep tiny -p n 1,,2", "n takes int, for example 1, not ''")
case("one value twice", "sweep tiny -p rate 0.1,1e-1", "needs one or two parameters with several")
case("three parameters", "sweep tiny -p rate 1,2 -p n 1,2 -p name a,b", "one or two parameters")
case("nine lines", "sweep tiny -p rate 1,2 -p n 1-9", "8 at most, and n has 9 values")
case("seeds by -p", "sweep tiny -p seed 1,2", "with --seeds, for example --seeds 0-4")
case("no processes", "sweep tiny -p n 1,2 --workers 0", "--workers is at least 1")
case("processes of a cluster", "sweep tiny -p n 1,2 --workers 2 --scheduler a:1", "for a cluster")
case("a sweep into a file", "sweep tiny -p n 1,2 --output file", "nothing can be written to file",
     lambda book: Path("file").write_text(""))
# seeds and ranges
case("no number for a seed", "run tiny --seeds a-b", "--seeds takes list[int]")
case("no seed", ["run", "tiny", "--seeds", ""], "--seeds has 0 values; give 1 to 10,000")
for words in ("run other --seeds 0", "sweep other -p n 1,2 --seeds 0"):
    case(f"seeds without a parameter: {words}", words, "no parameter of other 'seed'",
         lambda book: book.notebook("other", "1", parameters=PARAMETERS.partition("\n")[0]))
case("a seed of 5000 digits", f"run tiny --seeds {HUGE}", "--seeds takes list[int]")
case("a range of 5000 digits", f"run tiny --seeds 0-{HUGE}", "--seeds takes list[int]")
case("many seeds", "run tiny --seeds 0-99999999999", "has more than 10,000 values")
case("many seeds in pieces", "run tiny --seeds " + ",".join(f"{i}0000-{i}9999" for i in range(3)),
     "--seeds has 30,000 values; give 1 to 10,000")
case("many seeds by -p", "run tiny -p seeds 0-99999999999", "has more than 10,000 values")
case("many values of a sweep", "sweep tiny -p n 0-99999999999", "has more than 10,000 values")
case("many seeds of a sweep", "sweep tiny -p n 1,2 --seeds 0-99999999999", "than 10,000 values")
case("many runs of a sweep", "sweep tiny -p n 1-5000 --seeds 0-4999", "has 25,000,000 runs")
case("a range backwards", "run tiny --seeds 4-0", "runs backwards")
# profiles
case("unknown profile", "run tiny --profile tiny-y", "there is no profile of tiny 'tiny-y'")
case("profile not UTF-8", "run tiny --profile tiny-x", "profiles/tiny-x.yaml: not YAML: 'utf-8'",
     profile(PROFILE.format("name: \xe9").encode("latin-1")))
case("profile binary", "run tiny --profile tiny-x", "profiles/tiny-x.yaml: not YAML",
     profile(bytes(range(128))))
case("profile a folder", "run tiny --profile tiny-x", "tiny-x.yaml can't be read: Is a directory",
     lambda book: (book.root / "notebooks/profiles/tiny-x.yaml").mkdir())
case("profile a link to itself", "run tiny --profile tiny-x", "profiles/tiny-x.yaml can't be read",
     lambda book: (book.root / "notebooks/profiles/tiny-x.yaml").symlink_to("tiny-x.yaml"))
case("profile with a key twice", "run tiny --profile tiny-x",
     "profiles/tiny-x.yaml: not YAML: the key 'n' stands twice",
     profile(PROFILE.format("n: 1\n  n: 2")))
case("profile with a section twice", "parameters tiny",
     "the key 'parameters' stands twice", profile(PROFILE.format("n: 1\nparameters: {}")))
case("profile with 1:30", "run tiny --profile tiny-x", "n takes int, for example 1, not '1:30'",
     profile(PROFILE.format("n: 1:30")))
case("profile with 1:30.5", "run tiny --profile tiny-x", "for example 0.5, not '1:30.5'",
     profile(PROFILE.format("rate: 1:30.5")))
case("profile with 400 digits", "run tiny --profile tiny-x", "n takes int",
     profile(PROFILE.format(f"n: {BIG}")))
case("profile nested deep", "run tiny --profile tiny-x", "profiles/tiny-x.yaml: not YAML",
     profile(PROFILE.format("n: " + "[" * 20_000)))
# notebooks
for name, content in (
        ("empty", b""), ("no JSON", b"# Title"), ("truncated", b'{"cells": [{"cell_type":'),
        ("nested deep", b"[" * 100_000), ("a list", b"[1, 2]"), ("binary", bytes(range(256))),
        ("a number", b"3"),
        ("without cells", b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}}'),
        ("with no cell", b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}'),
        ("with a number for a cell",
         b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [3]}'),
        ("with cells without a source", b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, '
         b'"cells": [{"cell_type": "code", "id": "a", "metadata": {}}]}'),
):
    for words in ("run tiny", "parameters tiny", "sweep tiny -p n 1,2"):
        case(f"notebook {name}: {words}", words,
             "tiny.ipynb is not a notebook: it is empty, damaged, or of another format",
             notebook(content))
case("notebook a folder", "run tiny", "tiny.ipynb can't be read: Is a directory",
     lambda book: ((book.root / "notebooks/tiny.ipynb").unlink(),
                   (book.root / "notebooks/tiny.ipynb").mkdir()))
case("notebook with two cells of parameters", "run tiny", "2 cells are tagged 'parameters'",
     lambda book: book.notebook("tiny", PARAMETERS, parameters=PARAMETERS, tagged=2))
case("the same in parameters", "parameters tiny", "2 cells are tagged 'parameters'",
     lambda book: book.notebook("tiny", PARAMETERS, parameters=PARAMETERS, tagged=2))
case("parameters nested deep", "parameters tiny", "tiny.ipynb, parameters cell: not Python",
     lambda book: book.notebook("tiny", "1", parameters=f"n: int = {'-' * 5000}1  # a | b | c"))
# settings of the book
case("_config.yml damaged", "site", "_config.yml: not YAML: ",
     lambda book: book.write("_config.yml", "title: [a"))
case("_config.yml a list", "site", "_config.yml: the keys url and branch under repository are miss",
     lambda book: book.write("_config.yml", "- a"))
case("_config.yml damaged before a build", "book", "_config.yml: not YAML: ",
     lambda book: book.write("_config.yml", "title: [a"))
case("_toc.yml damaged", "book", "book/_toc.yml: not YAML",
     lambda book: book.write("book/_toc.yml", "root: [a"))
# time budgets
for words in ("--record out --for 2", "--record out --for h", "--for 2h"):
    case(f"budget {words}", f"run tiny --profile tiny-x {words}", "--for ",
         profile(PROFILE.format("n: 2")))
# paths
LONG = "x" * 300
case("chapter of 300 characters", f"run {LONG}", "there is no chapter 'xxx")
case("chapter that is a path", "run ../notebooks/tiny", "there is no chapter '../notebooks/tiny'")
case("profile of 300 characters", f"run tiny --profile {LONG}", "there is no profile of tiny 'xxx")
case("output of 300 characters", f"run tiny --output {LONG}.ipynb", "name too long")
case("output in a folder of 300 characters", f"run tiny --output {LONG}/a.ipynb", "name too long")
case("figures of 300 characters", f"run tiny --figures {LONG}", "name too long")
case("sweep of 300 characters", f"sweep tiny -p n 1,2 --output {LONG}", "name too long")
case("output that is a folder", "run tiny --output .", "names a notebook")
case("output that is no notebook", "run tiny --output out.csv", "write out.ipynb")
case("output below a file", "run tiny --output file/out.ipynb", "nothing can be written to",
     lambda book: Path("file").write_text(""))
case("figures below a file", "run tiny --figures file/below", "nothing can be written to",
     lambda book: Path("file").write_text(""))
case("output not UTF-8", ["run", "tiny", "--output", "\udcff.ipynb"], "udcff.ipynb'] are not UTF-8")
case("data not UTF-8", ["run", "tiny", "-p", "name", "\udcff.csv"], "are not UTF-8 text; rename")
case("page that is a folder", "run tiny --figures .", "index.html was not written by a run of tiny",
     lambda book: Path("index.html").mkdir())
case("record that is a folder", "run tiny --profile tiny-x --record .", "0.json: Is a directory",
     lambda book: (profile(PROFILE.format("n: 2"))(book), Path("tiny-x-seed0.json").mkdir()))
case("record of the book that is a folder", "scorecard", "x-seed0.json: Is a directory",
     lambda book: (book.root / "data/records/x-seed0.json").mkdir())


@pytest.fixture
def tiny(book: Book, tmp_path, monkeypatch) -> Book:
    """A chapter that must not run; the user stands in an empty folder."""
    book.notebook("tiny", "1 + 1", parameters=PARAMETERS)
    for name in ("execute", "apart"):
        monkeypatch.setattr(runs, name, lambda *args, **options: pytest.fail("the chapter ran"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return book


@pytest.mark.parametrize("name", CASES)
def test_it_is_said_in_one_sentence(tiny: Book, capsys, name):
    made, words, says = CASES[name]
    if made is not None:
        made(tiny)
    status = cli.main(words.split(" ") if isinstance(words, str) else words)
    out, err = capsys.readouterr()
    assert (status, out) == (2, ""), err
    assert err.startswith("clusterbook: ") and err.endswith("\n") and err.count("\n") == 1
    assert says.lower() in err.lower()
    assert len(err) < 700, "a sentence that can be read"


def test_what_looks_odd_and_is_right_is_taken(tiny: Book):
    profile(PROFILE.format("n: 010\n  rate: 1e-3\n  name: '010'"))(tiny)
    typed = {"n": str(2**63 - 1), "name": "(((", "seeds": "0-9999"}
    chapter = parameters.read("tiny")
    values = chapter.values(chapter.profile("tiny-x"))
    assert (values["n"], values["rate"], values["name"]) == (10, 0.001, "010")
    values = chapter.values(chapter.profile("tiny-x"), typed)
    assert (values["n"], values["name"], len(values["seeds"])) == (2**63 - 1, "(((", 10_000)


def test_a_damaged_notebook_has_no_code_to_hash(tiny: Book):
    for content in (b"", b"[1, 2]", b"{}", b'{"cells": [3]}', bytes(range(256))):
        notebook(content)(tiny)
        with pytest.raises(InputError, match=r"tiny\.ipynb is not a notebook"):
            code_cells(tiny.root / "notebooks" / "tiny.ipynb")


# --- consoles that can't show everything, or nothing ---------------------------------------------


def command(words: str, shell: str = "", **environment: str) -> subprocess.CompletedProcess:
    """The command in a process of its own; *shell* is put behind it."""
    return subprocess.run(
        f'"{sys.executable}" -m clusterbook.cli {words} {shell}', shell=True, capture_output=True,
        env={**os.environ, **environment}, check=False)


@pytest.mark.parametrize(("words", "environment"), [
    ("--help", {"PYTHONIOENCODING": "ascii"}), ("run tyni", {"PYTHONIOENCODING": "ascii"}),
    ("data", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})])
def test_every_console_can_show_what_is_printed(words, environment):
    done = command(words, **environment)
    assert b"Traceback" not in done.stderr and done.returncode == (2 if "tyni" in words else 0)
    assert (done.stderr if "tyni" in words else done.stdout).strip()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is full")
@pytest.mark.parametrize(("shell", "says"), [(">/dev/full", b"No space left on device; make room"),
                                             (">&-", b"the standard output is closed; lead it")])
@pytest.mark.parametrize("words", ["--help", "data"])
def test_an_output_that_takes_nothing_is_status_1_and_a_sentence(words, shell, says):
    done = command(words, shell)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1
    assert done.stderr.startswith(b"clusterbook: " + says)


def test_a_mistake_that_nobody_can_hear_of_is_status_2():
    assert command("run tyni", "2>/dev/full").returncode == 2
