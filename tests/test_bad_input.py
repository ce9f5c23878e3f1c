"""What a person can get wrong, case by case: one sentence, status 2, no run and no traceback."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from _support import SEED, Book, record

from bookledger import cli, parameters
from bookledger.records import dumps, read_record
from clusterbook import paths
from clusterbook.checks import InputError

PARAMETERS = f"""\
n: int = 1  # a count | paper: 1 | more
rate: float = 0.5  # how fast | paper: 0.5 | faster
name: str = "digits"  # a text | paper: none | another
seeds: list[int] = []  # further runs | paper: none | more
{SEED}"""
BIG, LONG, DEEP = "9" * 400, "x" * 300, "(" * 5000 + "1" + ")" * 5000
NOT_ONE = "tiny.ipynb is not a notebook: it is empty, damaged, or of another format"
CELLS = '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}%s}'
PROFILE = "notebooks/profiles/tiny-x.toml"

#: What is typed, and what it has to be answered, beside a chapter "tiny".
TYPED = [
    # values
    ("run tiny -p n many", "n takes int, for example 1, not 'many'"),
    (f"run tiny -p seeds [{BIG}]", "seeds takes list[int]"),
    ("run tiny -p sed 1", "unknown parameter of tiny: 'sed'; did you mean 'seed'"),
    (f"run tiny -p n {DEEP}", "n takes int, for example 1, not '"),
    ("run tiny -p n 1 -p n 2", "-p n is given twice"),
    ("run tiny --record out", "give --profile and no -p"),
    *[(f"run {name}", f"unknown chapter: '{name}'; did you mean 'tiny'?")
      for name in ("tyni", "TINY")],
    ("data digits mnits", "unknown data set: 'mnits'; did you mean 'mnist'"),
    *[(f"run tiny {words}", "-p takes a name and a value: -p n 8")
      for words in ("-p n=8", "-p n=8 -p rate=1")],
    ("run tiny -p n", "-p/--parameter: expected 2 arguments; clusterbook run --help"),
    ("runn tiny", "unknown command: 'runn'; did you mean 'run'?"),
    ("run", "required: CHAPTER; clusterbook run --help"),
    ("run tiny --width", "--width: expected one argument"),
    ("run tiny -p seed -1", "seed takes whole numbers from 0 to 4,294,967,295, not -1"),
    ("run tiny --seed 1", "has no option or place for --seed 1"),
    ("run tiny --only all", "--only draws figures; --figures DIR says where to keep them"),
    ("run tiny --bogus 3", "has no option or place for --bogus 3; a parameter is given as -p NAME"),
    ("--bogus status", "clusterbook status has no option or place for --bogus; "),
    ("status -p a -1", "clusterbook status has no option or place for -p a -1; "),
    ("data digits -p labels a", "-p says how a file is read, and no file is named"),
    ("data my.csv -p labels a -p labels b", "-p labels is given twice"),
    ("data .", ". is a folder; a run takes the images of one as -p dataset folder:."),
    ("run tiny --figures out --width 0.5in", "single, double or inches"),
    ("run tiny --figures out --format svg-txt", "did you mean 'svg-text'"),
    ("run tiny --figures out --style drak", "did you mean 'dark'"),
    ("run tiny --figures out --only al", "unknown figure of tiny: 'al'"),
    # sweeps
    ("sweep tiny -p n 1,2 --scheduler foo", "no Dask scheduler with a worker answers at 'foo'"),
    ("sweep tiny -p rate -1,fast", "takes float, for example 0.5, not 'fast'"),
    ("sweep tiny -p n 1,,2", "n takes int, for example 1, not ''"),
    ("sweep tiny -p rate 0.1,1e-1", "needs one or two parameters with several"),
    ("sweep tiny -p rate 1,2 -p n 1,2 -p name a,b", "one or two parameters"),
    ("sweep tiny -p seed 1,2", "with --seeds, for example --seeds 0-4"),
    # seeds and ranges
    *[(f"run tiny --seeds {text}", "--seeds takes whole numbers, for example 0-4 or 0,2,7, not "
       f"'{text}'") for text in ("a-b", "", "0..4", "1.5")],
    ("run tiny --seeds 4-0", "the range '4-0' runs backwards; write 0-4"),
    ("run tiny --seeds 0-10000", "the range '0-10000' has more than 10,000 values"),
    *[(f"{words} --seeds={seed}", f"seed takes whole numbers from 0 to 4,294,967,295, not {seed}")
      for words in ("run tiny", "sweep tiny -p n 1,2") for seed in ("-1", "4294967296")],
    ("run tiny -p seeds 0-99999999999", "has more than 10,000 values"),
    # paths
    ("run ../notebooks/tiny", "unknown chapter: '../notebooks/tiny'"),
    (f"run tiny --profile {LONG}", "unknown profile of tiny: 'xxx"),
    (f"run tiny --output {LONG}.ipynb", "name too long"),
    ("run tiny --output out.csv", "write out.ipynb"),
    ("run tiny --output file/out.ipynb", "nothing can be written to"),
    ("sweep tiny -p n 1,2 --output file", "nothing can be written to file"),
    ("run tiny --output \udcff.ipynb", "udcff.ipynb'] are not UTF-8"),
]
#: Files of the book that are damaged: what is typed, and what it has to be answered.
DAMAGED = [
    *[(PROFILE, content, "run tiny --profile tiny-x", f"tiny-x.toml{says}") for content, says in (
        ("says = '\xe9'".encode("latin-1"), ": not TOML: 'utf-8'"),
        (f"a = {'[' * 20_000}", ": not TOML"), (None, " can't be read: Is a directory"),
        ("says = 'A.'\nsays = 'B.'", ": not TOML: Cannot overwrite a value"),
        ("says = ''\nparameters = {}", ": says: "),
        ("says = 'A.'", ": parameters: Field required"),
        ("says = 'A.'\nparameters = {}\nparamters = {}", ": paramters: "),
        ("says = 'A.'\nparameters = {}\nseeds = [true]", ": seeds.0: "),
        ("says = 'A.'\nparameters = {n = 1}\nassumed = {n = 1}", ": n is both in"))],
    *[(PROFILE, f"says = 'A.'\nparameters = {{{values}}}", "run tiny --profile tiny-x",
       f"tiny-x.toml: {says}") for values, says in (
        ("n = 010", "not TOML: "), (f"n = {BIG}", "n takes int"),
        ("n = 1.5", "n takes int, for example 1, not 1.5"), ("n = true", "n takes int"),
        ("n = '5'", "n takes int"), ("rate = inf", "rate takes"),
        ("seeds = ['0-4']", "seeds takes list[int]"),
        ("nam = 'a'", "unknown parameter of tiny: 'nam'; did you mean 'name'"))],
    *[(PROFILE, "says = 'A.'\nparameters = {n = 2}", f"run tiny {words}", says)
      for words, says in (
          ("--profile tiny-x -p n 3 --record out", "give --profile and"),
          ("--profile tiny-x --record folder", "0.json can't be read: Is"),
          ("--profile tiny-x --record out --for 2", "--for "),
          ("--profile tiny-x --record out --for=", "--for "),
          ("--profile tiny-x --for 2h", "--for "))],
    *[("notebooks/tiny.ipynb", content, "run tiny", NOT_ONE)
      for content in ("", "[" * 100_000, "[1, 2]", bytes(range(256)), CELLS % ', "cells": []',
                      CELLS % ', "cells": [{"cell_type": "code", "id": "a", "metadata": {}}]')],
    *[("notebooks/tiny.ipynb", "{}", words, NOT_ONE)
      for words in ("parameters tiny", "sweep tiny -p n 1,2", "figures tiny")],
    ("notebooks/tiny.ipynb", None, "run tiny", "tiny.ipynb can't be read: Is a directory"),
    *[("data/records/manifest.json", content, "scorecard", f"records/manifest.json: not {kind}")
      for content, kind in (("{", "JSON"), ("[" * 100_000, "JSON"), ("[1]", "a JSON object"))],
    ("book/_toc.yml", "root: [a", "book", "book/_toc.yml: not YAML"),
    ("data/records/x-seed0.json", None, "scorecard", "x-seed0.json can't be read: Is a directory"),
]
#: Chapters whose cells are wrong: settings of ``Book.notebook``.
CHAPTERS = [
    (dict(parameters=PARAMETERS, tagged=2), "run other", "2 cells are tagged 'parameters'"),
    (dict(parameters=f"n: int = {'-' * 10_000}1  # a | b | c"), "parameters other",
     "other.ipynb, parameters cell: line 1: expected 'name: type = literal"),
    *[(dict(parameters=PARAMETERS.partition("\n")[0]), words, "unknown parameter of other: 'seed'")
      for words in ("run other --seeds 0", "sweep other -p n 1,2 --seeds 0")],
]


@pytest.fixture
def tiny(book: Book, tmp_path, monkeypatch) -> Book:
    """A chapter that must not run; the user stands in a folder with a file and a folder."""
    book.notebook("tiny", "1 + 1", parameters=PARAMETERS)
    for name in ("bookledger.execution.execute", "bookledger.sweep._make_all"):
        monkeypatch.setattr(name, lambda *args, **options: pytest.fail("the chapter ran"))
    (tmp_path / "here" / "folder" / "tiny-x-seed0.json").mkdir(parents=True)
    (tmp_path / "here" / "file").touch()
    monkeypatch.chdir(tmp_path / "here")
    return book


@pytest.mark.parametrize(("made", "words", "says"), [
    *[(None, *case) for case in TYPED], *CHAPTERS,
    *[((file, content), *case) for file, content, *case in DAMAGED],
], ids=lambda text: str(text)[:40])
def test_cli_reports_invalid_input(tiny: Book, capsys, made, words, says):
    if isinstance(made, dict):
        tiny.notebook("other", "1", **made)
    elif made:
        path, content = tiny.root / made[0], made[1]
        path.unlink(missing_ok=True)
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    status = cli.main(words.split(" "))
    out, err = capsys.readouterr()
    assert (status, out) == (2, ""), err
    assert err.startswith("clusterbook: ") and err.endswith("\n") and err.count("\n") == 1
    assert says.lower() in err.lower()
    assert len(err) < 700, "a sentence that can be read"


def test_what_looks_odd_and_is_right_is_taken(tiny: Book):
    tiny.profile("tiny-x", n=10, rate=1e-3, name="010")
    typed = {"n": str(2**63 - 1), "name": "(((", "seeds": "0-9999"}
    chapter = parameters.read("tiny")
    values = chapter.values(chapter.profile("tiny-x"), typed)
    assert (values["n"], values["rate"], values["name"]) == (2**63 - 1, 0.001, "(((")
    assert len(values["seeds"]) == 10_000


def test_a_record_reads_its_profile_as_the_run_did(tiny: Book):
    tiny.profile("tiny-x", n=10, rate=1, name="yes", seeds=[0, 1, 2])
    chapter, path = parameters.read("tiny"), tiny.root / "tiny-x-seed0.json"
    values = chapter.values(chapter.profile("tiny-x"))
    assert repr(values["rate"]) == "1.0"
    for changes, doubts in (({}, ()), ({"rate": 0.002, "name": "no"}, ("rate", "name"))):
        made = record(chapter="tiny", profile="tiny-x", parameters=values | changes)
        path.write_text(dumps(made), encoding="utf-8")
        assert read_record(path).doubts == tuple(
            f"a run's parameters differ from its profile: {', '.join(doubts)}" for _ in doubts[:1])


@pytest.mark.parametrize(("name", "changed", "said"), [
    *((name, "dataset = 'wine'", "^wine (is a table|has no images)")
      for name in ("comparison", "deepcluster", "tell", "weights")),
    ("idc", "ae_pretrain_epochs = 5", "^ae_pretrain_epochs is 5; gates train only")])
def test_a_chapter_refuses_what_it_has_no_use_for_before_training(name, changed, said):
    page = parameters.read_notebook(paths.root() / "notebooks" / f"{name}.ipynb")
    cells = [cell.source for cell in page.cells if cell.cell_type == "code"]
    tagged, load = (next(source for source in cells if text in source)
                    for text in ("@param", "data = datasets.load(dataset"))
    names, parts, before = {}, (ast.Import, ast.ImportFrom), cells[:cells.index(load)]
    imports = [node for source in before for node in ast.parse(source).body
               if isinstance(node, parts)]
    refuses = [source for source in before if "raise InputError" in source]
    exec(f"import numpy as np\n{tagged}\n{changed}\n{ast.unparse(imports)}", names)
    with pytest.raises(InputError, match=said):
        exec("\n".join([*refuses, load]), names)


@pytest.mark.parametrize(("words", "environment", "status", "says"), [
    ("--help", {"PYTHONIOENCODING": "ascii"}, 0, b""),
    ("run tyni", {"PYTHONIOENCODING": "ascii"}, 2, b"unknown chapter"),
    ("data", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, 0, b""),
    ("data >/dev/full", {}, 1, b"No space left on device; make room")])
def test_every_console_can_show_what_is_printed_or_the_status_says_so(words, environment, status,
                                                                      says):
    if "/dev/full" in words and not Path("/dev/full").exists():
        pytest.skip("only Linux has a device that is full")
    done = subprocess.run(f'"{sys.executable}" -m clusterbook {words}', shell=True, check=False,
                          capture_output=True, env=os.environ | environment)
    assert done.returncode == status and says in done.stderr
    assert done.stderr.count(b"\n") == bool(says), "a traceback"


def test_output_that_nobody_reads_any_more_is_no_mistake():
    with subprocess.Popen([sys.executable, "-m", "clusterbook", "data"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert (process.wait(), process.stderr.read()) == (0, b"")
